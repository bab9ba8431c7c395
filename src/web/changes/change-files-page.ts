import { Problem } from '#base/problem.ts'
import { annotationList, annotationsByLine, readAnnotations } from '../history/annotation-view.ts'
import { commitLink } from '../history/commit-parts.ts'
import { fileOf, isFileLonger, linesOfFile, pageAddress } from '../history/diff-query.ts'
import { diffView } from '../history/diff-view.ts'
import { highlightDiff, highlightWhole } from '../history/highlight-diff.ts'
import { icon } from '../icons.ts'
import type { PageContext, View } from '../page.ts'
import { otherProblem } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { readFileComments, type ShownVersions } from './change-file-comments.ts'
import { changeBadge, changeLink, type ShownChange } from './change-parts.ts'

type Version = ShownChange['versions'][number]

/** The files that a version of a change changes, or those that differ between two versions. */
export async function showChangedFiles(context: PageContext): Promise<View> {
  const { params, query, read, to, caller } = context
  const name = params.name ?? ''
  const change = await read('getChange')
  const { version, since } = shownVersion(change, query)
  const head = version.commit
  const isOfCommits = since !== undefined && since.base !== version.base && !query.has('files')
  if (isOfCommits) return versionsView(context, change, { version, since })
  const before = since?.commit ?? version.base
  const { diff } = await read('compareCommits', {
    query: { base: before, head, limit: 1, direct: since !== undefined, ...fileOf(query) },
  })
  if (!diff) throw new Error('a comparison without a diff')
  const { role } = await read('getRepository')
  const isEditor = change.username === caller.username || role !== 'read'
  const shown = { version, since }
  const file = fileOf(query)
  const [annotations, wholeFile, highlights, comments] = await Promise.all([
    readAnnotations(context, head),
    isFileLonger(query) ? linesOfFile(context, head, diff.files[0]) : undefined,
    highlightDiff(context, diff),
    readFileComments(context, { change, shown, file, diff, isEditor }),
  ])
  const wholeHighlights = await highlightWhole(context, diff.files[0], wholeFile)
  return filesFrame(context, change, {
    shown,
    problem: otherProblem(context, comments.forms),
    content: html`${annotationList(annotations, { to, name, commit: head })}
${comments.others}
${diffView(diff, {
  ...{ to, name, before, after: head, wholeFile, wholeHighlights, highlights },
  isSplit: query.has('split'),
  here: pageAddress(changeLink(context, { path: '/files' }), query, {
    ...(since && { from: String(since.version) }),
    ...(query.has('version') && { version: String(version.version) }),
    ...(query.has('files') && { files: '' }),
  }),
  isAlone: file !== undefined,
  annotations: annotationsByLine(annotations),
  review: comments.review,
  patches: html``,
})}`,
  })
}

type FilesParts = { shown: ShownVersions; problem?: Html | undefined; content: Html }

/** The page of a version of a change, or of what differs between two. */
function filesFrame(
  context: PageContext,
  change: ShownChange,
  { shown, problem, content }: FilesParts,
): View {
  const { params, to } = context
  const name = params.name ?? ''
  const { number, title } = change
  return {
    title: `Files of change ${number}: ${title} · ${name}`,
    repository: name,
    tab: 'changes',
    crumbs: [
      { text: 'changes', href: to.of(name, 'changes') },
      { text: String(number), href: changeLink(context) },
      { text: 'files' },
    ],
    isNoIndex: true,
    body: html`<div class="page-head"><h1>${title}</h1>
<div class="actions"><a class="button" href="${changeLink(context)}">${icon('commit')}Change ${number}</a></div></div>
${problem}${versionForm(change, shown)}
<p class="version">${changeBadge(change)} ${stateOf(context, change, shown)}</p>
${content}`,
  }
}

/** What differs between two versions with different bases: their commits, without what others have changed. */
async function versionsView(
  context: PageContext,
  change: ShownChange,
  shown: { version: Version; since: Version },
): Promise<View> {
  const { read, params, to } = context
  const name = params.name ?? ''
  const [from, version] = [shown.since.version, shown.version.version]
  const query = { from, to: version }
  const { isSame, commits, isCut } = await read('compareChangeVersions', { query })
  const files = changeLink(context, { path: '/files', query: { from, version, files: '' } })
  return filesFrame(context, change, {
    shown,
    content: html`<p class="version">${
      isSame
        ? html`${icon('check', 'good')} Both have the same commits: version ${version} only rebases version ${from}.`
        : 'Their commits are compared, as git range-diff does.'
    } <a href="${files}">Compare the files, too</a></p>
${isCut && html`<div class="notice">${icon('warning')}<p>The difference is larger than 1 MiB, so only its start is shown.</p></div>`}
${!isSame && commits.map((commit) => comparedCommit(commit, (id) => commitLink(to, name, id)))}`,
  })
}

type ComparedCommit = OperationValues['compareChangeVersions']['commits'][number]

const statusWords = {
  same: 'unchanged',
  changed: 'changed',
  removed: 'no longer in it',
  added: 'new',
}

/** A commit of two versions, with the difference of its messages and patches. */
function comparedCommit(
  { status, from, to, subject, diff }: ComparedCommit,
  link: (id: string) => Html,
): Html {
  const ids = [from, to].filter((id) => id !== null)
  const lines = diff === '' ? [] : diff.trimEnd().split('\n')
  return html`<section class="card thread"><h3 class="card-head">${subject} <span class="soft">${statusWords[status]}: ${ids.map((id, index) => html`${index > 0 && ' → '}${link(id)}`)}</span></h3>
${
  lines.length > 0 &&
  html`<table class="diff-lines" tabindex="0"><caption class="hidden">Difference of the message and patch of ${subject}</caption><tbody>${lines.map(
    (line) =>
      html`<tr${line.startsWith('+') ? html` class="add"` : line.startsWith('-') && html` class="del"`}><td>${/^[-+ ]/.test(line) ? line.slice(1) : line}`,
  )}</tbody></table>`
}</section>`
}

/** The versions of an address, by default the last one. Throws `route_not_found` for one that there is not. */
function shownVersion({ versions }: ShownChange, query: URLSearchParams): ShownVersions {
  const find = (parameter: string) => {
    const text = query.get(parameter) ?? ''
    const found = versions.find(({ version }) => String(version) === text)
    if (text !== '' && !found)
      throw new Problem('route_not_found', 'There is no such version of this change.')
    return found
  }
  const [version, since] = [find('version') ?? versions.at(-1), find('from')]
  if (!version) throw new Error('a change without a version')
  return { version, since }
}

/** Chooses the versions. */
function versionForm({ versions }: ShownChange, { version, since }: ShownVersions): Html | false {
  if (versions.length === 1) return false
  const option = (one: Version, chosen: Version | undefined) =>
    html`<option value="${one.version}"${one === chosen && html` selected`}>version ${one.version}</option>`
  const newestFirst = versions.toReversed()
  return html`<form class="inline" method="get"><label for="version">Show</label><select id="version" name="version">${newestFirst.map((one) => option(one, version))}</select>
<label for="from">compared with</label><select id="from" name="from"><option value="">its base</option>${newestFirst.map((one) => option(one, since))}</select>
<button>Show</button></form>`
}

function stateOf(
  { to, params, query }: PageContext,
  { target, version: last, versions }: ShownChange,
  { version: { version, base, commit }, since }: ShownVersions,
): Html {
  const name = params.name ?? ''
  const which = html`Version ${version}${versions.length > 1 && version === last && ', the last one'} <span class="soft">(${commitLink(to, name, commit)})</span>`
  if (!since)
    return html`${which}, compared with its base ${commitLink(to, name, base)} of ${target}.`
  return html`${which}, compared with version ${since.version}.${
    since.base !== base &&
    html` They have different bases${query.has('files') && html`, so what others have changed in ${target} between them is shown, too`}.`
  }`
}
