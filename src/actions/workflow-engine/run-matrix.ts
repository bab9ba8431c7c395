import { createSemaphore, type Semaphore } from '#base/concurrency/semaphore.ts'
import type { Cancellation } from './cancellation.ts'
import { createJobCancellation } from './execute-job.ts'
import type { JobResult } from './planning/job-graph.ts'
import type { ExpandedJobs } from './planning/plan-job.ts'
import type { RunState } from './run-state.ts'
import { type Holds, holdsSafely } from './unrun-jobs.ts'

type Options = Pick<ExpandedJobs, 'failFast' | 'maxParallel'> & { run: RunState; holds: Holds }

/** The cancellation of one job of a matrix, and the limit of concurrent jobs. */
export type MatrixPart = { cancellation: Cancellation; parallelLimit: Semaphore }

/**
 * Returns a function that runs one job of a matrix, or the workflow that it calls. They share the limit of concurrent
 * jobs; with `fail-fast`, a failure cancels those that are running or waiting.
 */
export function createMatrix({ run, holds, failFast, maxParallel }: Options) {
  const parallelLimit = createSemaphore(maxParallel)
  const cancellations = new Set<Cancellation>()
  return async <End>(
    name: string,
    work: (part: MatrixPart) => Promise<End>,
    resultOf: (end: End) => JobResult,
  ): Promise<End> => {
    using cancellation = createJobCancellation(run, () => holdsSafely(holds))
    cancellations.add(cancellation)
    const end = await work({ cancellation, parallelLimit })
    cancellations.delete(cancellation)
    if (failFast && resultOf(end) === 'failure') {
      const text = `${name} failed, and the matrix has fail-fast.`
      for (const other of cancellations) other.cancel({ conclusion: 'cancelled', text })
    }
    return end
  }
}
