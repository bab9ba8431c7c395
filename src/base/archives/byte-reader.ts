import { ArchiveFormatError } from './archive-format-error.ts'

/** Reads a stream in pieces of requested lengths. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(source: AsyncIterable<Buffer>) {
    this.#chunks = source[Symbol.asyncIterator]()
  }

  /** The next bytes, as they arrive; undefined at the end. */
  async #next(maxBytes: number): Promise<Buffer | undefined> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#chunks.next()
      if (done) return undefined
      this.#rest = value
    }
    const bytes = this.#rest.subarray(0, maxBytes)
    this.#rest = this.#rest.subarray(bytes.length)
    return bytes
  }

  /** Yields exactly this many bytes. Throws an ArchiveFormatError when there are fewer. */
  async *pass(bytes: number): AsyncGenerator<Buffer, void, undefined> {
    for (let left = bytes; left > 0; ) {
      const chunk = await this.#next(left)
      if (!chunk) throw new ArchiveFormatError('It ends before it is complete.')
      left -= chunk.length
      yield chunk
    }
  }

  /** Exactly this many bytes; undefined at the end. Throws an ArchiveFormatError when there are fewer. */
  async take(bytes: number): Promise<Buffer | undefined> {
    const first = await this.#next(bytes)
    if (!first) return undefined
    const chunks = [first]
    for await (const chunk of this.pass(bytes - first.length)) chunks.push(chunk)
    return chunks.length === 1 ? first : Buffer.concat(chunks)
  }

  async skip(bytes: number): Promise<void> {
    for await (const _ of this.pass(bytes));
  }

  /** Ends the source. */
  async close(): Promise<void> {
    await this.#chunks.return?.()
  }
}
