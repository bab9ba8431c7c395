import type { Access } from '../../access/access-watch.ts'
import type { Permission } from '../../access/permissions.ts'
import type { Principal } from '../../access/principal.ts'
import type { RefUpdate } from '../../git/refs/refs.ts'
import type { Repositories, Repository } from '../../repositories/repositories.ts'
import type { Hold, RepositoryHolds } from '../../repositories/repository-holds.ts'
import type { SshKeys } from '../../ssh-keys/ssh-keys.ts'
import type { Push, Pushes } from '../receive-pack/pushes.ts'
import type { GitLimiters, LimiterKind } from '../requests/git-limiters.ts'
import type { Operation } from '../requests/operations.ts'
import type { FetchSource } from '../upload-pack/response-cache.ts'

/** What the SSH process asks of the main one, which alone knows who may do what. */
export type SshRpcServer = ReturnType<typeof createSshRpcServer>['functions']

type Dependencies = {
  sshKeys: SshKeys
  repositories: Repositories
  recheckAccess: (access: Access) => Promise<void>
  /** Throws the Problem of a part of the service that is missing. */
  requireParts: () => Promise<void>
  pushes: Pushes
  repositoryHolds: RepositoryHolds
  turns: GitLimiters
  /** Called when a Git operation over SSH has ended. */
  onOperation: (operation: Operation) => void
  /** Called for each fetch over SSH. */
  onFetch: (source: FetchSource) => void
}

type Turn = { end: AbortController; held?: Disposable }

/** The main process's side for one SSH process. What that holds here is named by numbers of its own. */
export function createSshRpcServer(dependencies: Dependencies) {
  const { sshKeys, repositories, recheckAccess, requireParts, pushes, repositoryHolds, turns } =
    dependencies
  const { onOperation, onFetch } = dependencies
  const heldTurns = new Map<number, Turn>()
  const repositoryHoldCounts = new Map<number, Hold>()
  const openPushes = new Map<string, Push>()
  // Calls that may yet give the process something to hold.
  const calls = new Set<Promise<unknown>>()

  const functions = {
    identify: (blob: Uint8Array) => sshKeys.identify(Buffer.from(blob)),
    principalOf: sshKeys.principalOf,

    open: (principal: Principal, name: string, permission: Permission) =>
      repositories.open(principal, name, permission),
    recheckAccess,
    requireParts,
    list: (principal: Principal) => repositories.list(principal, { after: '', limit: undefined }),
    describe: (repository: Repository) => repositories.describe(repository),

    async takeTurn(id: number, kind: LimiterKind, keys: string[]): Promise<void> {
      const turn: Turn = { end: new AbortController() }
      heldTurns.set(id, turn)
      try {
        turn.held = await turns[kind].acquire(keys, turn.end.signal)
      } catch (error) {
        heldTurns.delete(id)
        throw error
      }
      if (turn.end.signal.aborted) turn.held[Symbol.dispose]()
    },

    /** Ends a turn, or the wait for it. */
    async endTurn(id: number): Promise<void> {
      const turn = heldTurns.get(id)
      if (!turn) return
      heldTurns.delete(id)
      turn.end.abort()
      turn.held?.[Symbol.dispose]()
    },

    async enter(id: number, repositoryId: string): Promise<void> {
      repositoryHoldCounts.set(id, await repositoryHolds.acquire(repositoryId))
    },

    /** Ends a visit whose git has ended with an exit code, null if it was killed, undefined if it never was. */
    async leave(id: number, exitCode: number | null | undefined): Promise<void> {
      const hold = repositoryHoldCounts.get(id)
      repositoryHoldCounts.delete(id)
      if (exitCode !== undefined) hold?.watch(Promise.resolve({ exitCode }))
      await hold?.[Symbol.asyncDispose]()
    },

    /** Judges a push; the id of its record. */
    async authorize(
      principal: Principal,
      repository: Repository,
      updates: RefUpdate[],
      isFastForward: boolean | undefined,
    ): Promise<string | undefined> {
      const push: Push = { principal, repository, via: 'ssh', isFastForward }
      try {
        await pushes.authorize(push, updates)
      } catch (error) {
        await pushes.finalize(push)
        throw error
      }
      if (push.id !== undefined) openPushes.set(push.id, push)
      return push.id
    },

    observe: async (operation: Operation) => onOperation(operation),
    observeFetch: async (source: FetchSource) => onFetch(source),

    async finalize(pushId: string): Promise<boolean> {
      const push = openPushes.get(pushId)
      openPushes.delete(pushId)
      return push ? pushes.finalize(push) : true
    },
  }

  function counted<V extends unknown[], R>(call: (...values: V) => Promise<R>) {
    return (...values: V): Promise<R> => {
      const answer = call(...values)
      calls.add(answer)
      const done = () => calls.delete(answer)
      answer.then(done, done)
      return answer
    }
  }

  return {
    functions: {
      ...functions,
      takeTurn: counted(functions.takeTurn),
      enter: counted(functions.enter),
      authorize: counted(functions.authorize),
    },

    /** Gives up all that the process held, which is gone with its git processes. */
    async abandon(): Promise<void> {
      await Promise.all([...heldTurns.keys()].map(functions.endTurn))
      await Promise.allSettled(calls)
      await Promise.all([
        ...[...repositoryHoldCounts.keys()].map((id) => functions.leave(id, null)),
        ...[...openPushes.keys()].map(functions.finalize),
      ])
    },
  }
}
