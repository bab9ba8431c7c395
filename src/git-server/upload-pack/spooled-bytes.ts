import { randomUUID } from 'node:crypto'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { writeAll } from '#base/disk.ts'
import type { FreeSpace } from '#config/free-space.ts'

/** Some bytes of a response; `done` is called when they are no longer needed. */
export type SpooledPiece = { bytes: Buffer; done: () => void }

// How much of a file one read returns.
const readBytes = 256 * 1024

/** Bytes that grow at the end: the first ones in a file, once they are moved there, and the last ones in memory. */
export function createSpooledBytes(spool: Pick<Spool, 'open'>) {
  let pieces: Buffer[] = []
  // The offset of the first piece. Earlier bytes are in the file, or were dropped.
  let piecesAt = 0
  let size = 0
  let file: FileHandle | undefined
  let holds = 0

  function pieceAt(at: number): Buffer {
    let start = piecesAt
    for (const piece of pieces) {
      if (at < start + piece.length) return piece.subarray(at - start)
      start += piece.length
    }
    throw new RangeError(`No byte ${at} in a response of ${size} bytes.`)
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
    hold,
    size: () => size,
    /** The number of bytes in memory. */
    inMemory: () => size - piecesAt,
    hasFile: () => file !== undefined,

    append(bytes: Buffer): void {
      pieces.push(bytes)
      size += bytes.length
    },

    /** Moves all bytes from memory to the file; false when that fails, and then they stay in memory. */
    async moveToFile(): Promise<boolean> {
      if (pieces.length === 0) return true
      // The last other hold may be released meanwhile.
      using _hold = hold()
      try {
        file ??= await spool.open()
        await writeAll(file, Buffer.concat(pieces), piecesAt)
      } catch {
        // The disk may be full.
        return false
      }
      pieces = []
      piecesAt = size
      return true
    },

    /** Drops the pieces in memory that end before an offset. */
    dropBefore(at: number): void {
      for (let [first] = pieces; first && piecesAt + first.length <= at; [first] = pieces) {
        piecesAt += first.length
        pieces.shift()
      }
    },

    /** Reads from an offset below the size. */
    async read(at: number): Promise<SpooledPiece> {
      if (at < piecesAt && file) return readPiece(file, at, piecesAt)
      return { bytes: pieceAt(at), done() {} }
    },
  }
}

const maxSpareBuffers = 8
const spareBuffers: Buffer[] = []

async function readPiece(file: FileHandle, from: number, to: number): Promise<SpooledPiece> {
  const buffer = spareBuffers.pop() ?? Buffer.allocUnsafeSlow(readBytes)
  const { bytesRead } = await file.read(buffer, 0, Math.min(readBytes, to - from), from)
  if (bytesRead === 0) throw new Error('The file of a cached response was truncated.')
  return {
    bytes: buffer.subarray(0, bytesRead),
    done: () => void (spareBuffers.length < maxSpareBuffers && spareBuffers.push(buffer)),
  }
}

/** Files for responses that exceed memory. */
export type Spool = {
  /** Whether the disk is short of space: no file should be opened or grow. */
  isFull: () => boolean
  /** Opens a file that disappears when it is closed. Throws `storage_full`. */
  open: () => Promise<FileHandle>
}

export function createSpool({
  dataDir,
  freeSpace,
}: {
  dataDir: string
  freeSpace: Pick<FreeSpace, 'isShort' | 'require'>
}): Spool {
  return {
    isFull: freeSpace.isShort,

    async open() {
      await freeSpace.require()
      const path = join(dataDir, 'staging', `${randomUUID()}.response`)
      const file = await open(path, 'wx+', 0o600)
      // An unlinked file disappears when it is closed, however the program ends.
      await unlink(path)
      return file
    },
  }
}
