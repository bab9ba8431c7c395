import type { Log } from '../../base/log.ts'
import { problemIn } from '../../base/problem.ts'
import { createFairLimiter } from '../../concurrency/fair-limiter.ts'
import type { PlainSettings } from '../../config/settings.ts'
import { gitCommands } from '../../git/process/commands.ts'
import type { Git } from '../../git/process/git-process.ts'
import { deadline } from '../../git/process/stall-timeout.ts'
import { readArchiveRequest } from '../../git/protocol/archive-request.ts'
import { readWish, skipAdvertisement } from '../../git/protocol/fetch-session.ts'
import { firstPacket, type Packet, packet } from '../../git/protocol/pkt-line.ts'
import { type Body, bodyOf, collect, limited } from '../../git/protocol/request-body.ts'
import { assertCommand, malformedRequest, requestsIn } from '../../git/protocol/requests.ts'
import { assertRepository } from '../../git/refs/refs.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import {
  answerEmpty,
  type GitRequest,
  keysOf,
  type RequestOutcome,
} from '../requests/git-request.ts'
import type { Measure } from '../requests/operations.ts'
import { respond, type WatchedRequest, watchRequest } from '../requests/respond.ts'
import type { ResponseCache } from './response-cache.ts'

type Dependencies = {
  git: Git
  turns: GitLimiters
  responseCache: Pick<ResponseCache, 'answer'>
  settings: PlainSettings
  stallMs: number
  measure: Measure
  /** Answers `ls-refs`. */
  list: (request: GitRequest | WatchedRequest, input: Buffer) => Promise<RequestOutcome>
  /** Says what a fetch begins with where that takes no git; else it is false. */
  offerAtHand: (service: 'git-upload-pack', request: GitRequest) => Promise<boolean>
  log: Log
}

// Git streams large files, so only what `export-subst` expands, and trees, take memory.
const archiveMemoryMaxBytes = 512 * 1024 * 1024

/** Fetches and clones, and the files of a commit as an archive. */
export function createUploadPack(dependencies: Dependencies) {
  const { git, turns, responseCache, settings, stallMs, measure, log } = dependencies
  const readingTurns = createFairLimiter({
    overall: 64,
    perKey: 16,
    waiting: 1000,
    waitMs: stallMs,
  })
  const answerList = measure('list', dependencies.list)

  const answerPack = measure('fetch', (watched: WatchedRequest, input: Buffer) =>
    responseCache.answer(watched, {
      input,
      takeTurn: (signal) => turns.fetch.acquire(keysOf(watched), signal),
      start: () => git.start(gitCommands.fetch(watched.repository.path), watched),
    }),
  )

  async function answerFetch(
    request: GitRequest | WatchedRequest,
    input: Buffer,
  ): Promise<RequestOutcome> {
    const first = firstPacket(input)
    if (typeof first !== 'object') throw malformedRequest()
    if (first.packet.kind === 'flush') return answerEmpty(request.answer)
    if (request.protocol === 'version=2') assertCommand(input)
    try {
      if (isListing(first.packet)) return await answerList(request, input)
      using watched = watchRequest(request, stallMs)
      return await answerPack(watched, input)
    } catch (error) {
      const problem = problemIn(error)
      if (problem?.code !== 'git_limit_exceeded' || request.answer.hasBegun()) throw error
      // Git shows its user such a packet, and of a refused POST only the status.
      request.answer.respondWithBytes(packet(`ERR ${problem.message}\n`))
      return 'refused'
    }
  }

  // Read to its end before it takes a turn: whoever sends slowly takes nobody else's.
  async function readFetch(request: GitRequest, body: Body): Promise<Buffer> {
    using watched = watchRequest(request, stallMs)
    using late = deadline(settings.bodySeconds * 1000, watched.signal)
    const { signal } = late
    using _turn = await readingTurns.acquire([watched.principal.id], signal)
    const maxBytes = settings.fetchRequestMaxBytes
    return await collect(limited(body, { ...watched, maxBytes, signal }))
  }

  return {
    /** Answers one command of a fetch, clone or ls-remote that is whole in itself. Bytes that are at hand are within its limit. */
    async fetch(request: GitRequest, body: Body | Buffer): Promise<RequestOutcome> {
      const input = Buffer.isBuffer(body) ? body : await readFetch(request, body)
      return await answerFetch(request, input)
    },

    /** Answers the commands of a client of version 2 one after another, until it ends. */
    async fetchEach(request: GitRequest, body: Body): Promise<RequestOutcome> {
      using watched = watchRequest(request, stallMs)
      const input = limited(body, { ...watched, maxBytes: Number.POSITIVE_INFINITY })
      for await (const command of requestsIn(input, settings.fetchRequestMaxBytes)) {
        const outcome = await answerFetch(watched, command)
        if (outcome !== 0) return outcome
      }
      return 0
    },

    /** Answers a request for the files of a commit: git-upload-archive(1). */
    archive: measure(
      'archive',
      async (request: GitRequest, body: Body): Promise<RequestOutcome> => {
        const { path } = request.repository
        await assertRepository(path)
        using watched = watchRequest(request, stallMs)
        const maxBytes = settings.fetchRequestMaxBytes
        const input = await readArchiveRequest(limited(body, { ...watched, maxBytes }), maxBytes)
        using _turn = await turns.fetch.acquire(keysOf(request), watched.signal)
        const { protocol } = request
        const memoryMaxBytes = Math.min(archiveMemoryMaxBytes, settings.gitMemoryMaxBytes)
        const options = { protocol, limits: { memoryMaxBytes } }
        await using child = await git.start(gitCommands.archive(path), options)
        return await respond(watched, { child, input: bodyOf(input) }, log)
      },
    ),

    /** Talks with a client from beginning to end, as a fetch before version 2 needs it. */
    fetchSession: measure(
      'fetch',
      async (request: GitRequest, body: Body): Promise<RequestOutcome> => {
        using watched = watchRequest(request, stallMs)
        const maxBytes = settings.fetchRequestMaxBytes
        const input = limited(body, { ...watched, maxBytes })
        const isOffered = await dependencies.offerAtHand('git-upload-pack', request)
        const wish = isOffered ? await readWish(input) : { isNothing: false, body: input }
        if (wish.isNothing) return 0
        using _turn = await turns.fetch.acquire(keysOf(request), watched.signal)
        await using child = await git.start(
          gitCommands.fetchSession(request.repository.path),
          request,
        )
        if (isOffered) await skipAdvertisement(child.stdout, watched.signal)
        return await respond(watched, { child, input: wish.body }, log)
      },
    ),
  }
}

function isListing(first: Packet): boolean {
  return first.kind === 'data' && /^command=ls-refs\n?$/.test(first.payload.toString())
}
