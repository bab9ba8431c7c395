import type { ReusedJob } from '#actions/workflow-engine/plan.ts'
import type { Db, RunRow } from '#database/schema.ts'
import { insertAnnotation, listAnnotations } from './run-annotation-store.ts'
import { insertStep, listJobs, listNamedSteps, listSteps, updateJob } from './run-job-store.ts'

// Above all step numbers that a runner assigns.
const firstReusedNumber = 50_000
const whole = { tailLength: 1_000_000, summaryLength: 1_000_000 }

/**
 * Copies the steps and times of a job that is not run again from the previous attempt. Only the end of each output is
 * copied; the log of the previous attempt has all of it.
 */
export async function reuseSteps(
  tx: Db,
  run: Pick<RunRow, 'id' | 'attempt' | 'kept'>,
  job: number,
): Promise<void> {
  const reused: ReusedJob[] = JSON.parse(run.kept)
  if (reused.length === 0) return
  const of = { runId: run.id, attempt: run.attempt }
  const current = (await listJobs(tx, of)).find((one) => one.job === job)
  const isReused = (one: ReusedJob) =>
    one.file === current?.file && one.id === current.jobId && one.name === current.name
  if (!current || current.startedAt !== null || !reused.some(isReused)) return
  const before = { runId: run.id, attempt: run.attempt - 1 }
  const same = (await listJobs(tx, before)).find(
    (one) => one.file === current.file && one.jobId === current.jobId && one.name === current.name,
  )
  if (!same) return
  const { startedAt, completedAt } = same
  await updateJob(tx, { ...of, job }, { startedAt, completedAt })
  const annotations = await listAnnotations(tx, before)
  // Other reused jobs may have steps of several earlier attempts, so numbers are given anew.
  const taken = (await listNamedSteps(tx, of)).map(({ step }) => step)
  let number = Math.max(firstReusedNumber - 1, ...taken)
  for (const step of await listSteps(tx, [before], whole)) {
    if (step.job !== same.job) continue
    number += 1
    await insertStep(tx, { ...step, attempt: run.attempt, job, step: number })
    for (const [index, one] of annotations.entries()) {
      if (one.step !== step.step) continue
      // Negative, because a reported one has the number of its entry.
      const place = { attempt: run.attempt, number: index - annotations.length, step: number }
      await insertAnnotation(tx, { ...one, ...place })
    }
  }
}
