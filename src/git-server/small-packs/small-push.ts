import { join } from 'node:path'
import { writeSynced } from '#base/disk.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import { formatOf } from '#base/object-id.ts'
import { Problem, toProblem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import { isEmptyPack, type PackedObject, readSmallPack } from '#git/objects/pack.ts'
import { gitCommands } from '#git/process/commands.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import { flushPacket } from '#git/protocol/pkt-line.ts'
import type { PushRequest } from '#git/protocol/push-commands.ts'
import { reportOf } from '#git/protocol/push-report.ts'
import { isConnected, isConnectedSince } from '#git/refs/ancestry.ts'
import { moveRefs } from '#git/refs/move-refs.ts'
import type { RefCache } from '#git/refs/ref-cache.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, type RefUpdate, readRefs, tagPrefix } from '#git/refs/refs.ts'
import type { Hold } from '#repositories/repository-holds.ts'
import type { Push, PushAuthority } from '../push/push.ts'
import { openQuarantine, withPushLimits } from '../push/pushed-objects.ts'
import { finishPush, notice } from '../push/report-hold.ts'
import { unrunWorkflows } from '../push/unrun-workflows.ts'
import type { RequestOutcome } from '../requests/git-request.ts'
import type { WatchedRequest } from '../requests/respond.ts'
import { type Proof, proveConnected } from './proven-connected.ts'
import { createQuarantine } from './quarantine.ts'
import { createReachability } from './reachability.ts'
import type { AheadPush, ReadPush } from './read-ahead.ts'
import type { RecentPacks } from './recent-packs.ts'
import { toRecentPack } from './recent-packs.ts'

export type SmallPushParts = {
  git: Git
  /** Readers of objects, which requests share. */
  pool: Pick<ObjectPool, 'of'>
  refCache: Pick<RefCache, 'of'>
  settings: Pick<PlainSettings, 'pushMemoryMaxBytes'>
  faultPoint: FaultPoint
  log: Log
}

export type SmallPush = {
  pushes: Pick<PushAuthority, 'authorize' | 'finalize'>
  watched: WatchedRequest
  request: PushRequest
  push: Push
  ahead: AheadPush
  hold: Hold
}

type Taking = ReadPush & {
  directory: string
  /** The quarantine's object directory. */
  quarantine: string
  scopedGit: Git
  hold: Hold
}

/** The objects of a pack, unless they are too many, and how they are complete, if that is proven. */
type TakenPack = { objects: PackedObject[] | undefined; proof: Proof | undefined }

// The new content of the ref's file, before it is the ref.
const draftFile = 'svc-ref'

/**
 * Serves a push of a few commits to a branch, which may be new, or of a new tag in place of `git receive-pack`. Git still
 * checks the objects and writes their pack (`git index-pack`), in a quarantine, if there are any; the rest of what
 * receive-pack does, with three more processes, takes place here: the connectivity check, the authorization in place of the
 * hook, the move of the ref. Returns undefined, with nothing changed, for any other push, and for one that git would refuse
 * or remark on: receive-pack then says why.
 *
 * Measured: a push of a commit takes 26 instead of 42 ms of CPU time, and its response is 16 % faster. Without
 * this function, `proveConnected`, `createReachability`, `createQuarantine`, the drafts of `moveRefs` and `takeSmallPack` go as well.
 */
export function createSmallPushes(
  parts: SmallPushParts,
  recentPacks: Pick<RecentPacks, 'add'>,
): (push: SmallPush) => Promise<RequestOutcome | undefined> {
  const { git, pool, settings, faultPoint, log } = parts
  const reachability = createReachability(parts)
  const limitedGit = withPushLimits(git, settings)

  /**
   * Writes the pack into the quarantine, and reads it there; undefined when git refuses it, or warns about an object. Git
   * names the pack once its files are complete. They are read while it ends, which takes another millisecond.
   */
  async function takePack(taking: Taking): Promise<TakenPack | undefined> {
    const { directory, quarantine, scopedGit, pack, update, hold } = taking
    await using child = await scopedGit.start(gitCommands.takeSmallPack(directory))
    hold.watch(child.ended)
    const named = new Promise((resolve) => child.stdout.once('data', resolve))
    child.stdin.end(pack)
    await Promise.race([named, child.ended])
    const reading = readTaken(quarantine, {
      update,
      reader: pool.of(directory),
      isReached: (id) => reachability.isReached(directory, update, id),
    })
    // There is nothing to read in the quarantine of a refused pack.
    reading.catch(() => {})
    const { exitCode, errorOutput } = await child.ended
    const isTaken = exitCode === 0 && errorOutput === ''
    const taken = isTaken ? await reading : undefined
    if (!taken || !leadsTo(taken, taking)) return undefined
    const isSound = taken.proof || (await isComplete(taking))
    return isSound ? taken : undefined
  }

  function isComplete({ directory, scopedGit, buildsOn, update }: Taking): Promise<boolean> {
    return buildsOn === 'yes'
      ? isConnectedSince(scopedGit, directory, update)
      : isConnected(scopedGit, directory, [update])
  }

  return async (given) => {
    const { pushes, watched, request, push, ahead, hold } = given
    const { read } = ahead
    const { repository, response, signal } = watched
    const { path: directory } = repository
    if (!read || !isServed(read) || !isUsual(request, read.update.after)) return undefined
    const { update, pack } = read
    if (!(await isPossible(directory, update))) return undefined
    const hasObjects = !isEmptyPack(pack, formatOf(update.after))
    if (!hasObjects && !(await reachability.canMove(directory, update))) return undefined
    await using quarantine = await createQuarantine(directory).catch(() => undefined)
    // Git says whether the repository is damaged, deleted, or without space.
    if (!quarantine) return undefined
    let taken: TakenPack | undefined
    if (hasObjects) {
      const { path } = quarantine
      const scopedGit = await openQuarantine(limitedGit, { repository, quarantine: path })
      taken = await takePack({ ...read, directory, quarantine: path, scopedGit, hold })
      if (!taken) return undefined
      push.quarantine = path
      push.objects = taken.objects
    } else push.isFastForward = update.before !== zeroId

    signal.throwIfAborted()
    const { ref, before, after } = update
    const lines: string[] = []
    let isAuthorized = false
    let refusal: string | undefined
    try {
      const draft = join(quarantine.path, draftFile)
      const synced = Promise.all([
        hasObjects && quarantine.sync(),
        writeSynced(draft, `${after}\n`),
      ])
      // It is awaited below, unless the push is refused.
      synced.catch(() => {})
      const result = await pushes.authorize(push, [update])
      isAuthorized = true
      for (const warning of result?.warnings ?? []) lines.push(`warning: ${warning}`)
      await synced
      if (hasObjects) await quarantine.migrate()
      faultPoint('small-push.stored')
      const move = { ref, from: before, to: after, draft }
      await moveRefs(git, { directory, watch: hold.watch }, [move])
      push.refused = []
    } catch (error) {
      if (!isAuthorized) {
        if (!(error instanceof Problem)) log.error({ err: error }, 'push authorization failed')
        lines.push(...toProblem(error).message.split('\n'))
        refusal = 'pre-receive hook declined'
      } else {
        if (error instanceof GitError) lines.push(reasonIn(error, directory))
        if (error instanceof GitError && error.isRefusal) push.refused = [ref]
        else log.error({ err: error, pushId: push.id }, 'push not completed')
        refusal = push.isAtomic ? 'atomic transaction failed' : 'failed to update ref'
      }
    }
    const finalized = pushes.finalize(push)
    const isDone = refusal === undefined
    const recent = isDone && taken && toRecentPack(after, pack, taken)
    if (recent) recentPacks.add(repository.id, recent)
    const mayHaveWorkflows = isDone && taken?.objects?.some(isAboveWorkflows)
    const advised = mayHaveWorkflows
      ? unrunWorkflows({ directory, reader: pool.of(directory), updates: [update] })
      : Promise.resolve([])
    lines.push(...(await finishPush(request, finalized, advised)))
    const report = reportOf(new Map([[ref, refusal]]))
    response.respondWithBytes(Buffer.concat([...lines.map(notice), report, flushPacket]))
    response.onComplete()
    await finalized
    return 0
  }
}

async function readTaken(
  quarantine: string,
  proving: Omit<Parameters<typeof proveConnected>[0], 'objects'>,
): Promise<TakenPack> {
  const objects = await readSmallPack(quarantine)
  return { objects, proof: objects && (await proveConnected({ ...proving, objects })) }
}

/**
 * Whether the pack contains the new tip, with a type allowed for this ref. A pack of a whole history, or of commits on
 * top of the old tip, has it as a commit.
 */
function leadsTo({ objects }: TakenPack, { update, buildsOn }: ReadPush): boolean {
  if (buildsOn !== 'no') return true
  const type = objects?.find(({ id }) => id === update.after)?.type
  return type === 'commit' || (type === 'tag' && !update.ref.startsWith(branchPrefix))
}

/** Whether a push creates or moves a branch, or creates a tag, and its pack was read to its end. */
function isServed({ update, buildsOn }: ReadPush): boolean {
  const { ref, before } = update
  const isNewTag = ref.startsWith(tagPrefix) && before === zeroId
  return buildsOn !== 'unknown' && (ref.startsWith(branchPrefix) || isNewTag)
}

/** The message of git about a ref, as receive-pack words it; the advice that may follow is for users of the server. */
function reasonIn({ errorOutput }: GitError, directory: string): string {
  const [message = ''] = errorOutput.replaceAll(`${directory}/`, './').split('\n')
  return message.replace(/^fatal:/, 'error:')
}

/** Whether an object may be a folder of workflows: a push that changes one has those above it, too. */
function isAboveWorkflows({ type, content }: PackedObject): boolean {
  return type === 'tree' && content.includes(' workflows\0')
}

/** Whether a client reads a report in bands, and has whole histories of objects in the format of an id. */
function isUsual({ capabilities, isShallow }: PushRequest, id: string): boolean {
  const isReporting = ['report-status', 'report-status-v2'].some((name) => capabilities.has(name))
  const format = `object-format=${formatOf(id)}`
  const isOfFormat =
    capabilities.has(format) || (formatOf(id) === 'sha1' && !capabilities.has('object-format'))
  return isReporting && capabilities.has('side-band-64k') && !isShallow && isOfFormat
}

/** Whether the ref can move now; git explains why it cannot. */
async function isPossible(directory: string, { ref, before, after }: RefUpdate): Promise<boolean> {
  return before !== after && (await readRefs(directory, [ref])).get(ref) === before
}
