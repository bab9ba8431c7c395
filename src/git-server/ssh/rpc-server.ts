import type { Access } from '#access/access-watch.ts'
import type { Permission } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import { createTaskGroup } from '#base/concurrency/task-group.ts'
import type { PushRunOptions } from '#database/schema.ts'
import type { PushResult } from '#git/protocol/hook-channel.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import type { CreateLoginLink, LoginLink } from '#identity/sessions/login-links.ts'
import type { SshKeys } from '#identity/ssh-keys/ssh-keys.ts'
import type { Need, Repositories, Repository } from '#repositories/repositories.ts'
import type { Hold } from '#repositories/repository-holds.ts'
import type { Store } from '#repositories/store/store.ts'
import type { LfsTokens } from '../lfs/lfs-tokens.ts'
import type { Push, PushAuthority } from '../push/push.ts'
import type { PushHolds } from '../push/push-holds.ts'
import { pushEnded } from '../receive-pack/receive-pack.ts'
import type { GitLimiters, LimiterKind } from '../requests/git-limiters.ts'
import type { FetchSource, Operation } from '../requests/operations.ts'

/** The functions that the SSH process calls in the main process, which alone has the database. */
export type SshRpcServer = {
  identify: (blob: Uint8Array) => ReturnType<SshKeys['identify']>
  principalOf: SshKeys['principalOf']
  hasPublic: Repositories['hasPublic']
  open: (
    principal: Principal,
    name: string,
    permission: Permission,
    need: Need,
  ) => Promise<Repository>
  recheckAccess: (access: Access) => Promise<void>
  /** Throws the Problem of a part of the service that is unavailable. */
  requireParts: () => Promise<void>
  reclaim: Store['reclaim']
  list: Repositories['list']
  describe: (repository: Repository) => ReturnType<Repositories['describe']>
  createLoginLink: (principal: Principal) => Promise<LoginLink>
  createLfsToken: LfsTokens['create']
  acquirePermit: (id: number, kind: LimiterKind, keys: string[]) => Promise<void>
  /** Releases a permit, or ends the wait for it. */
  releasePermit: (id: number) => Promise<void>
  acquireHold: (id: number, ...push: Parameters<PushHolds['acquire']>) => Promise<void>
  /** Releases a hold. `exitCode` is git's: null if it was killed, undefined if it never started. */
  releaseHold: (id: number, exitCode: number | null | undefined) => Promise<void>
  requireBytesLeft: PushAuthority['requireBytesLeft']
  /** Authorizes a push; returns the id of its record, and what became of it with a shared store. */
  authorize: (
    push: SshPush,
    updates: RefUpdate[],
  ) => Promise<{ id: string | undefined; result: PushResult | undefined }>
  /** Waits for the runs of a push, and shows their progress under the number of the wait; returns its run options. */
  awaitRuns: (
    wait: number,
    push: SshPush,
    updates: RefUpdate[],
  ) => Promise<PushRunOptions | undefined>
  /** Ends a wait, because the push has ended. */
  endWait: (wait: number) => Promise<void>
  propose: (push: SshPush, updates: RefUpdate[]) => Promise<PushResult>
  finalize: (pushId: string, refused: string[] | undefined) => Promise<boolean>
  observe: (operation: Operation) => Promise<void>
  observeFetch: (source: FetchSource) => Promise<void>
}

/** A push over SSH. */
export type SshPush = Pick<
  Push,
  | 'principal'
  | 'repository'
  | 'isFastForward'
  | 'isAtomic'
  | 'quarantine'
  | 'allowedLeaks'
  | 'proposal'
  | 'runOptions'
>

/** The main process's side for one SSH process, which identifies its permits and holds by its own numbers. */
export type SshRpcSide = {
  functions: SshRpcServer
  /** Releases all that the SSH process held, after it and its git processes have ended. */
  abandon: () => Promise<void>
}

/** The parts of the main process that the SSH process uses. */
export type SshRpcParts = {
  sshKeys: SshKeys
  createLoginLink: CreateLoginLink
  createLfsToken: LfsTokens['create']
  repositories: Repositories
  recheckAccess: (access: Access) => Promise<void>
  requireParts: () => Promise<void>
  reclaim: Store['reclaim']
  pushes: PushAuthority
  pushHolds: PushHolds
  limiters: GitLimiters
  /** Called when a Git operation over SSH has ended. */
  onOperation: (operation: Operation) => void
  /** Called for each fetch over SSH. */
  onFetch: (source: FetchSource) => void
}

type Permit = { end: AbortController; held?: Disposable }

/** `showProgress` shows a line to the client of a waiting push. */
export function createSshRpcServer(
  parts: SshRpcParts,
  showProgress: (wait: number, line: string) => void,
): SshRpcSide {
  const { sshKeys, repositories, recheckAccess, requireParts, pushes, pushHolds, limiters } = parts
  const { onOperation, onFetch } = parts
  const permits = new Map<number, Permit>()
  const holds = new Map<number, Hold>()
  const openPushes = new Map<string, Push>()
  const waits = new Map<number, AbortController>()
  // Pending calls that may still give the SSH process a permit, a hold or a push.
  const calls = createTaskGroup()

  const functions: SshRpcServer = {
    identify: (blob) => sshKeys.identify(Buffer.from(blob)),
    principalOf: sshKeys.principalOf,
    hasPublic: repositories.hasPublic,

    open: repositories.openForGit,
    recheckAccess,
    requireParts,
    reclaim: parts.reclaim,
    list: repositories.list,
    describe: (repository) => repositories.describe(repository),
    createLoginLink: (principal) => parts.createLoginLink(principal),
    createLfsToken: parts.createLfsToken,

    async acquirePermit(id, kind, keys) {
      const permit: Permit = { end: new AbortController() }
      permits.set(id, permit)
      try {
        permit.held = await limiters[kind].acquire(keys, permit.end.signal)
      } catch (error) {
        permits.delete(id)
        throw error
      }
      if (permit.end.signal.aborted) permit.held[Symbol.dispose]()
    },

    async releasePermit(id) {
      const permit = permits.get(id)
      if (!permit) return
      permits.delete(id)
      permit.end.abort()
      permit.held?.[Symbol.dispose]()
    },

    async acquireHold(id, ...push) {
      holds.set(id, await pushHolds.acquire(...push))
    },

    async releaseHold(id, exitCode) {
      const hold = holds.get(id)
      holds.delete(id)
      if (exitCode !== undefined) hold?.watch(Promise.resolve({ exitCode }))
      await hold?.[Symbol.asyncDispose]()
    },

    requireBytesLeft: (repository, bytes) => pushes.requireBytesLeft(repository, bytes),

    async authorize(about, updates) {
      const push: Push = { ...about, via: 'ssh' }
      let result: PushResult | undefined
      try {
        result = await pushes.authorize(push, updates)
      } catch (error) {
        await pushes.finalize(push)
        throw error
      }
      if (push.id !== undefined) openPushes.set(push.id, push)
      return { id: push.id, result }
    },

    async awaitRuns(wait, about, updates) {
      const push: Push = { ...about, via: 'ssh' }
      const end = new AbortController()
      waits.set(wait, end)
      const onProgress = (line: string) => showProgress(wait, line)
      try {
        await pushes.awaitRuns(push, updates, { onProgress, signal: end.signal })
        return push.runOptions
      } finally {
        waits.delete(wait)
      }
    },

    propose: (about, updates) => pushes.propose({ ...about, via: 'ssh' }, updates),

    endWait: async (wait) => waits.get(wait)?.abort(pushEnded()),

    observe: async (operation) => onOperation(operation),
    observeFetch: async (source) => onFetch(source),

    async finalize(pushId, refused) {
      const push = openPushes.get(pushId)
      openPushes.delete(pushId)
      return push ? pushes.finalize(Object.assign(push, { refused })) : true
    },
  }

  function tracked<V extends unknown[], R>(call: (...values: V) => Promise<R>) {
    return (...values: V): Promise<R> => calls.add(call(...values))
  }

  return {
    functions: {
      ...functions,
      acquirePermit: tracked(functions.acquirePermit),
      acquireHold: tracked(functions.acquireHold),
      authorize: tracked(functions.authorize),
      propose: tracked(functions.propose),
      awaitRuns: tracked(functions.awaitRuns),
    },

    async abandon() {
      await Promise.all([...permits.keys()].map(functions.releasePermit))
      await Promise.all([...waits.keys()].map(functions.endWait))
      await calls.settled()
      await Promise.all([
        ...[...holds.keys()].map((id) => functions.releaseHold(id, null)),
        ...[...openPushes.keys()].map((id) => functions.finalize(id, undefined)),
      ])
    },
  }
}
