import type { FileHandle } from 'node:fs/promises'
import { ServerResponse } from 'node:http'
import { availableParallelism } from 'node:os'
import { pipeline, Readable, Transform } from 'node:stream'
import { createGzip } from 'node:zlib'
import { limitKeyOf, type Principal } from '#access/principal.ts'
import { runFileContentType } from '#actions/runner-api/transfer-limits.ts'
import { ArchiveFormatError } from '#base/archives/archive-format-error.ts'
import { decompressZstd } from '#base/archives/decompress-zstd.ts'
import { readTar } from '#base/archives/read-tar.ts'
import { writeZip } from '#base/archives/write-zip.ts'
import { createFairLimiter } from '#base/concurrency/fair-limiter.ts'
import { Problem } from '#base/problem.ts'
import { type StallWatch, watchStall } from '#base/timeouts.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { FileStorage } from './file-storage.ts'
import type { KeptFile } from './run-file-store.ts'

type StallLimits = {
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

  constructor(file: FileHandle, { stallMs, signal }: StallLimits) {
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

/** Sends files to clients. A response ends when its client reads nothing for `SVC_GIT_STALL_SECONDS`. */
export type Downloads = {
  /** Opens a file as it is stored; undefined when it is missing. */
  open: (file: KeptFile, signal: AbortSignal) => Promise<Readable | undefined>
  /** The same in a format. Throws `git_busy` when too many files are being converted. */
  openAs: (file: KeptFile, wanted: Wanted) => Promise<Readable | undefined>
}

type Wanted = { format: ArtifactFormat; principal: Principal; signal: AbortSignal }

type Options = {
  storage: Pick<FileStorage, 'open'>
  settings: Pick<
    PlainSettings,
    'gitStallSeconds' | 'maxConcurrentArchives' | 'gitWaiting' | 'gitWaitSeconds'
  >
}

const conversionsPerKey = 2
const highWaterMark = 256 * 1024

export function createDownloads({ storage, settings }: Options): Downloads {
  const stallMs = settings.gitStallSeconds * 1000
  // Each lasts as long as its client needs to read it, and takes memory for both compressions.
  const conversions = createFairLimiter({
    overall: settings.maxConcurrentArchives ?? availableParallelism(),
    perKey: conversionsPerKey,
    waiting: settings.gitWaiting,
    waitMs: settings.gitWaitSeconds * 1000,
  })

  const open: Downloads['open'] = async (file, signal) => {
    const content = await storage.open(file, signal)
    return content && new FileDownload(content, { stallMs, signal })
  }

  return {
    open,

    async openAs(file, { format, principal, signal }) {
      if (format === 'tar.zst') return open(file, signal)
      using starting = new DisposableStack()
      const keys = [limitKeyOf(principal), file.repositoryId]
      starting.use(await conversions.acquire(keys, signal))
      const content = await storage.open(file, signal)
      if (!content) return undefined
      const stream = content.createReadStream({ highWaterMark })
      const converted = endWhenStalled(convertArtifact(stream, format), { stallMs, signal })
      const permit = starting.move()
      return converted.once('close', () => permit.dispose())
    },
  }
}

/** Passes a stream on. Both end with the signal, or when nothing is read for `stallMs`; time in which the source computes does not count. */
function endWhenStalled(source: Readable, { stallMs, signal }: StallLimits): Readable {
  const isUnread = () => stream.readableLength > 0 || stream.writableNeedDrain
  const stall = watchStall(stallMs, isUnread, signal)
  const stream = new Transform({
    transform(chunk, _encoding, done) {
      stall.progress()
      done(null, chunk)
    },
  })
  const end = () => void stream.destroy(stall.signal.reason)
  stall.signal.addEventListener('abort', end, { once: true })
  stream.once('close', () => stall[Symbol.dispose]())
  // The reader gets the error of each.
  pipeline(source, stream, () => {})
  if (stall.signal.aborted) end()
  return stream
}

/** The formats in which an artifact can be downloaded, with their content types. */
export const artifactTypes = {
  'tar.gz': 'application/gzip',
  zip: 'application/zip',
  tar: 'application/x-tar',
  'tar.zst': runFileContentType,
} as const

export type ArtifactFormat = keyof typeof artifactTypes

/**
 * Converts the file of an artifact while it is read. Throws `artifact_unreadable` into the stream when it is not zstd,
 * needs much memory, or has what the format does not.
 */
function convertArtifact(content: Readable, format: Exclude<ArtifactFormat, 'tar.zst'>): Readable {
  const converted = Readable.from(convert(content, format))
  // Also when it was never read: then the generator has not begun.
  return converted.on('close', () => content.destroy())
}

type ConvertedFormat = Parameters<typeof convertArtifact>[1]

async function* convert(content: Readable, format: ConvertedFormat): AsyncGenerator<Buffer> {
  try {
    yield* toFormat[format](content)
  } catch (error) {
    const reason = error instanceof ArchiveFormatError ? ` ${error.message}` : ''
    const detail = `The artifact cannot be converted; get it as tar.zst.${reason}`
    throw new Problem('artifact_unreadable', detail, { cause: error })
  }
}

// The reader of the last stream gets the error of each.
const onEnd = () => {}

const toFormat: Record<ConvertedFormat, (content: Readable) => AsyncIterable<Buffer>> = {
  tar: (content) => pipeline(content, decompressZstd(), onEnd),
  'tar.gz': (content) => pipeline(content, decompressZstd(), createGzip(), onEnd),
  zip: (content) => writeZip(readTar(pipeline(content, decompressZstd(), onEnd))),
}
