import { eachAtOnce } from '../base/at-once.ts'
import { Problem, type ProblemKind, problems } from '../base/problem.ts'
import type { Permission } from './permissions.ts'
import type { Principal } from './principal.ts'

/** The access that a long-lived response depends on. */
export type Access = {
  principal: Principal
  /** Undefined where any live principal will do. */
  permission?: Permission | undefined
  /** The repository that it is about, if any. */
  repository?: { id: string } | undefined
}

export type AccessWatch = ReturnType<typeof createAccessWatch>

type Options = {
  /** Throws the Problem that the principal would get for a new request. */
  recheck: (access: Access) => Promise<void>
}

// Together with a slow query, well within the second in which a response must end.
const recheckIntervalMs = 600
// Few, so that ordinary requests need not queue behind them for database connections.
const maxConcurrentRechecks = 4
// Any other error, such as an unreachable database, does not revoke access.
const losses = new Set<ProblemKind>(['unauthenticated', 'forbidden', 'not-found'])

/**
 * Ends long-lived responses (streams, long polls) whose caller loses access: the token or key is deleted or expires, the
 * caller is removed as a collaborator, or the repository is deleted. Access is checked at intervals, since another process
 * may change it, and once for all responses that depend on the same access.
 */
export function createAccessWatch({ recheck }: Options) {
  const watched = new Map<(problem: Problem) => void, Access[]>()
  let timer: NodeJS.Timeout | undefined
  let isChecking = false

  async function checkAll(): Promise<void> {
    if (watched.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
    if (isChecking) return
    isChecking = true
    const dependents = Map.groupBy(
      [...watched].flatMap(([end, all]) => all.map((access) => ({ end, access }))),
      ({ access }) => keyOf(access),
    )
    try {
      await eachAtOnce(maxConcurrentRechecks, dependents.values(), async (group) => {
        const [first] = group
        const problem = first && (await lossOf(first.access))
        if (problem) for (const { end } of group) if (watched.delete(end)) end(problem)
      })
    } finally {
      isChecking = false
    }
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

  return {
    /** Calls `end` once when the access, or any that is required later, is lost, unless disposed of before. */
    watch(
      access: Access,
      end: (problem: Problem) => void,
    ): Disposable & { require: (more: Access) => void } {
      const required = [access]
      watched.set(end, required)
      timer ??= setInterval(() => void checkAll(), recheckIntervalMs).unref()
      return {
        require: (more) => void required.push(more),
        [Symbol.dispose]: () => void watched.delete(end),
      }
    },
  }
}

function keyOf({ principal, permission, repository }: Access): string {
  const { kind, id, claim } = principal
  return JSON.stringify([kind, id, claim, permission, repository?.id])
}
