import type { FileHandle } from 'node:fs/promises'
import { Writable } from 'node:stream'
import { orAborted } from '../../base/timeouts.ts'
import type { PipeEnd } from '../../git/protocol/pipe-process.ts'

export type ResponsePipe = ReturnType<typeof createResponsePipe>

/** A piece of a response. The reader calls `done` when it no longer needs the bytes. */
export type ResponsePiece = { bytes: Buffer; done: () => void }

/** Reads a response from its start, at its own speed. */
export type ResponseReader = Disposable & {
  /** The next piece, as soon as there is one; undefined at the end. */
  next: (signal: AbortSignal) => Promise<ResponsePiece | undefined>
  /** How the git process that wrote the response ended; undefined until then. */
  ended: () => PipeEnd | undefined
}

type Options = {
  /** Opens a file that disappears when it is closed. */
  openFile: () => Promise<FileHandle>
  /** Whether the whole response should stay readable when it exceeds memory; called as it grows. */
  isWanted: () => boolean
  /** Called when the last reader has left. */
  onUnread: () => void
}

// Kept in memory from the start, for readers that join a moment later.
const headBytes = 2 * 1024 * 1024
// How far a response that is not in a file may be ahead of its slowest reader.
const windowBytes = 512 * 1024
const batchBytes = 256 * 1024

/**
 * A response with one writer and many readers. Its beginning is in memory. Beyond that, a wanted response moves to a
 * file and grows at git's speed; any other grows at the speed of its slowest reader, and no further reader can join.
 */
export function createResponsePipe({ openFile, isWanted, onUnread }: Options) {
  const readers = new Set<{ at: number }>()
  let pieces: Buffer[] = []
  // The offset of the first piece. Earlier bytes are in the file, or no reader needs them.
  let piecesAt = 0
  let size = 0
  let file: FileHandle | undefined
  let isWhole = true
  let ended: PipeEnd | undefined
  let failure: Error | undefined
  let holds = 0
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

  async function add(bytes: Buffer): Promise<void> {
    pieces.push(bytes)
    size += bytes.length
    wakeReaders()
    if (isWhole && size - piecesAt < (file ? batchBytes : headBytes)) return
    if (isWhole && isWanted() && (await moveToFile())) return
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
      file ??= await openFile()
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

  async function nextFor(
    reader: { at: number },
    signal: AbortSignal,
  ): Promise<ResponsePiece | undefined> {
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
      if (ended) return undefined
      await orAborted(grown.promise, signal)
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
    hasEnded: () => ended !== undefined,
    hasFile: () => file !== undefined,
    /** Whether a new reader can read all of it. */
    isWhole: () => isWhole && !failure,
    readers: () => readers.size,

    /** Moves all bytes to a file; false when that fails. Only for a complete response. */
    store: async () => isWhole && (pieces.length === 0 || (await moveToFile())),

    /** Opens a reader. Only while `isWhole`. */
    read(): ResponseReader {
      const reader = { at: 0 }
      const held = hold()
      readers.add(reader)
      return {
        next: (signal) => nextFor(reader, signal),
        ended: () => ended,
        [Symbol.dispose]() {
          readers.delete(reader)
          held[Symbol.dispose]()
          wakeWriter()
          if (readers.size === 0) onUnread()
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

async function readPiece(file: FileHandle, from: number, to: number): Promise<ResponsePiece> {
  const buffer = spareBuffers.pop() ?? Buffer.allocUnsafeSlow(batchBytes)
  const { bytesRead } = await file.read(buffer, 0, Math.min(batchBytes, to - from), from)
  if (bytesRead === 0) throw new Error('The file of a cached response was truncated.')
  return {
    bytes: buffer.subarray(0, bytesRead),
    done: () => void (spareBuffers.length < maxSpareBuffers && spareBuffers.push(buffer)),
  }
}
