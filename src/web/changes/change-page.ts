import { apiPathOf } from '#base/repository-name.ts'
import { breakable, counted, grouped } from '../display-text.ts'
import { doneNotice } from '../done.ts'
import { commitLink, idsOf, recentRuns } from '../history/commit-parts.ts'
import { commitRow } from '../history/commit-row.ts'
import { fileQuery } from '../history/diff-context.ts'
import { refsById } from '../history/refs-by-id.ts'
import { readStatuses, statusList } from '../history/status-view.ts'
import { copyButton, icon } from '../icons.ts'
import type { PageContext, View } from '../page.ts'
import { formButton } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { waitingSentence } from '../run-states.ts'
import { conversation } from './change-conversation.ts'
import { changeForms } from './change-forms.ts'
import {
  changeBadge,
  changeLink,
  plainText,
  proposalOf,
  renderText,
  type ShownChange,
} from './change-parts.ts'

const maxCommits = 100
const maxFiles = 100
/** Of the versions, those that are listed without unfolding. */
const maxVersions = 8

/** The page of a change: what it proposes, its versions, and what is done with it. */
export async function showChange(context: PageContext): Promise<View> {
  const { params, read, to, time, caller } = context
  const name = params.name ?? ''
  const change = await read('getChange')
  const { role } = await read('getRepository')
  const isEditor = change.username === caller.username || role !== 'read'
  const [said, description, commits] = await Promise.all([
    conversation(context, { change, isEditor }),
    renderDescription(context, change),
    commitsOf(context, change),
  ])
  const waiting = await waitingRuns(context, change)
  const forms = await changeForms(context, { change, isEditor, others: said.forms })
  const { number, title, updatedAt } = change
  return {
    title: `${title} · ${name}`,
    repository: name,
    tab: 'changes',
    crumbs: [{ text: 'changes', href: to.of(name, 'changes') }, { text: String(number) }],
    json: `${apiPathOf(name)}/changes/${number}`,
    body: html`<header class="change-head"><div class="page-head"><h1>${title}</h1>
<div class="actions"><a class="button" href="${changeLink(context, { path: '/files' })}">${icon('file')}Changed files</a></div></div>
<p class="soft">${changeBadge(change)} #${number} ${proposalOf(change, (branch) => to.src(name, branch))} · ${time.age(updatedAt)}</p>
${ending(context, change)}</header>
${doneNotice(context)}${forms.problem}
<div class="with-side"><div>${description}
${forms.edit}
${said.content}
${waiting}
${forms.land}
${commits}</div>
<aside class="side" aria-label="Versions"><section class="fetch"><h2>Fetch</h2><div class="card"><p class="copy-field"><code>git fetch origin ${change.ref}</code>${copyButton()}</p></div></section>
${versionList(context, change)}</aside></div>`,
  }
}

/** How a change was closed. */
function ending({ to, params, time }: PageContext, change: ShownChange): Html | false {
  const { state, closedAt, closedBy, landedCommit, pushId, queueNote } = change
  const name = params.name ?? ''
  if (closedAt === null) return false
  const when = html`${closedBy !== null && html` by ${closedBy}`} ${time.age(closedAt)}`
  if (state !== 'landed') return html`<p class="soft">Abandoned${when}.</p>`
  return html`<p class="soft">Landed${when}${landedCommit !== null && html` as ${commitLink(to, name, landedCommit)}`}.${
    pushId !== null &&
    html` <a href="${to.of(name, `pushes/${pushId}`)}">Its push</a> can be undone.`
  }</p>${queueNote && html`<pre>${queueNote}</pre>`}`
}

/** The runs of the last version that wait for an approval. */
async function waitingRuns(context: PageContext, { ref }: ShownChange): Promise<Html | false> {
  const { to, params, tryRead, may, isLoggedIn } = context
  const name = params.name ?? ''
  if (!isLoggedIn) return false
  const query = { branch: ref, status: 'queued' }
  const runs = (await tryRead('listRuns', { query }))?.filter((run) => run.needsApproval) ?? []
  const [first] = runs
  if (!first) return false
  const mayApprove = await may('approveRun')
  return html`<section class="card"><header><h2>${counted(runs.length, 'run')} waiting for an approval</h2></header>
<div class="pad"><p>${waitingSentence(first.actor)}</p>
<ul>${runs.map(
    (run) =>
      html`<li class="row"><a class="grow" href="${to.of(name, `runs/${run.number}`)}">${run.name} #${run.number}</a>${mayApprove && formButton(to.of(name, `runs/${run.number}/approve`), 'Approve')}</li>`,
  )}</ul></div></section>`
}

async function renderDescription(context: PageContext, change: ShownChange): Promise<Html | false> {
  const { description: text, commit, username } = change
  if (text === '') return false
  const rendered = await renderText(context, { kind: 'change', text, rev: commit })
  const [style, content] = rendered ? [' prose', rendered] : ['', plainText(text)]
  return html`<section class="card pad${style}" aria-label="Description by ${username}">${content}</section>`
}

/** The versions, newest first. */
function versionList(context: PageContext, { versions }: ShownChange): Html {
  const { to, time, params } = context
  const name = params.name ?? ''
  const rows = versions
    .map(({ version, commit, username, createdAt }) => {
      const query = { version }
      const since = { from: version - 1, version }
      return html`<li><div><a class="linked" href="${changeLink(context, { path: '/files', query })}">Version ${version}</a> ${commitLink(to, name, commit)}
<p class="soft">${username} · ${time.age(createdAt)} · <a href="${to.src(name, commit)}">all files</a>${
        version > 1 &&
        html` · <a href="${changeLink(context, { path: '/files', query: since })}">since version ${version - 1}</a>`
      }</p></div></li>`
    })
    .toReversed()
  const rest = rows.slice(maxVersions)
  return html`<section><h2>${counted(versions.length, 'version')}</h2><ul>${rows.slice(0, maxVersions)}</ul>${
    rest.length > 0 &&
    html`<details><summary>${counted(rest.length, 'earlier version')}</summary><ul>${rest}</ul></details>`
  }</section>`
}

/** The commits of the last version, what checks say of it, and the files that it changes. */
async function commitsOf(context: PageContext, change: ShownChange): Promise<Html> {
  const { to, params, time, read } = context
  const name = params.name ?? ''
  const { commit: head, base, version } = lastOf(change)
  const query = { base, head, limit: maxCommits }
  const { commits, ahead, diff } = await read('compareCommits', { query })
  const [refs, runs, statuses] = await Promise.all([
    refsById(context, idsOf(commits)),
    recentRuns(context),
    readStatuses(context, head),
  ])
  const list = statusList(context, statuses)
  return html`${list && html`<section><h2>Statuses</h2>${list}</section>`}
<section><h2>${counted(ahead, 'commit')}</h2>
<ol class="card">${commits.map((commit) => commitRow(commit, { name, to, time, refs, runs }))}</ol>
${
  commits.length < ahead &&
  html`<p class="help">Only the newest ${grouped(commits.length)} are listed. <a href="${to.log(name, head)}">All commits of version ${version}</a></p>`
}</section>
${diff && fileList(context, diff)}`
}

function lastOf({ versions }: ShownChange): ShownChange['versions'][number] {
  const last = versions.at(-1)
  if (!last) throw new Error('a change without a version')
  return last
}

type Diff = NonNullable<OperationValues['compareCommits']['diff']>

function fileList(context: PageContext, { files, fileCount }: Diff): Html {
  const count = fileCount ?? files.length
  return html`<section><h2>${fileCount === null && 'At least '}${counted(count, 'changed file')}</h2>
<ul class="card change-files">${files.slice(0, maxFiles).map((file) => {
    const { path, additions, deletions } = file
    return html`<li><a class="mono" href="${changeLink(context, { path: '/files', query: fileQuery(file) })}">${breakable(path)}</a>${
      additions !== null &&
      deletions !== null &&
      html`<span class="nowrap"><span class="good">+${grouped(additions)}</span> <span class="bad">−${grouped(deletions)}</span></span>`
    }</li>`
  })}${count > maxFiles && html`<li><a class="linked" href="${changeLink(context, { path: '/files' })}">All ${grouped(count)} files</a></li>`}</ul></section>`
}
