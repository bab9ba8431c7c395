import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import type { Log } from '#base/log.ts'
import { objectFormats } from '#base/object-id.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Via } from '#database/schema.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { Git } from '#git/process/git-process.ts'
import {
  capabilitiesIn,
  fetchAdvertisement,
  fetchCapabilitiesIn,
  inObjectFormat,
  pushAdvertisement,
  withObjectFormats,
} from '#git/protocol/advertisement.ts'
import { answerLsRefs } from '#git/protocol/ls-refs.ts'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { bodyOf } from '#git/protocol/request-body.ts'
import type { RefCache } from '#git/refs/ref-cache.ts'
import type { RefSnapshot } from '#git/refs/ref-snapshot.ts'
import { assertRepository } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import {
  type GitRequest,
  keysOf,
  type RequestOutcome,
  type Service,
} from '../requests/git-request.ts'
import {
  respond,
  respondWithBytes,
  type WatchedRequest,
  watchRequest,
} from '../requests/respond.ts'

type Dependencies = {
  git: Git
  limiters: Pick<GitLimiters, 'fetch'>
  refCache: RefCache
  via: Via
  freeSpace: Pick<FreeSpace, 'require'>
  settings: Pick<PlainSettings, 'defaultObjectFormat'>
  stallMs: number
  log: Log
}

const versionOne = packet('version 1\n')

/** Sends ref advertisements and serves `ls-refs`. */
export function createAdvertiser({
  git,
  limiters,
  refCache,
  via,
  freeSpace,
  settings,
  stallMs,
  log,
}: Dependencies) {
  // Capabilities depend on nothing of the repository but its object format, so git is run for them once.
  const versionTwoAdvertisement = cacheFirst(async (path) => {
    const text = await git.run(gitCommands.advertiseFetch(path), { protocol: 'version=2' })
    // Clients since git 2.56 need what that git says itself; older ones take no notice.
    const [plain, explicit] = ['object-info\n', 'object-info=size\n'].map(packet)
    return Buffer.from(text.replace(String(plain), String(explicit)))
  })
  const pushCapabilities = cacheFirst(async (path) =>
    capabilitiesIn(await git.run(gitCommands.advertisePush(path))),
  )
  const fetchCapabilities = cacheFirst(async (path) => {
    // Over HTTP each request of a fetch is stateless; capabilities such as `no-done` apply only there.
    const command =
      via === 'http' ? gitCommands.advertiseFetch(path) : gitCommands.fetchSession(path)
    return fetchCapabilitiesIn(await git.run(command, { input: flushPacket.toString() }))
  })

  // Damage is reported here because git shows this error to its user, and not those of later requests.
  async function snapshotOf(path: string): Promise<RefSnapshot | undefined> {
    const snapshot = await refCache.of(path)
    if (!snapshot) await assertRepository(path)
    return snapshot
  }

  async function fetchAdvertisementOf(
    { path, objectFormat }: Repository,
    protocol: string,
  ): Promise<Buffer[] | undefined> {
    const format = objectFormat ?? settings.defaultObjectFormat
    if (protocol === 'version=2') {
      await assertRepository(path)
      return [inObjectFormat(await versionTwoAdvertisement(path), format)]
    }
    const snapshot = await snapshotOf(path)
    if (!snapshot || isShallow(path)) return undefined
    const capabilities = await fetchCapabilities(path)
    const peeled = capabilities && (await refCache.peeled(path, snapshot))
    if (!capabilities || !peeled) return undefined
    const before = withObjectFormats(capabilities.before, [format])
    const after = withObjectFormats(capabilities.after, [format])
    return fetchAdvertisement(snapshot, peeled, { before, after })
  }

  async function pushAdvertisementOf({
    path,
    objectFormat,
  }: Repository): Promise<Buffer[] | undefined> {
    const snapshot = await snapshotOf(path)
    // Checked before the client sends its pack.
    await freeSpace.require()
    if (!snapshot || isShallow(path)) return undefined
    // The first push decides. All clients know the first format of several.
    const formats = objectFormat === null ? objectFormats : ([objectFormat] as const)
    const capabilities = withObjectFormats(await pushCapabilities(path), formats)
    return pushAdvertisement(snapshot, capabilities, formats[0])
  }

  /** Sends the ref advertisement without starting git; false, with nothing sent, when git is needed. */
  async function advertiseFromCache(
    service: Service,
    request: GitRequest,
    heading?: Buffer,
  ): Promise<boolean> {
    const { repository, protocol } = request
    const isFetch = service === 'git-upload-pack'
    const advertisement = isFetch
      ? await fetchAdvertisementOf(repository, protocol)
      : await pushAdvertisementOf(repository)
    if (!advertisement) return false
    const version = protocol === 'version=1' ? [versionOne] : []
    await respondWithBytes(
      request,
      [...(heading ? [heading] : []), ...version, ...advertisement],
      stallMs,
    )
    return true
  }

  return {
    advertiseFromCache,

    /** Sends the ref advertisement that begins a fetch or a push. */
    async advertise(
      service: Service,
      request: GitRequest,
      heading?: Buffer,
    ): Promise<RequestOutcome> {
      if (await advertiseFromCache(service, request, heading)) return 0
      using watched = watchRequest(request, stallMs)
      using _permit = await limiters.fetch.acquire(keysOf(watched), watched.signal)
      const command =
        service === 'git-upload-pack' ? gitCommands.advertiseFetch : gitCommands.advertisePush
      await using child = await git.start(command(request.repository.path), request)
      // Before the first byte, the HTTP status gives the reason.
      const explains = 'once begun'
      return await respond(watched, { child, input: bodyOf(), heading, explains }, log)
    },

    /** Serves `ls-refs`. */
    async list(request: GitRequest | WatchedRequest, input: Buffer): Promise<RequestOutcome> {
      const { repository, protocol } = request
      const lines =
        protocol === 'version=2' ? await answerLsRefs(refCache, repository.path, input) : undefined
      if (lines) return respondWithBytes(request, lines, stallMs)
      using watched = watchRequest(request, stallMs)
      using _permit = await limiters.fetch.acquire(keysOf(watched), watched.signal)
      await using child = await git.start(gitCommands.fetch(repository.path), watched)
      return await respond(watched, { child, input: bodyOf(input) }, log)
    },
  }
}

// Git also advertises the commits whose parents a shallow repository lacks.
function isShallow(path: string): boolean {
  return existsSync(join(path, 'shallow'))
}

/** Caches the first defined result, from any repository; failures are not cached. */
function cacheFirst<T>(read: (path: string) => Promise<T>): (path: string) => Promise<T> {
  const share = createSingleFlight<T>()
  let known: T | undefined
  return async (path) => {
    if (known !== undefined) return known
    try {
      known = await share('first', () => read(path))
      return known
    } catch (error) {
      await assertRepository(path)
      throw error
    }
  }
}
