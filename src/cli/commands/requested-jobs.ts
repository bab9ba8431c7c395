import type { Workflow } from '#actions/workflow-parser/workflow.ts'
import { UsageError } from './usage-error.ts'

/** Throws a UsageError unless each job of the command line exists. */
export function assertJobs(requested: string[], workflows: Workflow[]): void {
  const ids = workflows.flatMap(({ jobs }) => jobs.map(({ id }) => id))
  for (const id of requested) {
    if (!ids.includes(id)) throw new UsageError(`--job ${id}: the jobs are ${ids.join(', ')}.`)
  }
}
