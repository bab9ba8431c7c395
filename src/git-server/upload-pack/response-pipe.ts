import type { FileHandle } from 'node:fs/promises'
import { Writable } from 'node:stream'
import { orAborted } from '../../base/timeouts.ts'
import type { PipeEnd } from '../../git/protocol/pipe-process.ts'

export type ResponsePipe = ReturnType<typeof createResponsePipe>

/** A piece of an answer. Whoever has it calls `done` when its bytes are needed no more. */
export type ResponsePiece = { bytes: Buffer; done: () => void }

/** One who reads an answer from its start, at a speed of their own. */
export type ResponseReader = Disposable & {
  /** The next piece, as soon as there is one; undefined at the end. */
  next: (signal: AbortSignal) => Promise<ResponsePiece | undefined>
  /** How git has ended that gave the answer. Only at the end. */
  ended: () => PipeEnd | undefined
}

type Options = {
  /** Opens a file that is gone when it is closed. */
  openFile: () => Promise<FileHandle>
  /** Whether all of the answer should stay readable though memory has no room for it; asked as it grows. */
  isWanted: () => boolean
  /** Called when nobody reads any more. */
  onUnread: () => void
}

// What is there from the start for whoever comes a moment later.
const headBytes = 2 * 1024 * 1024
// What an answer that is read by few is ahead of them.
const windowBytes = 512 * 1024
const batchBytes = 256 * 1024

/**
 * An answer that one git gives and many read. Its beginning is in memory, then all of it in a file, if it is wanted: it
 * then grows as fast as git makes it. Else it grows as fast as all read it who have begun, and nobody else can.
 */
export function createResponsePipe({ openFile, isWanted, onUnread }: Options) {
  const readers = new Set<{ at: number }>()
  let pieces: Buffer[] = []
  // Where in the answer the first of them begins. Before it is what the file has, or nobody needs.
  let piecesAt = 0
  let size = 0
  let file: FileHandle | undefined
  let isWhole = true
  let ended: PipeEnd | undefined
  let fault: Error | undefined
  let holders = 0
  let grown = Promise.withResolvers<void>()
  let wasRead = Promise.withResolvers<void>()

  function tellReaders(): void {
    grown.resolve()
    grown = Promise.withResolvers()
  }

  function tellWriter(): void {
    wasRead.resolve()
    wasRead = Promise.withResolvers()
  }

  async function add(bytes: Buffer): Promise<void> {
    pieces.push(bytes)
    size += bytes.length
    tellReaders()
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
    // Whoever else holds it may leave meanwhile.
    using _held = hold()
    try {
      file ??= await openFile()
      await writeAll(file, Buffer.concat(pieces), piecesAt)
    } catch {
      // The disk may be full. What is in memory goes on to those who read.
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
    throw new RangeError(`There is no byte ${at} in an answer of ${size}.`)
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
        tellWriter()
        return piece
      }
      if (fault) throw fault
      if (ended) return undefined
      await orAborted(grown.promise, signal)
    }
  }

  /** Keeps the file open. */
  function hold(): Disposable {
    holders += 1
    return {
      [Symbol.dispose]() {
        holders -= 1
        if (holders > 0) return
        void file?.close()
        file = undefined
      },
    }
  }

  return {
    /** Takes the answer. */
    output: new Writable({
      highWaterMark: batchBytes,
      write: (bytes, _encoding, done) => void add(bytes).then(() => done(), done),
    }),

    /** Called when all is said, with how git has ended. */
    end(how: PipeEnd): void {
      ended = how
      tellReaders()
    },

    /** The same when that will never be. */
    fail(error: Error): void {
      fault = error
      tellReaders()
    },

    hold,
    size: () => size,
    hasEnded: () => ended !== undefined,
    hasFile: () => file !== undefined,
    /** Whether somebody who begins now can read all of it. */
    isWhole: () => isWhole && !fault,
    readers: () => readers.size,

    /** Moves all into a file; whether that could be done. Only for an answer that has ended. */
    store: async () => isWhole && (pieces.length === 0 || (await moveToFile())),

    /** Begins to read. Only while it is whole. */
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
          tellWriter()
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

const spareMost = 8
const spare: Buffer[] = []

async function readPiece(file: FileHandle, from: number, to: number): Promise<ResponsePiece> {
  const buffer = spare.pop() ?? Buffer.allocUnsafeSlow(batchBytes)
  const { bytesRead } = await file.read(buffer, 0, Math.min(batchBytes, to - from), from)
  if (bytesRead === 0) throw new Error('The file of an answer is shorter than it was.')
  return {
    bytes: buffer.subarray(0, bytesRead),
    done: () => void (spare.length < spareMost && spare.push(buffer)),
  }
}
