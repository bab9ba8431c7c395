import { Problem } from '#base/problem.ts'
import { apiPathOf } from '#base/repository-name.ts'
import { branchesByRecency } from '../code/ref-picker.ts'
import { counted, grouped } from '../display-text.ts'
import { icon } from '../icons.ts'
import { cachedPage, Redirect, type SharedContext, type View } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { annotationsByLine, readAnnotations } from './annotation-view.ts'
import { commitLink, idsOf, recentRuns } from './commit-parts.ts'
import { commitRow } from './commit-row.ts'
import { fileOf, isFileLonger, linesOfFile, pageAddress } from './diff-query.ts'
import { diffView } from './diff-view.ts'
import { highlightDiff, highlightWhole } from './highlight-diff.ts'
import { diffResponse } from './patch-response.ts'
import { proposeSection } from './propose-form.ts'
import { refsById } from './refs-by-id.ts'
import { combinedState, combinedStatuses } from './status-view.ts'

const maxCommits = 100
/** Branches, and tags, that the fields of the form suggest. */
const maxListed = 200

export const comparePages = [
  cachedPage('/r/:name/compare', ['getRepository', 'listBranches', 'listTags'], {
    weight: 'git',
    audience: 'all',
    styles: 'diff',
    async show(context) {
      const { read, query, params, to } = context
      const { defaultBranch } = await read('getRepository')
      const [base, head] = [query.get('base')?.trim() ?? '', query.get('head')?.trim() ?? '']
      const from = base || defaultBranch
      if (head === '' || (base === '' && head === from))
        return formView(context, { base: from, head: '' })
      return new Redirect(to.compare(params.name ?? '', from, head))
    },
  }),
  cachedPage(
    '/r/:name/compare/:range*',
    [
      ...(['compareCommits', 'getFile', 'listBranches', 'listTags'] as const),
      ...(['listRuns', 'listAnnotations', 'listCombinedStatuses', 'listChanges'] as const),
    ],
    {
      weight: 'heavy',
      audience: 'all',
      styles: 'diff',
      async show(context) {
        const { range: given = '' } = context.params
        const isText = given.endsWith('.diff')
        const range = rangeIn(isText ? given.slice(0, -'.diff'.length) : given)
        if (!range) throw new Problem('route_not_found', 'There is no such page.')
        const compared = await context.read('compareCommits', {
          query: { ...range, limit: maxCommits, ...fileOf(context.query) },
        })
        if (!compared.diff) throw new Error('a comparison without a diff')
        if (isText) return diffResponse(compared.diff)
        return compareView(context, range, compared, compared.diff)
      },
    },
  ),
]

type Range = { base: string; head: string }

/** The revisions of `<base>...<head>`: no ref has two dots in a row. */
function rangeIn(encoded: string): Range | undefined {
  const [base, head, ...rest] = encoded.split('...').map(decode)
  if (!base || !head || rest.length > 0) return undefined
  return { base, head }
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

async function formView(context: SharedContext, range: Range): Promise<View> {
  const name = context.params.name ?? ''
  return {
    title: `Compare · ${name}`,
    repository: name,
    tab: 'commits',
    crumbs: [{ text: 'compare' }],
    body: html`<div class="page-head"><h1>Compare</h1></div>
${await rangeForm(context, range, await branchesByRecency(context))}
<p class="soft compare-help">Two branches, tags or commits. What the second has and the first has not is shown as commits, and as changes since both had the same history.</p>`,
  }
}

type Listed = Awaited<ReturnType<typeof branchesByRecency>>

async function rangeForm(
  context: SharedContext,
  { base, head }: Range,
  { branches }: Listed,
): Promise<Html> {
  const { tryRead, to, params } = context
  const name = params.name ?? ''
  const tags = (await tryRead('listTags', { query: { limit: maxListed, order: 'version' } })) ?? []
  const listed = [...branches.slice(0, maxListed), ...tags]
  const names = [...new Set(listed.map((ref) => ref.revision))]
  return html`<form class="inline compare-form" action="${to.of(name, 'compare')}">
<label for="base">Base</label><input id="base" name="base" value="${base}" list="refs" required maxlength="1024" spellcheck="false" autocomplete="off">
<label for="head">Compared</label><input id="head" name="head" value="${head}" list="refs" required maxlength="1024" spellcheck="false" autocomplete="off">
<button>Compare</button>
${head !== '' && html`<a class="button quiet" href="${to.compare(name, head, base)}">Swap</a>`}
<datalist id="refs">${names.map((ref) => html`<option value="${ref}"></option>`)}</datalist>
</form>`
}

type Compared = OperationValues['compareCommits']

async function compareView(
  context: SharedContext,
  range: Range,
  compared: Compared,
  diff: NonNullable<Compared['diff']>,
): Promise<View> {
  const { to, params, query, time } = context
  const name = params.name ?? ''
  const { base, head } = range
  const { commits, mergeBase } = compared
  const branches = await branchesByRecency(context)
  const [refs, runs, annotations, statuses, form, wholeFile, proposal] = await Promise.all([
    refsById(context, idsOf(commits)),
    recentRuns(context),
    readAnnotations(context, compared.head),
    combinedStatuses(context, [compared.head]),
    rangeForm(context, range, branches),
    isFileLonger(query) ? linesOfFile(context, compared.head, diff.files[0]) : undefined,
    proposalOf(context, range, { compared, branches }),
  ])
  const [highlights, wholeHighlights] = await Promise.all([
    highlightDiff(context, diff),
    highlightWhole(context, diff.files[0], wholeFile),
  ])
  const before = mergeBase ?? compared.base
  return {
    title: `Compare ${base}...${head} · ${name}`,
    repository: name,
    tab: 'commits',
    crumbs: [{ text: 'compare', href: to.of(name, 'compare') }, { text: `${base}...${head}` }],
    json: `${apiPathOf(name)}/compare?${new URLSearchParams(range)}`,
    isNoIndex: true,
    body: html`<div class="page-head"><h1>Compare</h1></div>
${form}
<p class="compare-state">${stateOf(compared, range)}${
      mergeBase !== null &&
      html` <span class="soft">Merge base ${commitLink(to, name, mergeBase)}</span>`
    } ${combinedState(to, name, statuses.get(compared.head), false)}</p>
${
  commits.length > 0 &&
  html`<details class="compare-commits"${commits.length <= 10 && html` open`}><summary>${counted(compared.ahead, 'commit')}</summary>
<h2 class="hidden">Commits</h2>
<ol class="card">${commits.map((commit) => commitRow(commit, { name, to, time, refs, runs }))}</ol>
${
  commits.length < compared.ahead &&
  html`<p class="soft">Only the newest ${grouped(commits.length)} of ${grouped(compared.ahead)} are listed. <a href="${to.log(name, head)}">All commits of ${head}</a></p>`
}</details>`
}
${proposal}
${diffView(diff, {
  to,
  name,
  before,
  after: compared.head,
  isSplit: query.has('split'),
  here: pageAddress(to.compare(name, base, head), query),
  isAlone: fileOf(query) !== undefined,
  wholeFile,
  highlights,
  annotations: annotationsByLine(annotations),
  wholeHighlights,
  patches: html`<a class="button quiet small wide-only" href="${to.compare(name, base, head)}.diff">.diff</a>`,
})}`,
  }
}

/** How the commits are proposed, if both revisions are branches. */
async function proposalOf(
  context: SharedContext,
  { base, head }: Range,
  { compared, branches: { branches } }: { compared: Compared; branches: Listed },
): Promise<Html | false> {
  const branchOf = (rev: string) => branches.find(({ revision }) => revision === rev)
  const [source, target] = [branchOf(head), branchOf(base)]
  // The API takes names alone, which have to be text.
  if (!source || !target || source.nameBase64 || target.nameBase64) return false
  return proposeSection(context, { source: source.name, target: target.name }, compared)
}

function stateOf({ status, ahead, behind }: Compared, { base, head }: Range): Html {
  const [one, other] = [html`<b>${head}</b>`, html`<b>${base}</b>`]
  if (status === 'identical')
    return html`${icon('check', 'good')} ${one} and ${other} are the same commit.`
  if (status === 'unrelated')
    return html`${icon('warning')} ${one} and ${other} have no common history, so they are compared with one another.`
  const parts = [
    ahead > 0 && `${counted(ahead, 'commit')} ahead of`,
    behind > 0 && `${counted(behind, 'commit')} behind`,
  ].filter((part) => part !== false)
  return html`${icon('branch')} ${one} is ${parts.join(', and ')} ${other}.`
}
