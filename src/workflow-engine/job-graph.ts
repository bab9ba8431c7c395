import type { Scope } from '../workflow-parser/scope.ts'
import type { Conclusion } from './plan.ts'

/** What `needs.<id>.result` says. */
export type JobResult = 'success' | 'failure' | 'cancelled' | 'skipped'

type Node = { id: string; needs: string[] }

/** Which jobs of a file may begin, and what the ended ones mean for those that need them. */
export function createJobGraph(jobs: readonly Node[]) {
  const nodes = new Map(jobs.map((job) => [job.id, job]))
  const begun = new Set<string>()
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
    /** Jobs that have not begun and whose needs have all ended, in the order of the file. */
    ready: (): string[] =>
      jobs
        .filter(({ id, needs }) => !begun.has(id) && needs.every((need) => results.has(need)))
        .map(({ id }) => id),
    begin(id: string): void {
      begun.add(id)
    },
    end(id: string, result: JobResult): void {
      results.set(id, result)
    },
    resultOf: (id: string): JobResult | undefined => results.get(id),
    /**
     * What the status functions answer in a job's `if`: a failure of any job on the way to it counts, and
     * success() wants all of them to have succeeded, so that a skip goes on down the chain.
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

/** What a job's end means for those that need it: a failure that is to be passed over counts as a success. */
export function resultOf(conclusion: Conclusion, continueOnError: boolean): JobResult {
  if (conclusion === 'failure' || conclusion === 'timed_out') {
    return continueOnError ? 'success' : 'failure'
  }
  return conclusion
}

/** The result of all jobs of a matrix together. */
export function combineResults(results: readonly JobResult[]): JobResult {
  for (const result of ['failure', 'cancelled', 'success'] as const) {
    if (results.includes(result)) return result
  }
  return 'skipped'
}

/** How a run ended that nobody cancelled, by its jobs; those whose failure is passed over are left out before. */
export function concludeRun(conclusions: readonly Conclusion[]): Exclude<Conclusion, 'skipped'> {
  if (conclusions.includes('timed_out')) return 'timed_out'
  // Cancelled by another job's failure alone, or by what is passed over.
  return conclusions.includes('failure') ? 'failure' : 'success'
}
