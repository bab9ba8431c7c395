import type { Action, Fault, Job, Note, Workflow } from './workflow.ts'

type Actions = ReadonlyMap<string, Action>
type Workflows = ReadonlyMap<string, Workflow>

/** Why no runner can run a job with its actions; such a job is skipped. Empty when one can. */
export function unsupportedOf(job: Job, actions: Actions): Fault[] {
  if (job.unsupported.length > 0) return job.unsupported
  const used = new Set<string>()
  const open: Pick<Job, 'steps'>[] = [job]
  for (let user = open.pop(); user; user = open.pop()) {
    for (const step of user.steps) {
      const action = step.kind === 'action' ? actions.get(step.path) : undefined
      if (!action || used.has(action.path)) continue
      if (action.unsupported.length > 0) return action.unsupported
      used.add(action.path)
      open.push(action)
    }
  }
  return []
}

/** Notes jobs that are skipped; a file that has no other jobs is refused. */
export function checkRunnable(
  roots: readonly Workflow[],
  workflows: Workflows,
  actions: Actions,
): {
  faults: Fault[]
  notes: Note[]
  /** The ids of the jobs of a workflow that are skipped: no runner can run them, or one that they need. */
  skippedIn: (workflow: Workflow) => string[]
} {
  const skips = createSkips(workflows, actions)
  const faults: Fault[] = []
  const notes: Note[] = []
  const refused = new Set<Workflow>()
  for (const root of roots) if (skips(root).size === root.jobs.length) refuse(root)
  for (const workflow of workflows.values()) {
    if (refused.has(workflow)) continue
    for (const fault of workflow.jobs.flatMap((job) => unsupportedOf(job, actions))) {
      const { instead: _, message, ...position } = fault
      const what = fault.file === workflow.path ? 'The job' : 'A job with this action'
      notes.push({ ...position, message: `${message} ${what} is skipped, and those that need it.` })
    }
  }
  return { faults, notes, skippedIn: (workflow) => [...skips(workflow)].map(({ id }) => id) }

  /** Reports why no job of a workflow can run, nor of the workflows that it calls. */
  function refuse(workflow: Workflow): void {
    if (refused.has(workflow)) return
    refused.add(workflow)
    for (const job of workflow.jobs) {
      faults.push(...unsupportedOf(job, actions))
      const called = job.call && workflows.get(job.call.path)
      if (called && skips(called).size === called.jobs.length) refuse(called)
    }
  }
}

function createSkips(workflows: Workflows, actions: Actions) {
  const known = new Map<Workflow, Set<Job>>()

  function skipsOf(workflow: Workflow): Set<Job> {
    const found = known.get(workflow)
    if (found) return found
    // A workflow that calls itself is a fault of its own.
    known.set(workflow, new Set())
    const byId = new Map(workflow.jobs.map((job) => [job.id, job]))
    const seen = new Map<Job, boolean>()
    const isSkipped = (job: Job): boolean => {
      const before = seen.get(job)
      if (before !== undefined) return before
      const called = job.call && workflows.get(job.call.path)
      const skips =
        unsupportedOf(job, actions).length > 0 ||
        (called && skipsOf(called).size === called.jobs.length) ||
        job.needs.some((id) => {
          const needed = byId.get(id)
          return needed && isSkipped(needed)
        })
      seen.set(job, skips)
      return skips
    }
    const skipped = new Set(workflow.jobs.filter(isSkipped))
    known.set(workflow, skipped)
    return skipped
  }

  return skipsOf
}
