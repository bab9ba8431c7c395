import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import type { FreeSpace } from '../../config/free-space.ts'
import type { Via } from '../../database/schema.ts'
import { gitCommands } from '../../git/process/commands.ts'
import type { Git } from '../../git/process/git-process.ts'
import {
  capabilitiesIn,
  fetchAdvertisement,
  fetchCapabilitiesIn,
} from '../../git/protocol/fetch-advertisement.ts'
import { answerLsRefs } from '../../git/protocol/ls-refs.ts'
import { flushPacket, packet } from '../../git/protocol/pkt-line.ts'
import { pushAdvertisement } from '../../git/protocol/push-advertisement.ts'
import { bodyOf } from '../../git/protocol/request-body.ts'
import { readFingerprint } from '../../git/refs/file-fingerprint.ts'
import type { RefCache } from '../../git/refs/ref-cache.ts'
import type { RefSnapshot } from '../../git/refs/ref-snapshot.ts'
import { assertRepository } from '../../git/refs/refs.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import {
  type GitRequest,
  keysOf,
  type RequestOutcome,
  type Service,
} from '../requests/git-request.ts'
import { respond, type WatchedRequest, watchRequest } from '../requests/respond.ts'
import { respondWithBytes } from '../requests/respond-with-bytes.ts'

type Dependencies = {
  git: Git
  turns: GitLimiters
  refCache: RefCache
  via: Via
  freeSpace: FreeSpace
  stallMs: number
  log: Log
}

const versionOne = packet('version 1\n')

/** What fetches and pushes begin with, and lists of refs. */
export function createAdvertiser({
  git,
  turns,
  refCache,
  via,
  freeSpace,
  stallMs,
  log,
}: Dependencies) {
  // What a server offers does not depend on the repository, so it is asked for once.
  const versionTwoOffer = once(async (path) =>
    Buffer.from(await git.run(gitCommands.advertiseFetch(path), { protocol: 'version=2' })),
  )
  const pushCapabilities = once(async (path) =>
    capabilitiesIn(await git.run(gitCommands.advertisePush(path))),
  )
  const fetchCapabilities = once(async (path) => {
    // Over HTTP each request of a fetch stands alone, and may say that it is the last.
    const command =
      via === 'http' ? gitCommands.advertiseFetch(path) : gitCommands.fetchSession(path)
    return fetchCapabilitiesIn(await git.run(command, { input: flushPacket.toString() }))
  })

  // A fault is told here, where it is shown to the user; git says nothing of why a later request fails.
  async function snapshotOf(path: string): Promise<RefSnapshot | undefined> {
    const snapshot = await refCache.of(path)
    if (!snapshot) await assertRepository(path)
    return snapshot
  }

  async function fetchOfferOf(path: string, protocol: string): Promise<Buffer[] | undefined> {
    if (protocol === 'version=2') {
      const head = readFingerprint(`${path}/HEAD`)
      if (head?.kind !== 'file' || head.size === 0) await assertRepository(path)
      return [await versionTwoOffer(path)]
    }
    const snapshot = await snapshotOf(path)
    if (!snapshot || isShallow(path)) return undefined
    const capabilities = await fetchCapabilities(path)
    const peeled = capabilities && (await refCache.peeled(path, snapshot))
    return capabilities && peeled && fetchAdvertisement(snapshot, peeled, capabilities)
  }

  async function pushOfferOf(path: string): Promise<Buffer[] | undefined> {
    const snapshot = await snapshotOf(path)
    // Told before the client sends anything.
    await freeSpace.require()
    if (!snapshot || isShallow(path)) return undefined
    return pushAdvertisement(snapshot, await pushCapabilities(path))
  }

  /** Says what a fetch or a push begins with where that takes no git; else says nothing, and is false. */
  async function offerAtHand(
    service: Service,
    request: GitRequest,
    heading?: Buffer,
  ): Promise<boolean> {
    const { repository, protocol } = request
    const isFetch = service === 'git-upload-pack'
    const offer = isFetch
      ? await fetchOfferOf(repository.path, protocol)
      : await pushOfferOf(repository.path)
    if (!offer) return false
    const version = protocol === 'version=1' ? [versionOne] : []
    await respondWithBytes(request, [...(heading ? [heading] : []), ...version, ...offer], stallMs)
    return true
  }

  return {
    offerAtHand,

    /** Says what a fetch or a push begins with: the server's capabilities, and mostly all refs. */
    async offer(service: Service, request: GitRequest, heading?: Buffer): Promise<RequestOutcome> {
      if (await offerAtHand(service, request, heading)) return 0
      using watched = watchRequest(request, stallMs)
      using _turn = await turns.fetch.acquire(keysOf(watched), watched.signal)
      const command =
        service === 'git-upload-pack' ? gitCommands.advertiseFetch : gitCommands.advertisePush
      await using child = await git.start(command(request.repository.path), request)
      // With nothing said, the status of HTTP gives the reason.
      const explains = 'once begun'
      return await respond(watched, { child, input: bodyOf(), heading, explains }, log)
    },

    /** Answers `ls-refs`. */
    async list(request: GitRequest | WatchedRequest, input: Buffer): Promise<RequestOutcome> {
      const { repository, protocol } = request
      const lines =
        protocol === 'version=2' ? await answerLsRefs(refCache, repository.path, input) : undefined
      if (lines) return respondWithBytes(request, lines, stallMs)
      using watched = watchRequest(request, stallMs)
      using _turn = await turns.fetch.acquire(keysOf(watched), watched.signal)
      await using child = await git.start(gitCommands.fetch(repository.path), watched)
      return await respond(watched, { child, input: bodyOf(input) }, log)
    },
  }
}

// Git lists the commits whose parents a repository lacks.
function isShallow(path: string): boolean {
  return existsSync(join(path, 'shallow'))
}

/** Asks until there is an answer, by the first repository that gives one. */
function once<T>(ask: (path: string) => Promise<T>): (path: string) => Promise<T> {
  let known: Promise<T> | undefined
  return async (path) => {
    known ??= ask(path)
    const asked = known
    const forget = () => {
      if (known === asked) known = undefined
    }
    try {
      const answer = await asked
      if (answer === undefined) forget()
      return answer
    } catch (error) {
      forget()
      await assertRepository(path)
      throw error
    }
  }
}
