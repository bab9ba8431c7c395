import { type Html, html } from '../../render/html.ts'
import { icon } from '../icons.ts'
import type { PageContext } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { age } from '../time.ts'

type CommitOfRow = OperationValues['listCommits'][number]
type RunOfRow = OperationValues['listRuns'][number]

/** The newest commit of a folder or file, with the state of its run. */
export function commitRow(
  { to, now }: PageContext,
  name: string,
  commit: CommitOfRow,
  run?: RunOfRow,
): Html {
  const { id, author, message } = commit
  const [summary = ''] = message.trimStart().split('\n', 1)
  return html`<header class="last"><b>${author.name}</b><a class="cut grow" href="${to.commit(name, id)}">${summary}</a>
${run && run.commit === id && runMark(run, to.of(name, `runs/${run.number}`))}<code class="soft wide-only">${id.slice(0, 7)}</code><span class="soft">${age(author.at, now)}</span></header>`
}

function runMark(run: RunOfRow, href: string): Html {
  const { icon: shape, tone, words } = runState(run)
  return html`<a class="${tone}" href="${href}" title="Run ${run.number} ${words}">${icon(shape)}<span class="hidden">Run ${run.number} ${words}</span></a>`
}

type RunState = {
  icon: 'check' | 'cross' | 'running' | 'waiting' | 'dash'
  tone: 'good' | 'bad' | 'busy' | 'soft'
  words: string
}

/** How a run stands: in words, and by a shape and a tone. */
export function runState(run: Pick<RunOfRow, 'status' | 'conclusion'>): RunState {
  if (run.status === 'queued') return { icon: 'waiting', tone: 'busy', words: 'is queued' }
  if (run.status === 'running') return { icon: 'running', tone: 'busy', words: 'is running' }
  switch (run.conclusion) {
    case 'success':
      return { icon: 'check', tone: 'good', words: 'succeeded' }
    case 'failure':
      return { icon: 'cross', tone: 'bad', words: 'failed' }
    case 'timed_out':
      return { icon: 'cross', tone: 'bad', words: 'timed out' }
    case 'skipped':
      return { icon: 'dash', tone: 'soft', words: 'was skipped' }
    default:
      return { icon: 'dash', tone: 'soft', words: 'was cancelled' }
  }
}
