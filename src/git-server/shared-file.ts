/** An open file, as node:fs/promises has it. */
type OpenFile = {
  read: (to: Buffer, offset: number, length: number, at: number) => Promise<{ bytesRead: number }>
  write: (
    from: Buffer,
    offset: number,
    length: number,
    at: number,
  ) => Promise<{ bytesWritten: number }>
  close: () => Promise<void>
}

type Block = { length: number; bytes: Promise<Buffer> }

const blockBytes = 256 * 1024
const recentMost = 24

// Of all files. What was read longest ago comes first, and goes first.
const recent = new Map<string, Block>()
let lastFile = 0

/**
 * A file that grows and that many read at about the same time: who comes to a place soon after another gets the
 * same bytes, which are then read, and in memory, once.
 */
export function createSharedFile(file: OpenFile) {
  const name = ++lastFile

  async function load(at: number, length: number): Promise<Buffer> {
    const buffer = Buffer.allocUnsafeSlow(length)
    const { bytesRead } = await file.read(buffer, 0, length, at)
    return buffer.subarray(0, bytesRead)
  }

  return {
    async write(bytes: Buffer, at: number): Promise<void> {
      for (let written = 0; written < bytes.length; ) {
        const rest = bytes.length - written
        written += (await file.write(bytes, written, rest, at + written)).bytesWritten
      }
    },

    /** What is at a place and after it, as far as it is at hand, while the file has so many bytes. */
    async read(at: number, size: number): Promise<Buffer> {
      const from = at % blockBytes
      const start = at - from
      const key = `${name}/${start}`
      const length = Math.min(blockBytes, size - start)
      const known = recent.get(key)
      // When the last block was read, it may have had less than now.
      const block = known && from < known.length ? known : { length, bytes: load(start, length) }
      recent.delete(key)
      recent.set(key, block)
      const [oldest] = recent.keys()
      if (recent.size > recentMost && oldest !== undefined) recent.delete(oldest)
      try {
        const bytes = await block.bytes
        if (bytes.length <= from) throw new Error('The file of an answer is shorter than it was.')
        return bytes.subarray(from)
      } catch (error) {
        if (recent.get(key) === block) recent.delete(key)
        throw error
      }
    },

    async close(): Promise<void> {
      for (const key of [...recent.keys()]) if (key.startsWith(`${name}/`)) recent.delete(key)
      await file.close()
    },
  }
}
