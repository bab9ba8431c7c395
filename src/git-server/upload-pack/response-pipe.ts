import type { FileHandle } from 'node:fs/promises'
import { Writable } from 'node:stream'
import { watchDrain } from '../../base/chunks.ts'
import { orAborted } from '../../base/timeouts.ts'
import type { PipeEnd, ResponseSink } from '../../git/protocol/pipe-process.ts'
import type { Spool } from './spool.ts'

export type ResponsePipe = ReturnType<typeof createResponsePipe>

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

/** Bytes of a response; `done` is called when they are no longer needed. */
type Piece = { bytes: Buffer; done: () => void }

// Kept in memory from the start, for readers that join a moment later.
const headBytes = 2 * 1024 * 1024
// How far a response that is not in a file may be ahead of its slowest reader.
const windowBytes = 512 * 1024
const batchBytes = 256 * 1024

/**
 * A response with one writer and many readers. Its beginning is in memory. Beyond that, a response that is shared or was
 * requested before is spooled to a file and grows at git's speed; any other grows at the speed of its slowest reader, and
 * no further reader can join.
 */
export function createResponsePipe({ spool, maxBytes, isRepeated }: Options) {
  const readers = new Set<{ at: number }>()
  let pieces: Buffer[] = []
  // The offset of the first piece. Earlier bytes are in the file, or no reader needs them.
  let piecesAt = 0
  let size = 0
  let file: FileHandle | undefined
  let isWhole = true
  let isShared = isRepeated
  let ended: PipeEnd | undefined
  let failure: Error | undefined
  let holds = 0
  const unread = new AbortController()
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

  const isSpooled = () => !spool.isFull() && (readers.size > 1 || (isShared && size <= maxBytes))

  async function add(bytes: Buffer): Promise<void> {
    pieces.push(bytes)
    size += bytes.length
    wakeReaders()
    if (isWhole && size - piecesAt < (file ? batchBytes : headBytes)) return
    if (isWhole && isSpooled() && (await moveToFile())) return
    isWhole = false
    for (;;) {
      dropRead()
      if (size - piecesAt < windowBytes) return
      await wasRead.promise
    }
  }

  /** Whether all is in the file now. */
  async function moveToFile(): Promise<boolean> {
    // The last other hold may be released meanwhile.
    using _hold = hold()
    try {
      file ??= await spool.open()
      await writeAll(file, Buffer.concat(pieces), piecesAt)
    } catch {
      // The disk may be full. Present readers are still served from memory.
      return false
    }
    pieces = []
    piecesAt = size
    return true
  }

  function dropRead(): void {
    const least = Math.min(size, ...[...readers].map(({ at }) => at))
    for (let [first] = pieces; first && piecesAt + first.length <= least; [first] = pieces) {
      piecesAt += first.length
      pieces.shift()
    }
  }

  function pieceAt(at: number): Buffer {
    let start = piecesAt
    for (const piece of pieces) {
      if (at < start + piece.length) return piece.subarray(at - start)
      start += piece.length
    }
    throw new RangeError(`No byte ${at} in a response of ${size} bytes.`)
  }

  /** The next piece for a reader, as soon as there is one, or the end. */
  async function next(reader: { at: number }, signal: AbortSignal): Promise<Piece | PipeEnd> {
    for (;;) {
      signal.throwIfAborted()
      if (reader.at < size) {
        const isFiled = reader.at < piecesAt
        const piece =
          isFiled && file
            ? await readPiece(file, reader.at, piecesAt)
            : { bytes: pieceAt(reader.at), done() {} }
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
      const isWritable = output.write(piece.bytes, (error) => error || piece.done())
      if (!isWritable) await draining.wait()
      onProgress()
    }
  }

  /** Keeps the file open until disposed. */
  function hold(): Disposable {
    holds += 1
    return {
      [Symbol.dispose]() {
        holds -= 1
        if (holds > 0) return
        void file?.close()
        file = undefined
      },
    }
  }

  return {
    /** Receives the response. */
    output: new Writable({
      highWaterMark: batchBytes,
      write: (bytes, _encoding, done) => void add(bytes).then(() => done(), done),
    }),

    /** Marks the response complete. */
    end(end: PipeEnd): void {
      ended = end
      wakeReaders()
    },

    /** Marks the response failed: readers get the error. */
    fail(error: Error): void {
      failure = error
      wakeReaders()
    },

    hold,
    size: () => size,
    hasFile: () => file !== undefined,
    /** Whether a new reader can read all of it. */
    isWhole: () => isWhole && !failure,

    /** Moves all bytes to a file; false when that fails. Only for a complete response. */
    store: async () => isWhole && (pieces.length === 0 || (await moveToFile())),

    /** Aborted when the last reader leaves before the end. */
    unread: unread.signal,

    /** Opens a reader. Only while `isWhole`. */
    read(): ResponseReader {
      const reader = { at: 0 }
      const held = hold()
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
  }
}

async function writeAll(file: FileHandle, bytes: Buffer, at: number): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    const rest = bytes.length - written
    written += (await file.write(bytes, written, rest, at + written)).bytesWritten
  }
}

const maxSpareBuffers = 8
const spareBuffers: Buffer[] = []

async function readPiece(file: FileHandle, from: number, to: number): Promise<Piece> {
  const buffer = spareBuffers.pop() ?? Buffer.allocUnsafeSlow(batchBytes)
  const { bytesRead } = await file.read(buffer, 0, Math.min(batchBytes, to - from), from)
  if (bytesRead === 0) throw new Error('The file of a cached response was truncated.')
  return {
    bytes: buffer.subarray(0, bytesRead),
    done: () => void (spareBuffers.length < maxSpareBuffers && spareBuffers.push(buffer)),
  }
}
