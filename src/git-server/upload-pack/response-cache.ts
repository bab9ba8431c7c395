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
 * Where the answer to a fetch comes from: it was kept; git was just giving it to another client; git gives it. Those
 * that are `passed` depend on more than is known here.
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

// A git of which nobody knows how it ended.
const lost = { exitCode: null, isExplained: false }
const seenMost = 4096
const sweepEveryMs = 60_000

/**
 * Has git answer fetches that are alike once. Whoever asks for what it is just answering reads along, and from the
 * second time on the answer is kept: under all that it depends on, so that it need never be withdrawn.
 */
export function createResponseCache({ settings, freeSpace, clock, log, onFetch }: Dependencies) {
  const versions = createRepositoryVersions()
  const inFlight = createInFlightResponses(openUnnamed)
  const kept = createCacheStore({
    maxBytes: settings.fetchCacheBytes,
    maxAgeMs: settings.fetchCacheSeconds * 1000,
    clock,
  })
  // Recent requests. The response to a large one takes more room than one may have, so storing it is not tried again.
  const seen = new Map<string, 'once' | 'repeated' | 'large'>()
  const sweeping = setInterval(() => void kept.sweep(), sweepEveryMs).unref()

  /** What an answer depends on, in few bytes; undefined when nobody else may have it. */
  function keyOf({ protocol, repository }: WatchedRequest, input: Buffer): string | undefined {
    const request = protocol === 'version=2' ? readFetchRequest(input) : undefined
    if (!request) return undefined
    const { canonical, hasHaves, includesTags } = request
    const stamp = versions.stamp(repository.path, { objects: hasHaves, tags: includesTags })
    if (stamp === undefined) return undefined
    const hash = createHash('sha256').update(`${repository.id} ${stamp}\n`)
    return hash.update(canonical).digest('base64')
  }

  function note(key: string): void {
    const before = seen.get(key)
    seen.delete(key)
    seen.set(key, before === 'once' ? 'repeated' : (before ?? 'once'))
    const [oldest] = seen.keys()
    if (seen.size > seenMost && oldest !== undefined) seen.delete(oldest)
  }

  // Each answer is read as soon as it is found: it may be gone a moment later.
  async function beginToRead(
    key: string,
    watched: WatchedRequest,
    production: Production,
  ): Promise<{ source: FetchSource; reader: ResponseReader }> {
    for (;;) {
      const hit = kept.find(key)
      if (hit) return { source: 'hit', reader: hit.read() }
      const joined = inFlight.find(key)
      if (joined) return { source: 'joined', reader: joined.read() }
      const turn = await inFlight.takeTurn(key, production, watched.signal)
      if (!turn) continue
      if (!kept.find(key) && !inFlight.find(key)) {
        return { source: 'missed', reader: lead(key, watched, production, turn).read() }
      }
      turn[Symbol.dispose]()
    }
  }

  function lead(
    key: string,
    { repository }: WatchedRequest,
    production: Production,
    turn: Disposable,
  ): ResponsePipe {
    const isRepeated = () => seen.get(key) === 'repeated'
    const isToKeep = (size: number) => {
      if (!isRepeated()) return false
      if (!kept.takes(size)) seen.set(key, 'large')
      return isRepeated()
    }
    return inFlight.start({
      key,
      production,
      turn,
      isWanted: (pipe) => (pipe.readers() > 1 || isToKeep(pipe.size())) && !freeSpace.isShort(),
      async onEnd(pipe, { exitCode, complaint }) {
        if (exitCode !== 0) {
          log.warn({ repositoryId: repository.id, exitCode, complaint }, 'git failed')
        } else if (pipe.isWhole() && kept.takes(pipe.size())) {
          const { path } = repository
          await kept.put(key, pipe, { directory: path, isRepeated: isRepeated() })
        }
      },
    })
  }

  async function openUnnamed(): Promise<FileHandle> {
    await freeSpace.require()
    const path = join(settings.dataDir, 'staging', `${randomUUID()}.answer`)
    const file = await open(path, 'wx+', 0o600)
    // It goes when it is closed, however the program ends.
    await unlink(path)
    return file
  }

  return {
    /** Answers a fetch. */
    async answer(watched: WatchedRequest, production: Production): Promise<RequestOutcome> {
      const key = keyOf(watched, production.input)
      if (key === undefined) {
        onFetch('passed')
        using _turn = await production.takeTurn(watched.signal)
        await using child = await production.start()
        return await respond(watched, { child, input: bodyOf(production.input) }, log)
      }
      note(key)
      const { source, reader } = await beginToRead(key, watched, production)
      onFetch(source)
      return await readTo(watched, reader)
    },

    /** What is kept. */
    count: kept.count,

    [Symbol.dispose](): void {
      clearInterval(sweeping)
      kept.clear()
    },
  }
}

async function readTo(watched: WatchedRequest, reading: ResponseReader): Promise<RequestOutcome> {
  using reader = reading
  const { answer, signal, onProgress } = watched
  const { output } = answer
  using draining = watchDrain(output, signal)
  for (let isFirst = true; ; isFirst = false) {
    const piece = await reader.next(signal)
    if (!piece) return conclude(watched, reader.ended() ?? lost)
    if (isFirst) answer.begin()
    onProgress()
    const goesOn = output.write(piece.bytes, (error) => error || piece.done())
    if (!goesOn) await draining.wait()
    onProgress()
  }
}
