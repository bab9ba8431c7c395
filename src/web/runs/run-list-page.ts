import { Problem } from '../../base/problem.ts'
import { type Html, html } from '../../render/html.ts'
import { splitMessage } from '../history/commit-parts.ts'
import { icon } from '../icons.ts'
import { eventPosition } from '../live/event-position.ts'
import { action, type PageContext, page, type View } from '../page.ts'
import { problemNotice } from '../problem-page.ts'
import { causeOf, durationOf, sourceOf } from './run-facts.ts'
import { type RunInList, stateMark } from './run-states.ts'
import { runTicks } from './run-ticks.ts'

const pageSize = 30
const maxTicks = 30
const statuses = ['queued', 'running', 'completed']

export const runListPages = [
  page('/r/:name/runs', ['listRuns', 'getRepository', 'getTree', 'getCommit', 'listEvents'], {
    weight: 'git',
    audience: 'members',
    styles: 'runs',
    show: showRuns,
  }),
  action('/r/:name/runs', 'createRun', {
    formPage: '/r/:name/runs',
    input: ({ fields }) => ({ body: toNewRun(fields) }),
    redirectTo: ({ to, params }, value) => to.of(params.name ?? '', `runs/${numberOf(value)}`),
  }),
]

async function showRuns(context: PageContext): Promise<View> {
  const { params, query, to, readPage } = context
  const name = params.name ?? ''
  const branch = query.get('branch') || undefined
  const status = statuses.find((one) => one === query.get('status'))
  const cursor = query.get('cursor') || undefined
  const filters = { limit: pageSize, branch, status, cursor }
  const after = await eventPosition(context)
  const { value: runs, next } = await readPage('listRuns', { query: filters })
  const subjects = await subjectsOf(context, runs)
  const isFiltered = branch !== undefined || status !== undefined
  return {
    title: `Runs · ${name} · svc`,
    repository: name,
    tab: 'runs',
    crumbs: [{ text: 'runs' }],
    json: `/repos/${encodeURIComponent(name)}/workflows`,
    live:
      cursor === undefined
        ? to.eventStream({ repository: name, kind: 'workflow,push', after })
        : '',
    body: html`<div class="page-head"><h1>Runs</h1>
<span id="ticks" class="grow" data-part>${cursor === undefined && !isFiltered && runs.length > 0 && runTicks(runs.slice(0, maxTicks))}</span>
${await startForm(context)}</div>
<form class="inline filters" method="get">
<label for="branch">Branch</label><input id="branch" name="branch" value="${branch}" size="16" spellcheck="false">
<label for="status">State</label><select id="status" name="status"><option value="">any</option>${statuses.map(
      (one) => html`<option${one === status && html` selected`}>${one}</option>`,
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

async function startForm(context: PageContext): Promise<Html | false> {
  const { may, params, tryRead, problem, fields } = context
  if (!(await may('createRun'))) return false
  const repository = await tryRead('getRepository')
  if (!repository || repository.empty) return problemNotice(context) ?? false
  const branch = fields.get('branch') ?? repository.defaultBranch
  const folder = await tryRead('getTree', {
    query: { rev: repository.defaultBranch, path: '.svc/workflows' },
  })
  const files = (folder?.entries ?? []).filter(({ name }) => /\.ya?ml$/.test(name))
  return html`<details class="creation"${problem && html` open`}><summary class="button">${icon('plus')}Start a run</summary>
<form method="post" action="${context.to.of(params.name ?? '', 'runs')}" class="card pad stack">
${problemNotice(context)}
<label for="new-branch">Branch, or a tag as <code>refs/tags/…</code></label>
<input id="new-branch" name="branch" value="${branch}" required spellcheck="false" maxlength="500">
<label for="file">Workflow file</label>
<input id="file" name="file" value="${fields.get('file')}" list="workflow-files" placeholder="all" spellcheck="false" maxlength="500">
<datalist id="workflow-files">${files.map(({ name }) => html`<option value="${name}">`)}</datalist>
<label for="inputs">Inputs, each on a line as <code>name=value</code></label>
<textarea id="inputs" name="inputs" class="mono" rows="3" spellcheck="false">${fields.get('inputs')}</textarea>
<button class="primary">Start</button>
</form></details>`
}

/** Converts the fields of the form to the body of the operation. Throws `invalid_request`. */
function toNewRun(fields: URLSearchParams) {
  const [branch, file] = [fields.get('branch') ?? '', fields.get('file')?.trim() ?? '']
  const lines = (fields.get('inputs') ?? '').split(/\r?\n/).filter((line) => line.trim() !== '')
  const inputs = lines.map((line) => {
    const at = line.indexOf('=')
    if (at > 0) return [line.slice(0, at).trim(), line.slice(at + 1)]
    throw new Problem('invalid_request', `The input "${line}" must have the form name=value.`)
  })
  return {
    ...(branch !== '' && { branch }),
    ...(file !== '' && { files: [file] }),
    ...(inputs.length > 0 && { inputs: Object.fromEntries(inputs) }),
  }
}

function withCursor(query: URLSearchParams, cursor: string): string {
  const next = new URLSearchParams(query)
  next.set('cursor', cursor)
  return next.toString()
}

function numberOf(value: unknown): number {
  // The server's own response, whose schema is that of the operation.
  return (value as { number: number }).number
}
