import { availableParallelism } from 'node:os'
import { pipeline, type Readable, Transform } from 'node:stream'
import { limitKeyOf, type Principal } from '#access/principal.ts'
import { createFairLimiter } from '#base/concurrency/fair-limiter.ts'
import { watchStall } from '#base/timeouts.ts'
import type { PlainSettings } from '#config/settings.ts'
import { type ArtifactFormat, convertArtifact } from './convert-artifact.ts'
import { FileDownload } from './file-download.ts'
import type { FileStorage } from './file-storage.ts'
import type { KeptFile } from './run-file-store.ts'

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
function endWhenStalled(
  source: Readable,
  { stallMs, signal }: { stallMs: number; signal: AbortSignal },
): Readable {
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
