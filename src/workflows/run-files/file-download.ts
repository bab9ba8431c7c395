import type { FileHandle } from 'node:fs/promises'
import { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { type StallWatch, watchStall } from '#base/timeouts.ts'

type Options = {
  /** How long the reader may read nothing. */
  stallMs: number
  signal: AbortSignal
}

const bufferBytes = 256 * 1024

/**
 * A file as a stream, which closes it. It ends early with the signal, or when nothing is read for `stallMs`. Piping it to a
 * response fills two buffers in turn: a stream allocates one for each read, and collecting these took three quarters of the
 * CPU time of a download.
 */
export class FileDownload extends Readable {
  readonly #file: FileHandle
  readonly #stall: StallWatch
  /** The bytes that a pipe sends now. */
  #sending: Promise<void> | undefined
  /** The last read, during which the file cannot be closed. */
  #reading: Promise<unknown> | undefined

  constructor(file: FileHandle, { stallMs, signal }: Options) {
    super({ highWaterMark: bufferBytes })
    this.#file = file
    const isUnread = () => this.readableLength > 0 || this.#sending !== undefined
    this.#stall = watchStall(stallMs, isUnread, signal)
    const end = () => void this.destroy(this.#stall.signal.reason)
    this.#stall.signal.addEventListener('abort', end, { once: true })
    if (this.#stall.signal.aborted) end()
  }

  override _read(): void {
    this.#stall.progress()
    this.#fill(Buffer.allocUnsafeSlow(bufferBytes)).then(
      (bytes) => this.push(bytes.length > 0 ? bytes : null),
      (error) => this.destroy(error),
    )
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#stall[Symbol.dispose]()
    const close = () => this.#file.close().then(() => done(error), done)
    Promise.resolve(this.#reading).then(close, close)
  }

  override pipe<Destination extends NodeJS.WritableStream>(
    destination: Destination,
    options?: { end?: boolean | undefined },
  ): Destination {
    // Other streams may keep bytes after they have called back.
    if (!(destination instanceof ServerResponse)) return super.pipe(destination, options)
    this.#sendTo(destination).then(
      () => {
        if (options?.end !== false) destination.end()
        this.push(null)
        this.resume()
      },
      (error) => this.destroy(error),
    )
    return destination
  }

  async #sendTo(response: ServerResponse): Promise<void> {
    let [current, other] = [0, 0].map(() => Buffer.allocUnsafeSlow(bufferBytes)) as [Buffer, Buffer]
    for (;;) {
      const bytes = await this.#fill(current)
      await this.#sending
      if (bytes.length === 0) return
      this.#sending = written(response, bytes).then(() => {
        this.#sending = undefined
        this.#stall.progress()
      })
      // Awaited after the next read.
      this.#sending.catch(() => {})
      ;[current, other] = [other, current]
    }
  }

  /** Reads the next bytes; none at the end. */
  async #fill(buffer: Buffer): Promise<Buffer> {
    const reading = this.#file.read(buffer, 0, buffer.length, null)
    this.#reading = reading
    return buffer.subarray(0, (await reading).bytesRead)
  }
}

/** Writes bytes, and waits until the system has them. */
function written(response: ServerResponse, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    response.write(bytes, (error) => (error ? reject(error) : resolve()))
  })
}
