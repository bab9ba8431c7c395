import { constants, createZstdCompress, zstdCompressSync } from 'node:zlib'
import type { HeldRun } from './run-by-hand.ts'
import { type Answer, type Client, toAnswer } from './service.ts'
import { tarOf as tarOfEntries } from './tar.ts'

export const contentType = 'application/zstd'

/** Sends a content as a runner does; `path` is below that of the run. */
export async function put(
  run: Pick<HeldRun, 'own' | 'path'>,
  path: string,
  content: Buffer | ReadableStream<Uint8Array>,
): Promise<Answer> {
  const response = await fetch(`${run.own.url}${run.path}/${path}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${run.own.token}`, 'content-type': contentType },
    body: content instanceof Buffer ? new Uint8Array(content) : content,
    duplex: 'half',
  } as RequestInit)
  return toAnswer(response)
}

/** Gets a content. */
export async function getBytes(client: Client, path: string) {
  const headers = { authorization: `Bearer ${client.token}` }
  const response = await fetch(client.url + path, { headers })
  const bytes = Buffer.from(await response.arrayBuffer())
  return { status: response.status, headers: response.headers, bytes }
}

/** A tar archive with one file, compressed with zstd, as runners send it. */
export function archiveOf(name: string, text: string): Buffer {
  return zstdCompressSync(tarOf(name, text))
}

/** The same with a window that a reader would need much memory for. */
export async function hungryArchive(): Promise<Buffer> {
  const params = {
    [constants.ZSTD_c_windowLog]: 27,
    [constants.ZSTD_c_enableLongDistanceMatching]: 1,
  }
  const compress = createZstdCompress({ params })
  compress.end(Buffer.alloc(200 * 1024 * 1024))
  return Buffer.concat(await compress.toArray())
}

/** A tar archive with one file. */
export function tarOf(name: string, text: string): Buffer {
  return Buffer.concat([...tarOfEntries([{ name, content: text }])])
}
