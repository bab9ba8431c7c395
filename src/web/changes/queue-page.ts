import { apiPathOf } from '#base/repository-name.ts'
import { counted } from '../display-text.ts'
import { commitLink } from '../history/commit-parts.ts'
import { icon } from '../icons.ts'
import type { PageContext, View } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { runMark } from '../run-states.ts'
import { plainText } from './change-parts.ts'

type Queue = OperationValues['listQueue'][number]
type Runs = ReadonlyMap<string, OperationValues['listRuns'][number]>

const maxRuns = 100

/** The page that shows what each branch tries at present, and what waits to land on it. */
export async function showQueue(context: PageContext): Promise<View> {
  const { params, read, tryRead, to } = context
  const name = params.name ?? ''
  const queues = await read('listQueue')
  const hasRuns = queues.some(({ trials }) => trials.some(({ runs }) => runs.length > 0))
  const listed = hasRuns && (await tryRead('listRuns', { query: { limit: maxRuns } }))
  const runs: Runs = new Map((listed || []).map((run) => [run.id, run]))
  return {
    title: `Queue · ${name}`,
    repository: name,
    tab: 'changes',
    crumbs: [{ text: 'changes', href: to.of(name, 'changes') }, { text: 'queue' }],
    json: `${apiPathOf(name)}/queue`,
    body: html`<div class="page-head"><h1>Queue</h1></div>
${
  queues.length === 0
    ? html`<section class="card empty">${icon('commit', 'large')}<h2>The queue is empty</h2><p class="soft">Changes for a branch whose rule has a queue are tried together here before they land.</p></section>`
    : queues.map((queue) => branchSection(context, queue, runs))
}`,
  }
}

function branchSection(context: PageContext, { target, changes, trials }: Queue, runs: Runs): Html {
  return html`<section class="queue"><h2>${target} <span class="count">${changes.length}</span></h2>
${
  trials.length > 0 &&
  html`<h3>Tried now</h3><ul class="card">${trials.map((trial) => trialRow(context, trial, runs))}</ul>`
}
${changes.length > 0 && html`<h3>In order</h3><ol class="card">${changes.map((change) => queuedRow(context, change))}</ol>`}</section>`
}

function trialRow(
  { to, params }: PageContext,
  { commit, changes, lands, runs: ids }: Queue['trials'][number],
  runs: Runs,
): Html {
  const name = params.name ?? ''
  const own = ids.map((id) => runs.get(id)).filter((run) => run !== undefined)
  return html`<li class="row change-row"><span class="mark busy">${icon('running', 'turning')}</span><div class="grow"><p>${
    lands ? 'To land' : 'To find out which one fails'
  }: ${changes.map(
    (number, index) =>
      html`${index > 0 && ', '}<a class="linked" href="${to.of(name, `changes/${number}`)}">#${number}</a>`,
  )}</p>
<p class="soft">${commitLink(to, name, commit)}${own.map(
    (run) =>
      html` · ${runMark(to, name, run)} <a href="${to.of(name, `runs/${run.number}`)}">${run.name} #${run.number}</a>`,
  )}${ids.length > own.length && ` · ${counted(ids.length - own.length, 'other run')}`}</p></div></li>`
}

function queuedRow(
  { to, params, time }: PageContext,
  {
    number,
    title,
    position,
    state,
    urgent,
    username,
    queuedAt,
    version,
    failure,
  }: Queue['changes'][number],
): Html {
  return html`<li class="row change-row"><span class="mark soft">${position}</span><div class="grow"><h4><a href="${to.of(params.name ?? '', `changes/${number}`)}">${title}</a></h4>
<p class="soft">#${number}, version ${version} · queued by ${username} · ${time.age(queuedAt)}${urgent && ' · urgent'}${state === 'trying' && ' · tried now'}</p>${failure && plainText(failure)}</div></li>`
}
