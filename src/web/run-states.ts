import { type IconName, icon } from './icons.ts'
import type { Links } from './links.ts'
import type { OperationValues } from './read-operations.ts'
import { type Html, html } from './render/html.ts'

export type ShownRun = OperationValues['getRun']
export type RunInList = OperationValues['listRuns'][number]
export type ShownStep = NonNullable<ShownRun['steps']>[number]

type State = Pick<ShownRun, 'status' | 'conclusion'> & { needsApproval?: boolean }

type DescribedState = {
  shape: IconName
  tone: '' | 'good' | 'bad' | 'busy'
  word: string
  /** The rest of a sentence that begins with `Run 12`. */
  predicate: string
}

const queued = { shape: 'waiting', tone: '', word: 'Queued', predicate: 'is queued' } as const
const unapproved = {
  ...queued,
  word: 'Needs approval',
  predicate: 'waits for an approval',
} as const
const running = {
  shape: 'running',
  tone: 'busy',
  word: 'Running',
  predicate: 'is running',
} as const
const completed: Record<NonNullable<State['conclusion']>, DescribedState> = {
  success: { shape: 'check', tone: 'good', word: 'Succeeded', predicate: 'succeeded' },
  failure: { shape: 'cross', tone: 'bad', word: 'Failed', predicate: 'failed' },
  timed_out: { shape: 'cross', tone: 'bad', word: 'Timed out', predicate: 'timed out' },
  cancelled: { shape: 'stop', tone: '', word: 'Cancelled', predicate: 'was cancelled' },
  skipped: { shape: 'dash', tone: '', word: 'Skipped', predicate: 'was skipped' },
}

/** A state as a shape, a tone and words. */
export function describeState({ status, conclusion, needsApproval }: State): DescribedState {
  if (status === 'queued') return needsApproval ? unapproved : queued
  return status === 'running' ? running : completed[conclusion ?? 'skipped']
}

/** Why a run of a user waits for an approval. */
export function waitingSentence(actor: string): string {
  return `${actor} may not push to this repository, and has not landed a change here yet. So the run waits until a user who may push has read the commit and approves it. It has no secrets.`
}

/** The state of a run among other things, with a link to it. */
export function runMark(to: Links, name: string, run: RunInList | undefined): Html | false {
  if (run === undefined) return false
  const { shape, predicate } = describeState(run)
  const words = `Run ${run.number} ${predicate}`
  return html`<a class="run-mark ${toneBeside(run)}" href="${to.of(name, `runs/${run.number}`)}" title="${words}">${icon(shape)}<span class="hidden">${words}</span></a>`
}

/** The tone of a run among other things, where one that is queued is as busy as one that is running. */
export function toneBeside(run: State): 'good' | 'bad' | 'busy' | 'soft' {
  return run.status === 'queued' ? 'busy' : describeState(run).tone || 'soft'
}

/** The shape of a state, with its word for those who do not see it. */
export function stateMark(state: State): Html {
  const { shape, tone, word } = describeState(state)
  return html`<span class="mark ${tone || 'soft'}" title="${word}">${icon(shape, shape === 'running' ? 'turning' : '')}<span class="hidden">${word}</span></span>`
}

/** A state as a badge, with its word. */
export function stateBadge(state: State): Html {
  const { shape, tone, word } = describeState(state)
  return html`<span class="badge ${tone}">${icon(shape, shape === 'running' ? 'turning' : '')}${word}</span>`
}
