import type { Principal } from '../../access/principal.ts'
import type { Log } from '../../base/log.ts'
import { Problem } from '../../base/problem.ts'
import type { FreeSpace } from '../../config/free-space.ts'
import type { PlainSettings } from '../../config/settings.ts'
import type { AwaitedRun, PushRunOptions, Via } from '../../database/push-schema.ts'
import type { Git, GitProcess } from '../../git/process/git-process.ts'
import {
  type Authorize,
  answerHook,
  type OnProgress,
  type PushResult,
} from '../../git/protocol/hook-channel.ts'
import { flushPacket, packet } from '../../git/protocol/pkt-line.ts'
import { type PushRequest, readPushRequest } from '../../git/protocol/push-commands.ts'
import { type Body, limited } from '../../git/protocol/request-body.ts'
import type { PushedUpdate, RefUpdate } from '../../git/refs/refs.ts'
import type { Repository } from '../../repositories/repositories.ts'
import type { RepositoryHolds } from '../../repositories/repository-holds.ts'
import type { GitLimiters } from '../requests/git-limiters.ts'
import {
  type GitRequest,
  keysOf,
  type RequestOutcome,
  respondEmpty,
} from '../requests/git-request.ts'
import { respond, type WatchedRequest, watchRequest } from '../requests/respond.ts'
import { createPausablePermit, type PausablePermit } from './pausable-permit.ts'
import { type PushOptions, readPushOptions } from './push-options.ts'
import { holdReport } from './report-hold.ts'
import { connectivityShortcut } from './small-packs/connectivity-shortcut.ts'
import { watchFastForward } from './small-packs/fast-forward.ts'

/** A push, from the start of its git process. */
export type Push = {
  principal: Principal
  repository: Repository
  via: Via
  /** The id of the push that it undoes. */
  undoes?: string
  /** Whether it is known to be a single fast-forward. */
  isFastForward?: boolean | undefined
  /** The id of its record, once it is authorized. */
  id?: string
  /** Whether its updates are all or none. */
  isAtomic?: boolean | undefined
  /** The object directory with its pack, until its hook succeeds; undefined when it has none. */
  quarantine?: string | undefined
  /** Ids of findings of the leak guard that it may contain: its push options `leak.allow`. */
  allowedLeaks?: string[] | undefined
  /** For the runs that it starts; undefined when it says nothing about them. */
  runOptions?: PushRunOptions | undefined
}

/** Decides about pushes and records them: the main process, also for pushes over SSH. */
export type PushAuthority = {
  /**
   * Runs the required workflows of a push, or else those that it would start, and waits for them while its objects are
   * in quarantine; the runs are recorded in its `runOptions`. Throws `run_required` unless all succeed, and the other
   * Problems of the push.
   */
  awaitRuns: (push: Push, updates: RefUpdate[], wait: Wait) => Promise<void>
  /**
   * Authorizes a push by the current permissions and branch protections, and records its intent. With a shared store,
   * this makes the push, and returns what became of it.
   */
  authorize: (push: Push, updates: RefUpdate[]) => Promise<PushResult | undefined>
  /**
   * Marks a push finished and publishes its updates, once git has moved its refs or has ended. False when that failed:
   * it is then retried until it succeeds.
   */
  finalize: (push: Push) => Promise<boolean>
}

/** The client of a push that waits for its runs. */
export type Wait = {
  onProgress: OnProgress
  /** Aborted when the push has ended, for instance because its client disconnected. */
  signal: AbortSignal
}

/** Runs workflows at commits that are not in the repository yet. Throws `run_required` unless all runs succeed. */
export type RunAwaited = (
  request: Wait & {
    repository: Repository
    actor: Principal
    /** Sees the objects of the push. */
    git: Git
    /** The updates, each with the files to run; undefined for those that its push would start. */
    wanted: { update: PushedUpdate; files: string[] | undefined }[]
    options: PushRunOptions
  },
) => Promise<AwaitedRun[]>

/**
 * Serves a push: authorized when git's hook runs, and finalized before the client gets git's report. With `mayBeEmpty`
 * a request without updates gets an empty response.
 */
export type ReceivePack = (
  request: GitRequest,
  body: Body,
  mayBeEmpty: boolean,
) => Promise<RequestOutcome>

type Dependencies = {
  git: Git
  pushes: PushAuthority
  via: Via
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  limiters: Pick<GitLimiters, 'push'>
  freeSpace: Pick<FreeSpace, 'require'>
  settings: Pick<PlainSettings, 'pushMaxBytes' | 'pushMaxRefs' | 'store'>
  stallMs: number
  log: Log
}

// With a shared store, the server moves the refs, and a directory is a cache that need not survive a power failure.
const sharedStoreConfig = { 'receive.procReceiveRefs': 'refs', 'core.fsync': 'none' }

export function createReceivePack(dependencies: Dependencies): ReceivePack {
  const { git, pushes, via, repositoryHolds, limiters, freeSpace, settings, stallMs, log } =
    dependencies
  const hasSharedStore = settings.store !== undefined

  async function runGit(
    watched: WatchedRequest,
    pushRequest: PushRequest,
    permit: PausablePermit,
  ): Promise<RequestOutcome> {
    const { repository, principal, response } = watched
    const { whole, config } = await connectivityShortcut(repository.path, pushRequest)
    const pushConfig = hasSharedStore ? { ...config, ...sharedStoreConfig } : config
    await using hold = await repositoryHolds.acquire(repository.id)
    const { protocol } = watched
    await using child = await git.startPush(repository.path, { protocol, config: pushConfig })
    hold.watch(child.ended)
    const options = readPushOptions(pushRequest.options)
    const { allowedLeaks } = options
    const isAtomic = pushRequest.capabilities.has('atomic')
    const runOptions = toRunOptions(options)
    const push: Push = { principal, repository, via, isAtomic, allowedLeaks, runOptions }
    const authorize: Authorize = async (given, quarantine, onProgress) => {
      push.quarantine = quarantine
      if (options.isWaiting) {
        const wait = { onProgress, signal: endOf(child) }
        await permit.pause(() => pushes.awaitRuns(push, given, wait), watched.signal)
      }
      return pushes.authorize(push, given)
    }
    const hookAnswered = answerHook(child.channel, pushRequest.updates, authorize).catch((error) =>
      log.error({ err: error }, 'push authorization failed'),
    )
    // Known before the hook runs: git has read the whole pack by then.
    const input = watchFastForward(whole, pushRequest, () => {
      push.isFastForward = true
    })
    let finalized: Promise<boolean> | undefined
    const finalize = () => {
      finalized ??= hookAnswered.then(() => pushes.finalize(push))
      return finalized
    }
    try {
      const reportHold = holdReport(child, pushRequest, finalize)
      const { onComplete } = response
      return await respond(watched, { child, input, onComplete, reportHold }, log)
    } finally {
      // A client that disconnects does not stop an authorized push: git is given time to complete it.
      if (push.id === undefined) await child[Symbol.asyncDispose]()
      await child.ended
      await finalize()
    }
  }

  return async (request, body, mayBeEmpty) => {
    await freeSpace.require()
    using watched = watchRequest(request, stallMs)
    using permit = await createPausablePermit(limiters.push, keysOf(request), watched.signal)
    const input = limited(body, { ...watched, maxBytes: settings.pushMaxBytes })
    // The body of a refused push is not read to its end here; the transport discards the rest.
    using _input = { [Symbol.dispose]: () => void input.return().catch(() => {}) }
    const pushRequest = await readPushRequest(input, settings.pushMaxRefs)
    const { updates, refusal } = pushRequest
    if (refusal) return refuse(request, { ...pushRequest, refusal })
    if (mayBeEmpty && updates.length === 0) return respondEmpty(request.response)
    return await runGit(watched, pushRequest, permit)
  }
}

function toRunOptions({ skipsRuns, inputs }: PushOptions): PushRunOptions | undefined {
  const hasInputs = Object.keys(inputs).length > 0
  if (!skipsRuns && !hasInputs) return undefined
  return { ...(skipsRuns && { isSkipped: true }), ...(hasInputs && { inputs }) }
}

/** Why the runs of a waiting push are cancelled. */
export function pushEnded(): Problem {
  return new Problem('run_required', 'Its client disconnected.')
}

/** A signal that is aborted when a git process has ended. */
function endOf(child: GitProcess): AbortSignal {
  const end = new AbortController()
  const onEnd = () => end.abort(pushEnded())
  child.ended.then(onEnd, onEnd)
  return end.signal
}

// Sent as a fatal error of Git (pack-protocol, "side-band"), which clients show; clients without side-band get the status.
async function refuse(
  { response, sendsAllFirst }: GitRequest,
  { whole, capabilities, refusal }: { whole: Body; capabilities: Set<string>; refusal: Problem },
): Promise<RequestOutcome> {
  if (!capabilities.has('side-band-64k')) throw refusal
  if (sendsAllFirst) {
    for await (const _ of whole) {
    }
  }
  response.begin()
  response.output.write(Buffer.concat([packet(`\x03${refusal.message}`), flushPacket]))
  return 'refused'
}
