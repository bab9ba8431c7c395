import { Writable } from 'node:stream'
import { watchDrain } from '#base/chunks.ts'
import { orAborted } from '#base/timeouts.ts'
import { writeBudget } from '#base/write-budget.ts'
import type { PipeEnd, ResponseSink } from '#git/protocol/pipe-process.ts'
import type { Spool } from './spooled-bytes.ts'
import { createSpooledBytes, type SpooledPiece } from './spooled-bytes.ts'

/** A response with one writer and many readers. */
export type ResponsePipe = {
  /** Receives the response. */
  output: Writable
  /** Aborted when the last reader leaves before the end. */
  unread: AbortSignal
  /** Marks the response complete. */
  end: (end: PipeEnd) => void
  /** Marks the response failed: readers get the error. */
  fail: (error: Error) => void
  /** Opens a reader. Only while `isComplete`. */
  read: () => ResponseReader
  size: () => number
  /** Whether a new reader can read all of it. */
  isComplete: () => boolean
  hasFile: () => boolean
  /** Moves all bytes to a file; false when that fails. Only for a complete response. */
  store: () => Promise<boolean>
  /** Keeps the file open until disposed. */
  hold: () => Disposable
}

/** Reads a response from its start, at its own speed. */
export type ResponseReader = Disposable & {
  /** Writes the response to a sink as it grows. Resolves with how the git process that wrote it ended. */
  copyTo: (sink: ResponseSink) => Promise<PipeEnd>
}

type Options = {
  spool: Spool
  /** A larger response is spooled only while it has several readers. */
  maxBytes: number
  /** Whether it was requested before, and so will be again. */
  isRepeated: boolean
}

// Kept in memory from the start, for readers that join a moment later.
const headBytes = 2 * 1024 * 1024
// How far a response that is not in a file may be ahead of its slowest reader.
const windowBytes = 512 * 1024
const batchBytes = 256 * 1024

/**
 * Creates a pipe. Its beginning is in memory. Beyond that, a response that is shared or was requested before is spooled
 * to a file and grows at git's speed; any other grows at the speed of its slowest reader, and no further reader can join.
 */
export function createResponsePipe({ spool, maxBytes, isRepeated }: Options): ResponsePipe {
  const bytes = createSpooledBytes(spool)
  const readers = new Set<{ at: number }>()
  const unread = new AbortController()
  let isComplete = true
  let isShared = isRepeated
  let ended: PipeEnd | undefined
  let failure: Error | undefined
  let grown = Promise.withResolvers<void>()
  let wasRead = Promise.withResolvers<void>()

  function wakeReaders(): void {
    grown.resolve()
    grown = Promise.withResolvers()
  }

  function wakeWriter(): void {
    wasRead.resolve()
    wasRead = Promise.withResolvers()
  }

  const isSpooled = () =>
    !spool.isFull() && (readers.size > 1 || (isShared && bytes.size() <= maxBytes))

  async function append(chunk: Buffer): Promise<void> {
    bytes.append(chunk)
    wakeReaders()
    if (isComplete && bytes.inMemory() < (bytes.hasFile() ? batchBytes : headBytes)) return
    if (isComplete && isSpooled() && (await bytes.moveToFile())) return
    isComplete = false
    for (;;) {
      bytes.dropBefore(Math.min(bytes.size(), ...[...readers].map(({ at }) => at)))
      if (bytes.inMemory() < windowBytes) return
      await wasRead.promise
    }
  }

  /** The next piece for a reader, as soon as there is one, or the end. */
  async function next(
    reader: { at: number },
    signal: AbortSignal,
  ): Promise<SpooledPiece | PipeEnd> {
    for (;;) {
      signal.throwIfAborted()
      if (reader.at < bytes.size()) {
        const piece = await bytes.read(reader.at)
        reader.at += piece.bytes.length
        wakeWriter()
        return piece
      }
      if (failure) throw failure
      if (ended) return ended
      await orAborted(grown.promise, signal)
    }
  }

  async function copy(reader: { at: number }, sink: ResponseSink): Promise<PipeEnd> {
    const { output, signal, onBegin, onProgress } = sink
    using draining = watchDrain(output, signal)
    for (let isFirst = true; ; isFirst = false) {
      const piece = await next(reader, signal)
      if (!('bytes' in piece)) return piece
      if (isFirst) onBegin()
      onProgress()
      await writeBudget(piece.bytes.length)
      const isWritable = output.write(piece.bytes, (error) => error || piece.done())
      if (!isWritable) await draining.wait()
      onProgress()
    }
  }

  return {
    output: new Writable({
      highWaterMark: batchBytes,
      write: (chunk, _encoding, done) => void append(chunk).then(() => done(), done),
    }),
    unread: unread.signal,

    end(end) {
      ended = end
      wakeReaders()
    },

    fail(error) {
      failure = error
      wakeReaders()
    },

    read() {
      const reader = { at: 0 }
      const held = bytes.hold()
      readers.add(reader)
      isShared ||= readers.size > 1
      return {
        copyTo: (sink) => copy(reader, sink),
        [Symbol.dispose]() {
          readers.delete(reader)
          held[Symbol.dispose]()
          wakeWriter()
          if (readers.size === 0 && !ended)
            unread.abort(new Error('The last reader of this response has left.'))
        },
      }
    },

    size: bytes.size,
    isComplete: () => isComplete && !failure,
    hasFile: bytes.hasFile,
    store: async () => isComplete && (await bytes.moveToFile()),
    hold: bytes.hold,
  }
}
