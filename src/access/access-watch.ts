import { createPoller, type Poller } from '#base/concurrency/poller.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { Problem, type ProblemKind, problems } from '#base/problem.ts'
import type { Permission } from './permissions.ts'
import type { Principal } from './principal.ts'

/** The access that a long-lived response depends on. */
export type Access = {
  principal: Principal
  /** Undefined if any valid principal suffices. */
  permission?: Permission | undefined
  /** The repository, if any, and whether it was opened for those who may only propose changes, too. */
  repository?: { id: string; need?: string } | undefined
}

/** A long-lived response. */
export type WatchedResponse = {
  /** Every entry is required. */
  access: Access[]
  /** Called once, when access is lost. */
  end: (problem: Problem) => void
}

/** A watched response; undefined once it is removed. */
type Handle = { watched: WatchedResponse | undefined }

/**
 * Ends long-lived responses (streams, long polls) whose caller loses access: the token or key is deleted or expires, the
 * caller is removed as a collaborator, or the repository is deleted. Access is checked at intervals, since another process
 * may change it, and once for all responses that depend on the same access.
 */
export type AccessWatch = {
  /** Calls `end` once when any of the access is lost, unless the response is removed before. */
  add: (watched: WatchedResponse) => Handle
  remove: (handle: Handle) => WatchedResponse | undefined
  /** Throws the Problem that the principal would get for a new request. */
  recheck: (access: Access) => Promise<void>
}

type Options = Pick<AccessWatch, 'recheck'>

// Together with a slow query, well within the second in which a response must end.
const recheckIntervalMs = 600
// Few, so that ordinary requests need not queue behind them for database connections.
const maxConcurrentRechecks = 4
// Any other error, such as an unreachable database, does not revoke access.
const losses = new Set<ProblemKind>(['unauthenticated', 'forbidden', 'not-found'])

export function createAccessWatch({ recheck }: Options): AccessWatch {
  const handles = new Set<Handle>()
  // Undefined while there are no responses.
  let poller: Poller | undefined

  async function checkAll(): Promise<number> {
    const startedAt = performance.now()
    if (handles.size === 0) {
      void poller?.[Symbol.asyncDispose]()
      poller = undefined
    }
    const dependents = Map.groupBy(
      [...handles].flatMap((handle) =>
        (handle.watched?.access ?? []).map((access) => ({ handle, access })),
      ),
      ({ access }) => keyOf(access),
    )
    await forEachConcurrently(maxConcurrentRechecks, dependents.values(), async (group) => {
      const [first] = group
      const problem = first && (await lossOf(first.access))
      if (problem) for (const { handle } of group) remove(handle)?.end(problem)
    })
    return startedAt + recheckIntervalMs - performance.now()
  }

  async function lossOf(access: Access): Promise<Problem | undefined> {
    try {
      await recheck(access)
      return undefined
    } catch (error) {
      const isLoss = error instanceof Problem && losses.has(problems[error.code].kind)
      return isLoss ? error : undefined
    }
  }

  // An old table of a Set keeps its entries alive through young garbage collections, so the entries are small handles:
  // with the responses themselves, collections took twice as long.
  function remove(handle: Handle): WatchedResponse | undefined {
    const { watched } = handle
    handle.watched = undefined
    handles.delete(handle)
    return watched
  }

  return {
    add(watched) {
      const handle: Handle = { watched }
      handles.add(handle)
      poller ??= createPoller({
        intervalMs: recheckIntervalMs,
        run: checkAll,
        onError(error) {
          throw error
        },
      })
      return handle
    },

    remove,
    recheck,
  }
}

function keyOf({ principal, permission, repository }: Access): string {
  const { kind, id, tokenHash, readsAll } = principal
  return JSON.stringify([
    kind,
    id,
    tokenHash,
    readsAll,
    permission,
    repository?.id,
    repository?.need,
  ])
}
