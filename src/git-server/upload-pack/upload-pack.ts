import type { Log } from '../../base/log.ts'
import { problemIn } from '../../base/problem.ts'
import { createFairLimiter } from '../../concurrency/fair-limiter.ts'
import type { PlainSettings } from '../../config/settings.ts'
import { gitCommands } from '../../git/process/commands.ts'
import type { Git } from '../../git/process/git-process.ts'
import { deadline } from '../../git/process/stall-timeout.ts'
import { readArchiveRequest } from '../../git/protocol/archive-request.ts'
import { readWish, skipAdvertisement } from '../../git/protocol/fetch-session.ts'
import { type PipeEnd, pipeProcess, type ResponseSink } from '../../git/protocol/pipe-process.ts'
import { firstPacket, type Packet, packet } from '../../git/protocol/pkt-line.ts'
import { type Body, bodyOf, collect, limited } from '../../git/protocol/request-body.ts'
import { assertCommand, malformedRequest, requestsIn } from '../../git/protocol/requests.ts'
import { assertRepository } from '../../git/refs/refs.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import {
  type GitRequest,
  keysOf,
  type RequestOutcome,
  respondEmpty,
} from '../requests/git-request.ts'
import type { Measure } from '../requests/operations.ts'
import {
  conclude,
  respond,
  sinkOf,
  type WatchedRequest,
  watchRequest,
} from '../requests/respond.ts'
import { createCacheKeyOf } from './cache-key.ts'
import type { ResponseCache } from './response-cache.ts'

type Dependencies = {
  git: Git
  limiters: GitLimiters
  responseCache: Pick<ResponseCache, 'fetch'>
  settings: PlainSettings
  stallMs: number
  measure: Measure
  /** Answers `ls-refs`. */
  list: (request: GitRequest | WatchedRequest, input: Buffer) => Promise<RequestOutcome>
  /** Sends the ref advertisement without starting git; false when git is needed. */
  advertiseFromCache: (service: 'git-upload-pack', request: GitRequest) => Promise<boolean>
  log: Log
}

// Git streams large files, so only trees and the files that `export-subst` expands take memory.
const archiveMemoryMaxBytes = 512 * 1024 * 1024

/** Serves fetches and clones, and archives of a commit's files. */
export function createUploadPack(dependencies: Dependencies) {
  const { git, limiters, responseCache, settings, stallMs, measure, log } = dependencies
  const readLimiter = createFairLimiter({
    overall: 64,
    perKey: 16,
    waiting: 1000,
    waitMs: stallMs,
  })
  const serveList = measure('list', dependencies.list)

  const cacheKeyOf = createCacheKeyOf()

  const servePack = measure('fetch', async (watched: WatchedRequest, input: Buffer) => {
    const ended = await responseCache.fetch(cacheKeyOf(watched, input), sinkOf(watched), {
      acquire: (signal) => limiters.fetch.acquire(keysOf(watched), signal),
      produce: (sink) => producePack(watched, input, sink),
    })
    return await conclude(watched, ended)
  })

  async function producePack(
    { repository, protocol }: WatchedRequest,
    input: Buffer,
    sink: ResponseSink,
  ): Promise<PipeEnd> {
    await using child = await git.start(gitCommands.fetch(repository.path), { protocol })
    const streams = { ...sink, input: bodyOf(input), sendsAllFirst: true }
    const ended = await pipeProcess(child, streams)
    const { exitCode, complaint } = ended
    if (exitCode !== 0) log.warn({ repositoryId: repository.id, exitCode, complaint }, 'git failed')
    return ended
  }

  async function serveFetch(
    request: GitRequest | WatchedRequest,
    input: Buffer,
  ): Promise<RequestOutcome> {
    const first = firstPacket(input)
    if (typeof first !== 'object') throw malformedRequest()
    if (first.packet.kind === 'flush') return respondEmpty(request.response)
    if (request.protocol === 'version=2') assertCommand(input)
    try {
      if (isListing(first.packet)) return await serveList(request, input)
      using watched = watchRequest(request, stallMs)
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
    using _permit = await readLimiter.acquire([watched.principal.id], signal)
    const maxBytes = settings.fetchRequestMaxBytes
    return await collect(limited(body, { ...watched, maxBytes, signal }))
  }

  return {
    /** Serves one self-contained command of a fetch, clone or ls-remote. A Buffer must be within the size limit already. */
    async fetch(request: GitRequest, body: Body | Buffer): Promise<RequestOutcome> {
      const input = Buffer.isBuffer(body) ? body : await readFetch(request, body)
      return await serveFetch(request, input)
    },

    /** Serves the commands of a protocol version 2 client one after another, until it ends. */
    async fetchEach(request: GitRequest, body: Body): Promise<RequestOutcome> {
      using watched = watchRequest(request, stallMs)
      const input = limited(body, { ...watched, maxBytes: Number.POSITIVE_INFINITY })
      for await (const command of requestsIn(input, settings.fetchRequestMaxBytes)) {
        const outcome = await serveFetch(watched, command)
        if (outcome !== 0) return outcome
      }
      return 0
    },

    /** Serves an archive of a commit's files: git-upload-archive(1). */
    archive: measure(
      'archive',
      async (request: GitRequest, body: Body): Promise<RequestOutcome> => {
        const { path } = request.repository
        await assertRepository(path)
        using watched = watchRequest(request, stallMs)
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

    /** Serves a whole stateful fetch session, as protocol versions 0 and 1 need it. */
    fetchSession: measure(
      'fetch',
      async (request: GitRequest, body: Body): Promise<RequestOutcome> => {
        using watched = watchRequest(request, stallMs)
        const maxBytes = settings.fetchRequestMaxBytes
        const input = limited(body, { ...watched, maxBytes })
        const isAdvertised = await dependencies.advertiseFromCache('git-upload-pack', request)
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
  }
}

function isListing(first: Packet): boolean {
  return first.kind === 'data' && /^command=ls-refs\n?$/.test(first.payload.toString())
}
