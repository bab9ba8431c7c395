import { limitKeyOf } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { createFairLimiter } from '#base/concurrency/fair-limiter.ts'
import type { Log } from '#base/log.ts'
import { problemIn } from '#base/problem.ts'
import { deadline } from '#base/timeouts.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Via } from '#database/schema.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { Git } from '#git/process/git-process.ts'
import { skipAdvertisement } from '#git/protocol/advertisement.ts'
import { readArchiveRequest } from '#git/protocol/archive-request.ts'
import { answerObjectInfo } from '#git/protocol/object-sizes.ts'
import { type PipeEnd, pipeProcess, type ResponseSink } from '#git/protocol/pipe-process.ts'
import { firstPacket, type Packet, packet } from '#git/protocol/pkt-line.ts'
import { type Body, bodyOf, collect, limited } from '#git/protocol/request-body.ts'
import { assertCommand, malformedRequest, readWish, requestsIn } from '#git/protocol/requests.ts'
import type { RefCache, RefCounts } from '#git/refs/ref-cache.ts'
import { assertRepository } from '#git/refs/refs.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import {
  type GitRequest,
  keysOf,
  type RequestOutcome,
  respondEmpty,
  type Service,
} from '../requests/git-request.ts'
import type { FetchSource, Measure } from '../requests/operations.ts'
import {
  conclude,
  respond,
  respondWithBytes,
  sinkOf,
  type WatchedRequest,
  watchRequest,
} from '../requests/respond.ts'
import type { SmallPacks } from '../small-packs/small-packs.ts'
import { createAdvertiser } from './advertise-refs.ts'
import { createCacheKeyOf, readFetchRequest } from './cache-key.ts'
import type { CacheUsage } from './cache-store.ts'
import { createResponseCache } from './response-cache.ts'
import { createStoredClones } from './stored-clones/stored-clones.ts'

/** Serves fetches and clones, archives of a commit's files, and the advertisements that begin fetches and pushes. */
export type UploadPack = Disposable & {
  /** Sends the ref advertisement, after a heading. */
  advertise: (service: Service, request: GitRequest, heading?: Buffer) => Promise<RequestOutcome>
  /** Serves one self-contained command of a fetch, clone or ls-remote. A Buffer must be within the size limit already. */
  fetch: (request: GitRequest, body: Body | Buffer) => Promise<RequestOutcome>
  /** Serves the commands of a protocol version 2 client one after another, until it ends. */
  fetchEach: (request: GitRequest, body: Body) => Promise<RequestOutcome>
  /** Serves a whole stateful fetch session, as protocol versions 0 and 1 need it. */
  fetchSession: (request: GitRequest, body: Body) => Promise<RequestOutcome>
  /** Serves an archive of a commit's files: git-upload-archive(1). */
  archive: (request: GitRequest, body: Body) => Promise<RequestOutcome>
  count: () => CacheCounts
}

/** The state of the caches of one process. */
export type CacheCounts = { responses: CacheUsage; refs: RefCounts }

export type UploadPackParts = {
  git: Git
  pool: Pick<ObjectPool, 'of'>
  /** The transport that it serves. */
  via: Via
  limiters: Pick<GitLimiters, 'fetch'>
  freeSpace: Pick<FreeSpace, 'isShort' | 'require'>
  settings: PlainSettings
  stallMs: number
  clock: Clock
  log: Log
  measure: Measure
  /** Called for each fetch. */
  onFetch: (source: FetchSource) => void
  refCache: RefCache
  smallPacks: Pick<SmallPacks, 'answer'>
}

// Git streams large files, so only trees and the files that `export-subst` expands take memory.
const archiveMemoryMaxBytes = 512 * 1024 * 1024
// In a session before version 2, a client may send a line for each commit that it has. Git needs twice as much memory.
const sessionRequests = 16
// What these clients send is short, so that they are silent only between rounds.
const mayThink = () => true

export function createUploadPack(dependencies: UploadPackParts): UploadPack {
  const { git, pool, via, limiters, freeSpace, settings, stallMs, clock, log, measure, onFetch } =
    dependencies
  const { refCache, smallPacks } = dependencies
  const responseCache = createResponseCache({ settings, freeSpace, clock, onFetch })
  const cacheKeyOf = createCacheKeyOf()
  const storedClones = createStoredClones({ git, onFetch })
  const advertiser = createAdvertiser({
    ...{ git, limiters, refCache, via, freeSpace, settings, stallMs, log },
  })
  const readLimiter = createFairLimiter({
    overall: 64,
    perKey: 16,
    waiting: 1000,
    waitMs: stallMs,
  })
  const serveList = measure('ls-refs', advertiser.list)

  // What a fetch serves: any object of the repository.
  const serveObjectInfo = measure('object-info', async (watched: WatchedRequest, input: Buffer) => {
    using _permit = await limiters.fetch.acquire(keysOf(watched), watched.signal)
    const { path } = watched.repository
    const sizes = await answerObjectInfo(pool.of(path), input)
    if (sizes) return await respondWithBytes(watched, [sizes], stallMs)
    await using child = await git.start(gitCommands.fetch(path), watched)
    return await respond(watched, { child, input: bodyOf(input) }, log)
  })

  const servePack = measure('fetch', async (watched: WatchedRequest, input: Buffer) => {
    const { repository, protocol, signal } = watched
    const request = protocol === 'version=2' ? readFetchRequest(input) : undefined
    const key = request && cacheKeyOf(repository, request)
    const sink = sinkOf(watched)
    const acquire = (until: AbortSignal) => limiters.fetch.acquire(keysOf(watched), until)
    const recent = request?.follows && smallPacks.answer(repository.id, request.follows)
    if (recent) {
      onFetch('packs')
      return await respondWithBytes(watched, recent, stallMs)
    }
    if (request?.clones) {
      const clone = { directory: repository.path, wants: request.clones, key: key?.id, signal }
      if (await storedClones.send({ ...clone, acquire: () => acquire(signal) }, sink)) return 0
    }
    const produce = (output: ResponseSink) => producePack(watched, input, output)
    return await conclude(watched, await responseCache.fetch(key, sink, { acquire, produce }))
  })

  async function producePack(
    { repository, protocol }: WatchedRequest,
    input: Buffer,
    sink: ResponseSink,
  ): Promise<PipeEnd> {
    await using child = await git.start(gitCommands.fetch(repository.path), { protocol })
    const streams = { ...sink, input: bodyOf(input), sendsAllFirst: true }
    const ended = await pipeProcess(child, streams)
    const { exitCode, errorOutput } = ended
    if (exitCode !== 0)
      log.warn({ repositoryId: repository.id, exitCode, errorOutput }, 'git failed')
    return ended
  }

  async function serveFetch(
    request: GitRequest | WatchedRequest,
    input: Buffer,
  ): Promise<RequestOutcome> {
    const first = firstPacket(input)
    if (typeof first !== 'object') throw malformedRequest()
    if (first.packet.kind === 'flush') return respondEmpty(request.response)
    const isVersionTwo = request.protocol === 'version=2'
    const { objectFormat } = request.repository
    if (isVersionTwo) assertCommand(input, objectFormat ?? settings.defaultObjectFormat)
    try {
      if (isCommand('ls-refs', first.packet)) return await serveList(request, input)
      using watched = watchRequest(request, stallMs)
      if (isVersionTwo && isCommand('object-info', first.packet))
        return await serveObjectInfo(watched, input)
      return await servePack(watched, input)
    } catch (error) {
      const problem = problemIn(error)
      if (problem?.code !== 'git_limit_exceeded' || request.response.hasBegun()) throw error
      // Git shows its user an ERR packet, but only the status of a failed POST.
      request.response.respondWithBytes(packet(`ERR ${problem.message}\n`))
      return 'refused'
    }
  }

  // Reads the whole request before a limiter is acquired, so a slow client blocks no other.
  async function readFetch(request: GitRequest, body: Body): Promise<Buffer> {
    using watched = watchRequest(request, stallMs)
    using late = deadline(settings.bodySeconds * 1000, watched.signal)
    const { signal } = late
    using _permit = await readLimiter.acquire([limitKeyOf(watched.principal)], signal)
    const maxBytes = settings.fetchRequestMaxBytes
    return await collect(limited(body, { ...watched, maxBytes, signal }))
  }

  return {
    advertise: measure('advertisement', advertiser.advertise),

    async fetch(request, body) {
      const input = Buffer.isBuffer(body) ? body : await readFetch(request, body)
      return await serveFetch(request, input)
    },

    async fetchEach(request, body) {
      using watched = watchRequest(request, stallMs, mayThink)
      const input = limited(body, { ...watched, maxBytes: Number.POSITIVE_INFINITY })
      for await (const command of requestsIn(input, settings.fetchRequestMaxBytes)) {
        const outcome = await serveFetch(watched, command)
        if (outcome !== 0) return outcome
      }
      return 0
    },

    archive: measure(
      'archive',
      async (request: GitRequest, body: Body): Promise<RequestOutcome> => {
        const { path } = request.repository
        await assertRepository(path)
        using watched = watchRequest(request, stallMs, mayThink)
        const maxBytes = settings.fetchRequestMaxBytes
        const input = await readArchiveRequest(limited(body, { ...watched, maxBytes }), maxBytes)
        using _permit = await limiters.fetch.acquire(keysOf(request), watched.signal)
        const { protocol } = request
        const memoryMaxBytes = Math.min(archiveMemoryMaxBytes, settings.gitMemoryMaxBytes)
        const options = { protocol, limits: { memoryMaxBytes } }
        await using child = await git.start(gitCommands.archive(path), options)
        return await respond(watched, { child, input: bodyOf(input) }, log)
      },
    ),

    fetchSession: measure(
      'fetch',
      async (request: GitRequest, body: Body): Promise<RequestOutcome> => {
        using watched = watchRequest(request, stallMs, mayThink)
        const maxBytes = sessionRequests * settings.fetchRequestMaxBytes
        const input = limited(body, { ...watched, maxBytes })
        const isAdvertised = await advertiser.advertiseFromCache('git-upload-pack', request)
        const wish = isAdvertised ? await readWish(input) : { isNothing: false, body: input }
        if (wish.isNothing) return 0
        using _permit = await limiters.fetch.acquire(keysOf(request), watched.signal)
        await using child = await git.start(
          gitCommands.fetchSession(request.repository.path),
          request,
        )
        if (isAdvertised) await skipAdvertisement(child.stdout, watched.signal)
        return await respond(watched, { child, input: wish.body }, log)
      },
    ),

    count: () => ({ responses: responseCache.count(), refs: refCache.count() }),

    [Symbol.dispose]: () => responseCache[Symbol.dispose](),
  }
}

function isCommand(name: string, first: Packet): boolean {
  return first.kind === 'data' && first.payload.toString().replace(/\n$/, '') === `command=${name}`
}
