import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { FreeSpace } from '../../config/free-space.ts'
import type { PlainSettings } from '../../config/settings.ts'
import { watchDrain } from '../../git/process/chunks.ts'
import { bodyOf } from '../../git/protocol/request-body.ts'
import { createRepositoryVersions } from '../../git/refs/repository-version.ts'
import type { RequestOutcome } from '../requests/git-request.ts'
import { conclude, respond, type WatchedRequest } from '../requests/respond.ts'
import { readFetchRequest } from './cache-key.ts'
import { createCacheStore } from './cache-store.ts'
import { createInFlightResponses, type Production } from './in-flight-responses.ts'
import type { ResponsePipe, ResponseReader } from './response-pipe.ts'

export type ResponseCache = ReturnType<typeof createResponseCache>

/**
 * How a fetch was served: from the cache (`hit`), from an in-flight response to another client (`joined`) or by a new
 * git (`missed`). One that is `passed` is not cacheable.
 */
export type FetchSource = 'hit' | 'joined' | 'missed' | 'passed'

type Dependencies = {
  settings: PlainSettings
  freeSpace: Pick<FreeSpace, 'isShort' | 'require'>
  clock: Clock
  log: Log
  /** Called for each fetch. */
  onFetch: (source: FetchSource) => void
}

// The end of a git process whose outcome is unknown.
const unknownEnd = { exitCode: null, isExplained: false }
const maxSeen = 4096
const sweepIntervalMs = 60_000

/**
 * Caches upload-pack responses. Identical concurrent requests share one git process; a response requested twice is
 * stored. The key covers everything the response depends on, so entries never need invalidating.
 */
export function createResponseCache({ settings, freeSpace, clock, log, onFetch }: Dependencies) {
  const versions = createRepositoryVersions()
  const inFlight = createInFlightResponses(openUnnamed)
  const store = createCacheStore({
    maxBytes: settings.fetchCacheBytes,
    maxAgeMs: settings.fetchCacheSeconds * 1000,
    clock,
  })
  // Recent requests. The response to a `large` one exceeds the size limit, so storing it is not tried again.
  const seen = new Map<string, 'once' | 'repeated' | 'large'>()
  const sweeping = setInterval(() => void store.sweep(), sweepIntervalMs).unref()

  /** The cache key of a request: a hash of everything its response depends on. Undefined when it is not cacheable. */
  function keyOf({ protocol, repository }: WatchedRequest, input: Buffer): string | undefined {
    const request = protocol === 'version=2' ? readFetchRequest(input) : undefined
    if (!request) return undefined
    const { canonical, hasHaves, includesTags } = request
    const version = versions.stamp(repository.path, { objects: hasHaves, tags: includesTags })
    if (version === undefined) return undefined
    const hash = createHash('sha256').update(`${repository.id} ${version}\n`)
    return hash.update(canonical).digest('base64')
  }

  function note(key: string): void {
    const before = seen.get(key)
    seen.delete(key)
    seen.set(key, before === 'once' ? 'repeated' : (before ?? 'once'))
    const [oldest] = seen.keys()
    if (seen.size > maxSeen && oldest !== undefined) seen.delete(oldest)
  }

  // A reader is opened as soon as a response is found: it may be evicted a moment later.
  async function openReader(
    key: string,
    watched: WatchedRequest,
    production: Production,
  ): Promise<{ source: FetchSource; reader: ResponseReader }> {
    for (;;) {
      const hit = store.find(key)
      if (hit) return { source: 'hit', reader: hit.read() }
      const joined = inFlight.find(key)
      if (joined) return { source: 'joined', reader: joined.read() }
      const permit = await inFlight.acquire(key, production, watched.signal)
      if (!permit) continue
      if (!store.find(key) && !inFlight.find(key)) {
        return { source: 'missed', reader: startResponse(key, watched, production, permit).read() }
      }
      permit[Symbol.dispose]()
    }
  }

  function startResponse(
    key: string,
    { repository }: WatchedRequest,
    production: Production,
    permit: Disposable,
  ): ResponsePipe {
    const isRepeated = () => seen.get(key) === 'repeated'
    const isStorable = (size: number) => {
      if (!isRepeated()) return false
      if (!store.accepts(size)) seen.set(key, 'large')
      return isRepeated()
    }
    return inFlight.start({
      key,
      production,
      permit,
      isWanted: (pipe) => (pipe.readers() > 1 || isStorable(pipe.size())) && !freeSpace.isShort(),
      async onEnd(pipe, { exitCode, complaint }) {
        if (exitCode !== 0) {
          log.warn({ repositoryId: repository.id, exitCode, complaint }, 'git failed')
        } else if (pipe.isWhole() && store.accepts(pipe.size())) {
          const { path } = repository
          await store.put(key, pipe, { directory: path, isRepeated: isRepeated() })
        }
      },
    })
  }

  async function openUnnamed(): Promise<FileHandle> {
    await freeSpace.require()
    const path = join(settings.dataDir, 'staging', `${randomUUID()}.answer`)
    const file = await open(path, 'wx+', 0o600)
    // An unlinked file disappears when it is closed, however the program ends.
    await unlink(path)
    return file
  }

  return {
    /** Serves a fetch. */
    async serve(watched: WatchedRequest, production: Production): Promise<RequestOutcome> {
      const key = keyOf(watched, production.input)
      if (key === undefined) {
        onFetch('passed')
        using _permit = await production.acquire(watched.signal)
        await using child = await production.start()
        return await respond(watched, { child, input: bodyOf(production.input) }, log)
      }
      note(key)
      const { source, reader } = await openReader(key, watched, production)
      onFetch(source)
      return await readTo(watched, reader)
    },

    /** The size of the cache. */
    count: store.count,

    [Symbol.dispose](): void {
      clearInterval(sweeping)
      store.clear()
    },
  }
}

async function readTo(watched: WatchedRequest, reading: ResponseReader): Promise<RequestOutcome> {
  using reader = reading
  const { response, signal, onProgress } = watched
  const { output } = response
  using draining = watchDrain(output, signal)
  for (let isFirst = true; ; isFirst = false) {
    const piece = await reader.next(signal)
    if (!piece) return conclude(watched, reader.ended() ?? unknownEnd)
    if (isFirst) response.begin()
    onProgress()
    const isWritable = output.write(piece.bytes, (error) => error || piece.done())
    if (!isWritable) await draining.wait()
    onProgress()
  }
}
