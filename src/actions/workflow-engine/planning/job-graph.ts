import type { Scope } from '../../workflow-parser/expressions/scope.ts'
import type { Conclusion } from '../plan.ts'

/** A value of `needs.<id>.result`. */
export type JobResult = 'success' | 'failure' | 'cancelled' | 'skipped'

type Node = { id: string; needs: string[] }

/** Tracks which jobs of a file may start, and the results of those that have ended. */
export function createJobGraph(jobs: readonly Node[]) {
  const nodes = new Map(jobs.map((job) => [job.id, job]))
  const started = new Set<string>()
  const results = new Map<string, JobResult>()

  function ancestorsOf(id: string): Set<string> {
    const found = new Set<string>()
    const open = [...(nodes.get(id)?.needs ?? [])]
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      if (found.has(next)) continue
      found.add(next)
      open.push(...(nodes.get(next)?.needs ?? []))
    }
    return found
  }

  return {
    /** Lists the jobs that have not started and whose needs have all ended, in the order of the file. */
    ready: (): string[] =>
      jobs
        .filter(({ id, needs }) => !started.has(id) && needs.every((need) => results.has(need)))
        .map(({ id }) => id),
    begin(id: string): void {
      started.add(id)
    },
    end(id: string, result: JobResult): void {
      results.set(id, result)
    },
    resultOf: (id: string): JobResult | undefined => results.get(id),
    /**
     * The values of the status functions in a job's `if`. failure() considers all ancestors, and success() requires
     * all of them to have succeeded, so a skipped job skips its descendants.
     */
    statusOf(id: string, cancelled: boolean): Scope['status'] {
      const earlier = [...ancestorsOf(id)].map((ancestor) => results.get(ancestor))
      return {
        success: !cancelled && earlier.every((result) => result === 'success'),
        failure: !cancelled && earlier.includes('failure'),
        cancelled,
      }
    },
  }
}

export function isFailure(conclusion: Conclusion): conclusion is 'failure' | 'timed_out' {
  return conclusion === 'failure' || conclusion === 'timed_out'
}

/** The result of a job for its dependents: with `continue-on-error`, a failure counts as a success. */
export function resultOf(conclusion: Conclusion, continueOnError: boolean): JobResult {
  if (isFailure(conclusion)) return continueOnError ? 'success' : 'failure'
  return conclusion
}

/** Combines the results of the jobs of a matrix. */
export function combineResults(results: readonly JobResult[]): JobResult {
  for (const result of ['failure', 'cancelled', 'success'] as const) {
    if (results.includes(result)) return result
  }
  return 'skipped'
}

/** The conclusion of an uncancelled run. `conclusions` must not include tolerated failures. */
export function concludeRun(conclusions: readonly Conclusion[]): Exclude<Conclusion, 'skipped'> {
  if (conclusions.includes('timed_out')) return 'timed_out'
  // A cancelled job was cancelled by the failure of another job of its matrix.
  return conclusions.includes('failure') ? 'failure' : 'success'
}
