import type { Principal } from '#access/principal.ts'
import type { AwaitedRun, PushRunOptions, Via } from '#database/schema.ts'
import type { PackedObject } from '#git/objects/pack.ts'
import type { Git } from '#git/process/git-process.ts'
import type { OnProgress, PushResult } from '#git/protocol/hook-channel.ts'
import type { PushedUpdate, RefUpdate } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { Landing, ProposalOptions } from './proposal.ts'

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
  /** The refs that did not move although it was authorized; undefined until git has reported, and after a crash. */
  refused?: string[] | undefined
  /** The object directory with its pack, until its hook succeeds; undefined when it has none. */
  quarantine?: string | undefined
  /** The objects of its pack, if they are in memory. */
  objects?: readonly PackedObject[] | undefined
  /** Ids of findings of the leak guard that it may contain: its push options `leak.allow`. */
  allowedLeaks?: string[] | undefined
  /** Present when it proposes a change, in place of updating a ref. */
  proposal?: ProposalOptions | undefined
  /** The changes that it lands, if any. */
  landing?: Landing | undefined
  /** The options of the push for the runs that it starts; undefined without any. */
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
  /** How many more bytes a repository may take; infinite without a limit. Throws `namespace_full` when they are fewer. */
  requireBytesLeft: (repository: Repository, bytes: number) => Promise<number>
  /**
   * Authorizes a push by the current permissions and branch protections, and records its intent in the journal. With a
   * shared store there is no git process that moves the refs: they are moved here, and the result is returned.
   */
  authorize: (push: Push, updates: RefUpdate[]) => Promise<PushResult | undefined>
  /**
   * Makes the version that a proposal was authorized for, once its objects are in the repository. A shared store makes it
   * when the push is authorized.
   */
  propose: (push: Push, updates: RefUpdate[]) => Promise<PushResult>
  /**
   * Completes the journal's record of a push and publishes its updates, once git has moved its refs or has ended. False
   * when that failed; the journal then retries it until it succeeds.
   */
  finalize: (push: Push) => Promise<boolean>
}

/** How a client that waits for the runs of its push hears of them, and how the wait ends. */
export type Wait = {
  onProgress: OnProgress
  /** Aborted when the push has ended, for instance because its client disconnected. */
  signal: AbortSignal
}

/** Runs workflows at commits that are not in the repository yet. Throws `run_required` unless all runs succeed. */
export type RunForPush = (
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
