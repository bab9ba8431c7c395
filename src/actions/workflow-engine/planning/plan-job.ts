import type { Json } from '#base/json.ts'
import { maskAndShorten } from '../../secret-masking/mask-and-shorten.ts'
import {
  evaluateText,
  evaluateTree,
  evaluateValue,
} from '../../workflow-parser/expressions/evaluate.ts'
import type { Scope } from '../../workflow-parser/expressions/scope.ts'
import { type Combination, expandMatrix, MatrixError } from '../../workflow-parser/matrix.ts'
import type { Job, Matrix } from '../../workflow-parser/workflow.ts'
import { type Contexts, scopeOf } from '../contexts.ts'
import type { ReusedJob } from '../plan.ts'
import type { RunState } from '../run-state.ts'
import { evaluateBoolean, evaluateNumber } from './evaluate-settings.ts'
import { type PlannedStep, planSteps } from './plan-steps.ts'
import { jobIdIn, jobNameIn, type RunningWorkflow } from './running-workflow.ts'

/** A job as it is reported: one for each combination of a matrix. */
export type PlannedJob = {
  number: number
  name: string
  /** The contexts that are known before the job has a workspace. */
  contexts: Contexts
  steps: PlannedStep[]
  /** The job of the previous attempt that is reused instead of running this one. */
  kept: ReusedJob | undefined
}

export type PlannedJobs = { jobs: PlannedJob[]; failFast: boolean; maxParallel: number }

const matrixMaxLength = 60_000
const labelMaxLength = 100

/** Whether a job can be planned only after the jobs that it needs. */
export function isPlannedLater({ name, strategy }: Job): boolean {
  return /\bneeds\b/i.test(JSON.stringify([name, strategy]))
}

/** The jobs of a definition before they are reported. */
export type ExpandedJobs = { drafts: Draft[]; failFast: boolean; maxParallel: number }

type Draft = { contexts: Contexts; name: string; matrix: string }

/** Evaluates the matrix and the names of a definition. Throws when an expression fails or the matrix cannot be expanded. */
export function expandJob(run: RunState, job: Job, contexts: Contexts): ExpandedJobs {
  const scope = scopeOf(contexts)
  const combinations = combinationsOf(job.strategy.matrix, scope)
  const total = combinations?.length ?? 1
  const failFast = evaluateBoolean(job.strategy.failFast, scope)
  const limit = evaluateNumber(job.strategy.maxParallel, scope) ?? total
  const maxParallel = Math.max(1, Math.floor(limit))
  const drafts = (combinations ?? [undefined]).map((combination, index) => {
    const own = {
      ...contexts,
      matrix: combination?.values ?? null,
      strategy: {
        'fail-fast': failFast,
        'job-index': index,
        'job-total': total,
        'max-parallel': maxParallel,
      },
    }
    const name = nameOf(run, job, combination, scopeOf(own))
    return { contexts: own, name, matrix: textOf(combination) }
  })
  return { drafts, failFast, maxParallel }
}

/** Plans and reports the jobs of a definition. Throws, without reporting any, when the run would exceed its limits, too. */
export function planJobs(
  run: RunState,
  owner: RunningWorkflow,
  job: Job,
  contexts: Contexts,
): PlannedJobs {
  const { drafts, failFast, maxParallel } = expandJob(run, job, contexts)
  let steps = 0
  planSteps(job.steps, {
    actions: run.actions,
    scope: scopeOf(contexts),
    masker: run.masker,
    announce: () => steps++,
  })
  run.assertWithinLimits(drafts.length, drafts.length * steps)
  const jobs = drafts.map((draft) => announceJob({ run, owner, job, draft }))
  return { jobs, failFast, maxParallel }
}

/** Reports a job that is not expanded, by its literal name or its id. */
export function planUnexpanded(run: RunState, owner: RunningWorkflow, job: Job): PlannedJob {
  const name = job.name && !job.name.text.includes('${{') ? job.name.text : job.id
  const draft = { name, matrix: '', contexts: {} }
  return { ...emitPlanned({ run, owner, job, draft }), contexts: {}, steps: [], kept: undefined }
}

type Announced = { run: RunState; owner: RunningWorkflow; job: Job; draft: Draft }

function emitPlanned({ run, owner, job, draft }: Announced): { number: number; name: string } {
  const number = run.nextJob()
  const name = jobNameIn(owner, draft.name)
  const { path: file, name: workflow } = owner.file
  const about = { file, workflow, id: jobIdIn(owner, job.id), name, matrix: draft.matrix }
  void run.emit({ kind: 'job-planned', job: number, ...about })
  return { number, name }
}

function announceJob(announced: Announced): PlannedJob {
  const { run, owner, job } = announced
  const { contexts, matrix } = announced.draft
  const { number, name } = emitPlanned(announced)
  const kept = keptJob(run, owner, { id: job.id, name, matrix })
  if (kept) return { number, name, contexts, steps: [], kept }
  const steps = planSteps(job.steps, {
    actions: run.actions,
    scope: scopeOf(contexts),
    masker: run.masker,
    announce(stepName) {
      const step = run.nextStep()
      void run.emit({ kind: 'step-planned', job: number, step, name: stepName })
      return step
    },
  })
  return { number, name, contexts, steps, kept }
}

/** The job of the previous attempt that is reused; it was masked when it was reported. */
function keptJob(
  { plan, masker: { mask } }: RunState,
  owner: RunningWorkflow,
  { id, name, matrix }: { id: string; name: string; matrix: string },
): ReusedJob | undefined {
  if (plan.kept.length === 0) return undefined
  const known = { file: owner.file.path, id: jobIdIn(owner, id), matrix: mask(matrix) }
  const same = plan.kept.filter(
    (one) => one.file === known.file && one.id === known.id && one.matrix === known.matrix,
  )
  if (owner.callers.length === 0) return same[0]
  // Jobs of a workflow that a matrix calls differ in their names alone, if at all.
  const maskedName = mask(name)
  const named = same.filter((one) => one.name === maskedName)
  return named.length === 1 ? named[0] : undefined
}

// In the format of toJSON().
function textOf(combination: Combination | undefined): string {
  const text = combination ? JSON.stringify(combination.values, null, 2) : ''
  if (text.length <= matrixMaxLength) return text
  const message = `The values of a job of the matrix exceed ${matrixMaxLength} characters.`
  throw new MatrixError(message)
}

/** The combinations of a matrix; undefined without one. */
export function combinationsOf(
  matrix: Matrix | undefined,
  scope: Scope,
): Combination[] | undefined {
  if (matrix === undefined) return undefined
  if ('text' in matrix) {
    const value = evaluateValue(matrix, scope)
    return value === null ? undefined : expandMatrix(value)
  }
  const entries = Object.entries(matrix.vectors)
  const values: Record<string, Json> = Object.fromEntries(
    entries.map(([key, tree]) => [key, evaluateTree(tree, scope)]),
  )
  if (matrix.include !== undefined) values.include = evaluateTree(matrix.include, scope)
  if (matrix.exclude !== undefined) values.exclude = evaluateTree(matrix.exclude, scope)
  return expandMatrix(values)
}

// A name with expressions is assumed to distinguish the jobs of a matrix.
function nameOf(
  { masker: { mask } }: RunState,
  { id, name }: Job,
  combination: Combination | undefined,
  scope: Scope,
): string {
  const own = name ? evaluateText(name, scope) : id
  const isComplete = !combination || combination.label === '' || name?.text.includes('${{')
  if (isComplete) return own
  return `${own} (${maskAndShorten(combination.label, { mask, maxLength: labelMaxLength })})`
}
