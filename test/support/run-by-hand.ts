import type { Conclusion, Plan, RunEntry } from '#actions/workflow-engine/plan.ts'
import { type Client, createClient } from './service.ts'

export type HeldRun = Exclude<Awaited<ReturnType<typeof claim>>, undefined>

/** Claims a run as a runner does, so that a test can report entries; undefined when there is none in time. */
export async function claim(
  client: Client,
  { name = 'hand', labels = [] as string[], waitSeconds = 10 } = {},
) {
  const wanted = { name, version: '1', labels, isolation: 'none', waitSeconds }
  const answer = await client.post('/runner/claim', wanted)
  if (answer.status === 204) return undefined
  if (answer.status !== 200) throw new Error(answer.text)
  const plan: Plan = answer.body.plan
  const own = createClient(client.url, answer.body.claimToken)
  const path = `/runner/runs/${plan.runId}`
  let next = 0

  return {
    plan,
    path,
    /** A client with the token of the run. */
    own,

    /** Reports what comes next; the answer. */
    async report(...entries: RunEntry[]) {
      const { status, body, text } = await own.post(`${path}/report`, { first: next, entries })
      if (status !== 200) throw new Error(text)
      next = body.next
      return body
    },
  }
}

/** Claims a run that must be there, and is heard at once: it has four times as long until it counts as lost. */
export async function mustClaim(...wanted: Parameters<typeof claim>): Promise<HeldRun> {
  const run = await claim(...wanted)
  if (!run) throw new Error('no run waits')
  await run.report()
  return run
}

const file = '.svc/workflows/ci.yml'

/** The beginning of a job of one step. */
export function begun({ job = 0, id = 'steps', name = 'Only' } = {}): RunEntry[] {
  return [
    { kind: 'job-planned', job, file, workflow: 'ci', id, name: id, matrix: '' },
    { kind: 'step-planned', job, step: job, name },
    { kind: 'job-started', job, at: 1000 },
    { kind: 'step-started', step: job, at: 2000 },
  ]
}

/** What its step writes. */
export function wrote(text: string, step: number | null = 0): RunEntry {
  return { kind: 'output', step, text }
}

/** The end of such a job. */
export function jobEnded(
  conclusion: Conclusion = 'success',
  {
    job = 0,
    outputs = {} as Record<string, string>,
    exitCode = conclusion === 'success' ? 0 : 1,
    summary = '',
  } = {},
): RunEntry[] {
  return [
    { kind: 'step-ended', step: job, at: 5000, conclusion, exitCode, fault: '', summary },
    { kind: 'job-ended', job, at: 5000, conclusion, outputs, fault: '' },
  ]
}

/** The end of a run. */
export function runEnded(
  conclusion: Exclude<Conclusion, 'skipped'> = 'success',
  fault = '',
): RunEntry {
  return { kind: 'run-ended', at: 6000, conclusion, fault }
}

/** A whole run of one job of one step. */
export function wholeRun(conclusion: 'success' | 'failure' = 'success', text = ''): RunEntry[] {
  const output = text === '' ? [] : [wrote(text)]
  return [...begun(), ...output, ...jobEnded(conclusion), runEnded(conclusion)]
}
