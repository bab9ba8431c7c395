import { createWriteStream } from 'node:fs'
import { open, statfs } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createBackoff } from '#base/concurrency/backoff.ts'
import { codeOf } from '#base/error-code.ts'
import { toSize } from '#base/format.ts'
import type { SourceHeader } from '../runner-api/runner-api.ts'
import type { SourceRequest } from '../workflow-engine/run-state.ts'
import { type RunConnection, RunLostError } from './run-connection.ts'
import { describeError, limitStall, RefusedRequestError, requestBackoff } from './server-client.ts'

/** Commits could not be fetched. Readers of the run see the message. */
class SourceError extends Error {
  override readonly name = 'SourceError'
}

const responseTimeoutMs = 60_000
const stallTimeoutMs = 30_000
const maxAttempts = 5
const spaceCheckedEveryBytes = 16 * 1024 * 1024

type Options = {
  connection: Pick<RunConnection, 'open'>
  /** The commit of the run. */
  commit: string
  request: SourceRequest
  /** The file to write. */
  path: string
  maxBytes: number
  /** Bytes that must stay free on the disk. */
  freeSpaceMinBytes: number
  signal: AbortSignal
}

/** Fetches commits with their files. Throws a SourceError or a RunLostError. */
export async function fetchSource(options: Options): Promise<SourcePack> {
  const { connection, commit, request, signal } = options
  const backoff = createBackoff(requestBackoff)
  for (let attempt = 1; ; attempt++) {
    try {
      const response = await connection.open({
        method: 'GET',
        path: `/source${toQuery(request)}`,
        timeoutMs: responseTimeoutMs,
        signal,
      })
      await store(response, options)
      return await openSourcePack(options.path)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof RunLostError) throw error
      const isFinal =
        error instanceof SourceError || error instanceof RefusedRequestError || isOfDisk(error)
      if (isFinal || attempt === maxAttempts) {
        throw new SourceError(
          `${request.ref ?? `The commit ${commit}`} could not be fetched: ${describeError(error)}`,
          { cause: error },
        )
      }
      await backoff.pause(signal)
    }
  }
}

function toQuery({ ref, depth, tags }: SourceRequest): string {
  const query = new URLSearchParams({
    ...(ref !== undefined && { ref }),
    ...(depth !== 1 && { depth: String(depth) }),
    ...(tags && { tags: 'true' }),
  })
  return query.size === 0 ? '' : `?${query}`
}

async function store(response: IncomingMessage, options: Options): Promise<void> {
  const { path, maxBytes, freeSpaceMinBytes, signal } = options
  limitStall(response, stallTimeoutMs)
  async function* bounded(chunks: AsyncIterable<Buffer>) {
    let bytes = 0
    let checkedAt = -Infinity
    for await (const chunk of chunks) {
      bytes += chunk.length
      if (bytes > maxBytes) {
        throw new SourceError(
          `It is larger than ${toSize(maxBytes)}, the limit of SVC_STEP_FILE_MAX.`,
        )
      }
      if (bytes - checkedAt > spaceCheckedEveryBytes) {
        checkedAt = bytes
        await assertSpace(dirname(path), freeSpaceMinBytes)
      }
      yield chunk
    }
  }
  await pipeline(response, bounded, createWriteStream(path, { mode: 0o600 }), { signal })
}

async function assertSpace(folder: string, minBytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder)
  if (bavail * bsize < minBytes) throw new SourceError('The disk of the runner is full.')
}

function isOfDisk(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'EIO' || code === 'EROFS'
}

/** The commits that the jobs of a run share, each in a file of a folder that is removed after the run. */
type SourceCache = {
  get: (request: SourceRequest) => Promise<SourcePack>
  /** Waits until nothing is fetched any more. */
  settled: () => Promise<void>
}

/** Creates a cache; `fetch` writes what was not requested before to a file. */
export function createSourceCache(
  folder: string,
  fetch: (request: SourceRequest, path: string) => Promise<SourcePack>,
): SourceCache {
  const sources = new Map<string, Promise<SourcePack>>()
  return {
    get(request) {
      const key = JSON.stringify([request.ref ?? null, request.depth, request.tags])
      const known = sources.get(key)
      if (known !== undefined) return known
      const source = fetch(request, join(folder, `source-${sources.size}`))
      sources.set(key, source)
      // Jobs that check out report a failure; there may be none.
      source.catch(() => {})
      return source
    },

    async settled() {
      await Promise.allSettled(sources.values())
    },
  }
}

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
