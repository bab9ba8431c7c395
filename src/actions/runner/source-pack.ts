import { open } from 'node:fs/promises'
import type { SourceHeader } from '../runner-api/runner-api.ts'

/** A file with commits: a line with the header, then a pack. */
export type SourcePack = {
  path: string
  header: SourceHeader
  /** Where the pack begins, in bytes. */
  packStart: number
}

// A line for each ref of a large repository has some 100 bytes.
const headerMaxBytes = 256 * 1024 ** 2
const chunkBytes = 64 * 1024

/** Reads the header of a file with commits. Throws when there is none. */
export async function openSourcePack(path: string): Promise<SourcePack> {
  await using file = await open(path)
  const chunks: Buffer[] = []
  let bytes = 0
  for (;;) {
    const { bytesRead, buffer } = await file.read({ buffer: Buffer.alloc(chunkBytes) })
    const chunk = buffer.subarray(0, bytesRead)
    const end = chunk.indexOf(0x0a)
    chunks.push(end === -1 ? chunk : chunk.subarray(0, end))
    if (end !== -1) {
      const header = parseHeader(Buffer.concat(chunks).toString('utf8'))
      return { path, header, packStart: bytes + end + 1 }
    }
    bytes += bytesRead
    if (bytesRead === 0 || bytes > headerMaxBytes) throw new Error(noHeader)
  }
}

const noHeader = 'The response has no header.'

function parseHeader(line: string): SourceHeader {
  try {
    return JSON.parse(line)
  } catch (error) {
    throw new Error(noHeader, { cause: error })
  }
}
