import { apiPathOf } from '#base/repository-name.ts'
import { shortId, shownName } from '../display-text.ts'
import { copyButton, icon } from '../icons.ts'
import { cachedPage, Redirect, type SharedContext, type View } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { runMark } from '../run-states.ts'
import { annotationList, annotationsByLine, readAnnotations } from './annotation-view.ts'
import {
  commitLink,
  findLinkedCommits,
  linkedText,
  type RunsByCommit,
  recentRuns,
  splitMessage,
} from './commit-parts.ts'
import { fileOf, isFileLonger, linesOfFile, pageAddress } from './diff-query.ts'
import { diffView } from './diff-view.ts'
import { highlightDiff, highlightWhole } from './highlight-diff.ts'
import { type PatchFormat, patchResponse } from './patch-response.ts'
import { refBadges, refsById } from './refs-by-id.ts'
import { readStatuses, statusList } from './status-view.ts'

export const commitPages = [
  cachedPage(
    '/r/:name/commit/:id',
    [
      ...(['getCommit', 'getFile', 'listBranches', 'listTags'] as const),
      ...(['listRuns', 'listAnnotations', 'listStatuses'] as const),
    ],
    {
      weight: 'git',
      // Its parents lead on to all of history.
      audience: 'all',
      styles: 'diff',
      async show(context) {
        const { to, params, query, read } = context
        const { name = '' } = params
        const { id, format } = splitFormat(params.id ?? '')
        const file = fileOf(query)
        const isPage = format === ''
        const [commit, runs, annotations, statuses] = await Promise.all([
          read('getCommit', { params: { id }, query: { diff: true, ...file } }),
          isPage ? recentRuns(context) : undefined,
          isPage ? readAnnotations(context, id) : [],
          isPage ? readStatuses(context, id) : [],
        ])
        if (commit.id !== id) {
          const search = query.size > 0 ? `?${query}` : ''
          return new Redirect(to.commit(name, commit.id) + format + search)
        }
        if (format !== '') return patchResponse(commit, format)
        return commitView(context, commit, { runs, annotations, statuses })
      },
    },
  ),
]

/** The id of a commit, and whether it is wanted as text: `.diff` or `.patch`. */
function splitFormat(text: string): { id: string; format: '' | PatchFormat } {
  const [, id = text, format] = /^(.+)(\.diff|\.patch)$/.exec(text) ?? []
  return { id, format: format === '.diff' || format === '.patch' ? format : '' }
}

type Details = OperationValues['getCommit']

type Around = {
  runs: RunsByCommit | undefined
  annotations: Awaited<ReturnType<typeof readAnnotations>>
  statuses: Awaited<ReturnType<typeof readStatuses>>
}

async function commitView(
  context: SharedContext,
  commit: Details,
  { runs, annotations, statuses }: Around,
): Promise<View> {
  const { to, params, query } = context
  const { name = '' } = params
  const { id, message, diff } = commit
  const { subject, body } = splitMessage(message)
  const file = fileOf(query)
  const [refs, links, wholeFile, highlights] = await Promise.all([
    refsById(context, [id]),
    findLinkedCommits(context, message),
    isFileLonger(query) ? linesOfFile(context, id, diff?.files[0]) : undefined,
    diff ? highlightDiff(context, diff) : new Map(),
  ])
  const wholeHighlights = await highlightWhole(context, diff?.files[0], wholeFile)
  return {
    title: `${subject} · ${name}`,
    repository: name,
    tab: 'commits',
    crumbs: [{ text: 'commit' }, { text: shortId(id), href: to.commit(name, id) }],
    json: `${apiPathOf(name)}/commits/${id}?diff=true`,
    isNoIndex: true,
    body: html`<header class="commit-head">
<div class="page-head"><h1>${subject}</h1>
<div class="actions"><a class="button" href="${to.src(name, id)}">${icon('folder')}Files</a></div></div>
${body !== '' && html`<pre class="message">${linkedText(body, links)}</pre>`}
${people(context, commit)}
<p class="commit-facts"><span class="commit-id">${icon('commit')}<code>${id}</code>${copyButton(id)}</span>
${parents(context, commit)}
${runMark(to, name, runs?.get(id))}
${refBadges(refs.get(id))}</p>
</header>
${statusList(context, statuses)}
${annotationList(annotations, { to, name, commit: id })}
${
  diff &&
  diffView(diff, {
    to,
    name,
    before: diff.base,
    after: id,
    isSplit: query.has('split'),
    here: pageAddress(to.commit(name, id), query),
    patches: commitPatches(to.commit(name, id)),
    isAlone: file !== undefined,
    wholeFile,
    highlights,
    annotations: annotationsByLine(annotations),
    wholeHighlights,
  })
}`,
  }
}

function commitPatches(address: string): Html {
  return html`<a class="button quiet small wide-only" href="${address}.diff">.diff</a><a class="button quiet small wide-only" href="${address}.patch">.patch</a>`
}

function people({ time }: SharedContext, { author, committer }: Details): Html {
  const isSame = author.name === committer.name && author.email === committer.email
  return html`<p class="commit-people"><b title="${author.email}">${shownName(author)}</b> ${
    isSame
      ? html`committed ${time.age(committer.at)}`
      : html`authored ${time.age(author.at)}, <b title="${committer.email}">${shownName(committer)}</b> committed ${time.age(committer.at)}`
  }</p>`
}

function parents({ to, params }: SharedContext, { parents: ids }: Details): Html {
  const name = params.name ?? ''
  if (ids.length === 0) return html`<span class="soft">no parents</span>`
  const list = ids.map((id) => html` ${commitLink(to, name, id)}`)
  const note = ids.length > 1 && html`, compared with the first`
  return html`<span class="soft">${ids.length === 1 ? 'parent' : `merge of ${ids.length} parents`}${list}${note}</span>`
}
