import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { chunksOf } from '#base/chunks.ts'
import { writeAll } from '#base/disk.ts'
import { Problem } from '#base/problem.ts'
import { watchStall } from '#base/timeouts.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { BodyStream } from './route.ts'

type Received = { size: number; sha256: string }

type Options = {
  body: BodyStream
  /** A new file. */
  path: string
  maxBytes: number
  freeSpace: Pick<FreeSpace, 'require'>
  stallMs: number
  signal: AbortSignal
  /**
   * Called with the size of the file after each chunk, and waited for: the body is read no faster. With it, the file is not
   * synced.
   */
  onWritten?: ((bytes: number) => Promise<void>) | undefined
}

const mib = 1024 * 1024
const measuredEveryBytes = 64 * mib

/**
 * Writes a body to a new file as it arrives, and syncs it. Throws `body_too_large`, `storage_full`, `request_timed_out`
 * when no data arrives, and `malformed_request` when the client has gone before the end.
 */
export async function receiveFile(options: Options): Promise<Received> {
  const { body, path, maxBytes, freeSpace, stallMs, signal, onWritten } = options
  await freeSpace.require(body.declaredBytes)
  await using file = await open(path, 'wx', 0o600)
  let isWaiting = true
  using stall = watchStall(stallMs, () => isWaiting, signal)
  const hash = createHash('sha256')
  let [size, measuredAt] = [0, 0]
  let syncing = Promise.resolve()
  for await (const chunk of bodyChunks(body.open(), stall.signal)) {
    stall.progress()
    size += chunk.length
    if (size > maxBytes) throw tooLarge(maxBytes)
    if (size - measuredAt > measuredEveryBytes) {
      measuredAt = size
      await freeSpace.require()
      if (!onWritten) {
        // A disk that lagged behind would keep the client waiting at the end, when git-lfs waits for only half a minute.
        await syncing
        syncing = file.datasync()
        // It is awaited later, or never when the body is refused.
        syncing.catch(() => {})
      }
    }
    const writing = writeAll(file, chunk)
    hash.update(chunk)
    await writing
    isWaiting = false
    await onWritten?.(size)
    isWaiting = true
    stall.progress()
  }
  const { declaredBytes = size } = body
  if (declaredBytes !== size) throw incomplete()
  await syncing
  if (!onWritten) await file.sync()
  return { size, sha256: hash.digest('hex') }
}

/** Rejects a body that is declared as too large. */
export function assertDeclaredSize({ declaredBytes = 0 }: BodyStream, maxBytes: number): void {
  if (declaredBytes > maxBytes) throw tooLarge(maxBytes)
}

async function* bodyChunks(stream: Readable, signal: AbortSignal): AsyncGenerator<Buffer> {
  try {
    // Leaves the stream open: the response needs its socket.
    yield* chunksOf(stream, signal)
  } catch (error) {
    signal.throwIfAborted()
    throw incomplete(error)
  }
}

function tooLarge(maxBytes: number): Problem {
  return new Problem('body_too_large', `The file may have at most ${maxBytes} bytes.`)
}

function incomplete(cause?: unknown): Problem {
  const detail = 'The body ended before it was complete; nothing was stored.'
  return new Problem('malformed_request', detail, { cause })
}
