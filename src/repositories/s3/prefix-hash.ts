import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'

export type PrefixHash = AsyncDisposable & {
  /** Says that a range of the file is complete. The ranges come in any order, each once. */
  add: (range: { start: number; bytes: number }) => void
  /** The SHA-256, in hex, of what is complete from the start of the file on. */
  digest: () => Promise<string>
}

const readBytes = 512 * 1024

/** Hashes a file while it is written: what is complete from its start on is read again meanwhile. */
export function createPrefixHash(file: Pick<FileHandle, 'read'>): PrefixHash {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(readBytes)
  /** The sizes of complete ranges, by their starts. */
  const complete = new Map<number, number>()
  let hashed = 0
  let isDisposed = false
  let hashing = Promise.resolve()

  async function hashComplete(): Promise<void> {
    for (let bytes = complete.get(hashed); bytes; bytes = complete.get(hashed)) {
      const end = hashed + bytes
      while (hashed < end) {
        if (isDisposed) return
        const { bytesRead } = await file.read(buffer, 0, Math.min(readBytes, end - hashed), hashed)
        if (bytesRead === 0) throw new Error(`The file ends at ${hashed}, not at ${end}.`)
        hash.update(buffer.subarray(0, bytesRead))
        hashed += bytesRead
      }
    }
  }

  return {
    add({ start, bytes }) {
      complete.set(start, bytes)
      hashing = hashing.then(hashComplete)
      // Thrown by digest.
      hashing.catch(() => {})
    },

    async digest() {
      await hashing
      return hash.digest('hex')
    },

    async [Symbol.asyncDispose]() {
      isDisposed = true
      await hashing.catch(() => {})
    },
  }
}
