import { apiPathOf } from '#base/repository-name.ts'
import { splitMessage } from '../history/commit-parts.ts'
import { icon } from '../icons.ts'
import { eventPosition } from '../live/read-event-stream.ts'
import { type PageContext, page, type View } from '../page.ts'
import { choiceOf } from '../page-query.ts'
import { type Html, html } from '../render/html.ts'
import { describeState, type RunInList, stateMark } from '../run-states.ts'
import { causeOf, durationOf, sourceOf } from './run-facts.ts'

const pageSize = 30
const maxTicks = 30
/** How runs are filtered: by their status until they have ended, then by how. */
const states = {
  queued: { status: 'queued' },
  running: { status: 'running' },
  success: { conclusion: 'success' },
  failure: { conclusion: 'failure' },
  cancelled: { conclusion: 'cancelled' },
  timed_out: { conclusion: 'timed_out' },
} as const
// The names of the object above.
const stateNames = Object.keys(states) as (keyof typeof states)[]

export const runListPages = [
  page('/r/:name/runs', ['listRuns', 'getRepository', 'getCommit', 'listEvents'], {
    weight: 'git',
    audience: 'members',
    styles: 'runs',
    show: showRuns,
  }),
]

async function showRuns(context: PageContext): Promise<View> {
  const { params, query, to, readPage } = context
  const name = params.name ?? ''
  const branch = query.get('branch') || undefined
  const workflow = query.get('workflow') || undefined
  const state = choiceOf(query, 'status', stateNames)
  const cursor = query.get('cursor') || undefined
  const filters = { limit: pageSize, branch, name: workflow, cursor, ...(state && states[state]) }
  const after = await eventPosition(context)
  const { value: runs, next } = await readPage('listRuns', { query: filters })
  const subjects = await subjectsOf(context, runs)
  const isFiltered = [branch, workflow, state].some((one) => one !== undefined)
  return {
    title: `Runs · ${name} · svc`,
    repository: name,
    tab: 'runs',
    crumbs: [{ text: 'runs' }],
    json: `${apiPathOf(name)}/workflows`,
    live:
      cursor === undefined
        ? to.eventStream({ repository: name, kind: 'workflow,push', after })
        : '',
    body: html`<div class="page-head"><h1>Runs</h1>
<span id="ticks" class="grow" data-part>${cursor === undefined && !isFiltered && runs.length > 0 && runTicks(runs.slice(0, maxTicks))}</span>
${(await context.may('createRun')) && html`<a class="button" href="${to.of(name, 'start-run')}">${icon('plus')}Start a run</a>`}</div>
<form class="inline filters" method="get">
<label for="branch">Branch</label><input id="branch" name="branch" value="${branch}" size="16" spellcheck="false">
<label for="workflow">Workflow</label><input id="workflow" name="workflow" value="${workflow}" size="16" list="workflows" spellcheck="false"><datalist id="workflows">${[...new Set(runs.map((run) => run.name))].map((one) => html`<option value="${one}"></option>`)}</datalist>
<label for="status">Result</label><select id="status" name="status"><option value="">any</option>${stateNames.map(
      (value) =>
        html`<option value="${value}"${value === state && html` selected`}>${value.replace('_', ' ')}</option>`,
    )}</select>
<button>Filter</button>${isFiltered && html`<a class="button quiet" href="${to.of(name, 'runs')}">Clear</a>`}
</form>
<div id="runs" data-part>${
      runs.length === 0
        ? html`<div class="card empty"><h2>No${isFiltered && ' matching'} runs</h2><p class="soft">A push runs the workflows of ${html`<code>.svc/workflows/</code>`} whose triggers match it.</p></div>`
        : html`<ul class="card runs">${runs.map((run) => runRow(run, { context, name, subject: subjects.get(run.commit) ?? '' }))}</ul>`
    }</div>
${next !== undefined && html`<nav class="pager" aria-label="Pages"><a class="button" rel="next" href="?${withCursor(query, next)}">Older runs</a></nav>`}`,
  }
}

function runRow(
  run: RunInList,
  { context: { to, time }, name, subject }: { context: PageContext; name: string; subject: string },
): Html {
  const isOfCommit = run.event === 'push' && subject !== ''
  return html`<li class="row run-row">${stateMark(run)}
<div class="grow"><p class="cut"><a class="title" href="${to.of(name, `runs/${run.number}`)}">${isOfCommit ? subject : run.name}</a></p>
<p class="run-facts soft"><span>${isOfCommit && html`${run.name} `}<span class="nowrap">#${run.number}</span></span> ${causeOf(run)} ${sourceOf(to, name, run)}</p></div>
<span class="end soft run-times">${durationOf(run, time.at)} <span>${time.age(run.createdAt)}</span></span></li>`
}

/** The subjects of the commits of runs; empty for those who may not read the code. */
async function subjectsOf({ tryRead }: PageContext, runs: RunInList[]) {
  const ids = [...new Set(runs.map(({ commit }) => commit))]
  const subjects = new Map<string, string>()
  for (const id of ids) {
    const commit = await tryRead('getCommit', { params: { id } })
    if (commit) subjects.set(id, splitMessage(commit.message).subject)
  }
  return subjects
}

function withCursor(query: URLSearchParams, cursor: string): string {
  const next = new URLSearchParams(query)
  next.set('cursor', cursor)
  return next.toString()
}

const step = 7
const height = 18

/** The last runs as ticks, the oldest first; those that ended otherwise than well are shorter and have a colour of their own. */
function runTicks(newestFirst: readonly RunInList[]): Html {
  const runs = newestFirst.toReversed()
  const words = runs.map((run) => `${run.number} ${describeState(run).word.toLowerCase()}`)
  return html`<svg class="run-ticks" width="${runs.length * step}" height="${height}" role="img" aria-label="Last runs, oldest first: ${words.join(', ')}">
${runs.map((run, index) => {
  const { tone, word } = describeState(run)
  const isShort = tone !== 'good' && tone !== 'bad'
  return html`<rect class="bar-${tone || 'none'}" x="${index * step}" y="${isShort ? 4 : 0}" width="4" height="${isShort ? height - 4 : height}" rx="1.5"><title>Run ${run.number}: ${word}</title></rect>`
})}</svg>`
}
