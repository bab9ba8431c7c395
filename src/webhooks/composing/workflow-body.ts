import type { About, Payload } from '#events/github-payloads/about.ts'
import { fitNewest } from '#events/github-payloads/fit-newest.ts'
import type { RunSummary, StepSummary } from '#events/github-payloads/reported-run.ts'
import { workflowRunPayload } from '#events/github-payloads/workflow-run-payload.ts'
import type { CommitSummary } from '#git/objects/commit-object.ts'
import { byteLength, sharedMaxBytes } from './body-size.ts'
import { type Mask, maskCommit } from './mask.ts'

type ReportedRun = {
  action: 'queued' | 'running' | 'completed'
  run: RunSummary
  head: CommitSummary | undefined
  /** When the run reached this state. */
  at: number
}

/** The body of a run without `svc`. Output that does not fit is dropped, then steps, the oldest first. */
export function workflowBody(
  { action, run, head, at }: ReportedRun,
  { about, mask }: { about: About; mask: Mask },
): Payload {
  const masked = maskRun(run, mask)
  const commit = head && maskCommit(head, mask)
  const payload = workflowRunPayload({ action, run: masked, head: commit, at }, about)
  const without = { ...payload, run: withSteps(masked, []) }
  const steps = (masked.result?.steps ?? masked.steps ?? []).map((step) => ({
    full: step,
    short: { ...step, output: '' },
  }))
  const { items, isComplete } = fitNewest(steps, sharedMaxBytes - byteLength(without))
  return { ...payload, run: withSteps(masked, items), truncated: !isComplete }
}

function withSteps(run: RunSummary, steps: StepSummary[]): RunSummary {
  return run.result ? { ...run, result: { ...run.result, steps } } : { ...run, steps }
}

// Output was masked when it was written, but a secret may be newer.
function maskRun(run: RunSummary, { mask }: Mask): RunSummary {
  const steps = (run.result?.steps ?? run.steps ?? []).map((step) => ({
    ...step,
    name: mask(step.name),
    workflow: mask(step.workflow),
    job: mask(step.job),
    output: mask(step.output),
    fault: step.fault === null ? null : mask(step.fault),
  }))
  const inputs = Object.entries(run.inputs).map(([name, value]) => [
    name,
    typeof value === 'string' ? mask(value) : value,
  ])
  return withSteps(
    {
      ...run,
      name: mask(run.name),
      fault: run.fault === null ? null : mask(run.fault),
      inputs: Object.fromEntries(inputs),
    },
    steps,
  )
}
