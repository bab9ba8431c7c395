import { type Html, html } from '../../render/html.ts'
import { type IconName, icon } from '../icons.ts'
import type { OperationValues } from '../read-operations.ts'

export type ShownRun = OperationValues['getRun']
export type RunInList = OperationValues['listRuns'][number]
export type ShownStep = NonNullable<ShownRun['steps']>[number]

type State = Pick<ShownRun, 'status' | 'conclusion'>

/** A state as a shape, a tone and a word. */
export function describeState({ status, conclusion }: State): {
  shape: IconName
  tone: '' | 'good' | 'bad' | 'busy'
  word: string
} {
  if (status === 'queued') return { shape: 'waiting', tone: '', word: 'Queued' }
  if (status === 'running') return { shape: 'running', tone: 'busy', word: 'Running' }
  switch (conclusion) {
    case 'success':
      return { shape: 'check', tone: 'good', word: 'Succeeded' }
    case 'failure':
      return { shape: 'cross', tone: 'bad', word: 'Failed' }
    case 'timed_out':
      return { shape: 'cross', tone: 'bad', word: 'Timed out' }
    case 'cancelled':
      return { shape: 'stop', tone: '', word: 'Cancelled' }
    default:
      return { shape: 'dash', tone: '', word: 'Skipped' }
  }
}

/** The shape of a state, with its word for those who do not see it. */
export function stateMark(state: State): Html {
  const { shape, tone, word } = describeState(state)
  return html`<span class="mark ${tone || 'soft'}" title="${word}">${icon(shape, shape === 'running' ? 'turning' : '')}<span class="hidden">${word}</span></span>`
}

export function stateBadge(state: State): Html {
  const { shape, tone, word } = describeState(state)
  return html`<span class="badge ${tone}">${icon(shape, shape === 'running' ? 'turning' : '')}${word}</span>`
}
