import type { Db, RunRow } from '../database/schema.ts'
import type { ReusedJob } from '../workflow-engine/plan.ts'
import { insertStep, listJobs, listSteps, updateJob } from './run-job-store.ts'

// Beyond all numbers that a runner gives.
const keptFrom = 50_000
const whole = { tailLength: 1_000_000, summaryLength: 1_000_000 }

/**
 * Gives a job that was not run again the steps and the times that it had in the attempt before. Of their output
 * the end comes along; all of it is in the log of the attempt that wrote it.
 */
export async function reuseSteps(
  tx: Db,
  run: Pick<RunRow, 'id' | 'attempt' | 'kept'>,
  job: number,
): Promise<void> {
  const kept: ReusedJob[] = JSON.parse(run.kept)
  if (kept.length === 0) return
  const of = { runId: run.id, attempt: run.attempt }
  const own = (await listJobs(tx, of)).find((one) => one.job === job)
  const isKept = (one: ReusedJob) =>
    one.file === own?.file && one.id === own.jobId && one.name === own.name
  if (!own || own.startedAt !== null || !kept.some(isKept)) return
  const before = { runId: run.id, attempt: run.attempt - 1 }
  const same = (await listJobs(tx, before)).find(
    (one) => one.file === own.file && one.jobId === own.jobId && one.name === own.name,
  )
  if (!same) return
  const { startedAt, completedAt } = same
  await updateJob(tx, { ...of, job }, { startedAt, completedAt })
  for (const step of await listSteps(tx, [before], whole)) {
    if (step.job !== same.job) continue
    const number = step.step < keptFrom ? keptFrom + step.step : step.step
    await insertStep(tx, { ...step, attempt: run.attempt, job, step: number })
  }
}
