import { Problem } from '#base/problem.ts'
import { apiPathOf } from '#base/repository-name.ts'
import { toQuery } from '../code/code-target.ts'
import { grouped, orNoMessage, shownName } from '../display-text.ts'
import { icon } from '../icons.ts'
import { type PageTarget, parseTarget } from '../links.ts'
import { cachedPage, type SharedContext, type View } from '../page.ts'
import { lineOf } from '../page-query.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html, trusted } from '../render/html.ts'
import { commitLink } from './commit-parts.ts'
import { highlightLines } from './highlight-diff.ts'

const pageLines = 1000

export const blamePages = [
  cachedPage('/r/:name/blame/:target*', ['getBlame'], {
    weight: 'heavy',
    audience: 'all',
    styles: 'blame',
    async show(context) {
      const target = parseTarget(context.params.target ?? '')
      if (!target) throw new Problem('route_not_found', 'There is no such page.')
      const from = Math.min(1e7, lineOf(context.query, 'from') ?? 1)
      const { rev, path } = target
      const query = { ...toQuery(rev, path), start: from, end: from + pageLines - 1 }
      const blame = await context.read('getBlame', { query })
      const lines = blame.ranges.flatMap((range) => range.lines)
      const key = ['blame', blame.commit, path.pathBase64 ?? path.path, from].join('\n')
      const highlighted = await highlightLines(context, key, path.path, lines)
      return blameView(context, target, { from, blame, highlighted })
    },
  }),
]

type Blame = OperationValues['getBlame']
type BlamedRange = Blame['ranges'][number]

function blameView(
  context: SharedContext,
  { rev, path }: PageTarget,
  { from, blame, highlighted }: { from: number; blame: Blame; highlighted: string[] | undefined },
): View {
  const { to, params, time } = context
  const name = params.name ?? ''
  const { totalLines, ranges, next } = blame
  const last = (next ?? totalLines + 1) - 1
  const commits = new Map(blame.commits.map((commit) => [commit.id, commit]))
  const here = (start: number) => `${to.blame(name, rev, path)}${start > 1 ? `?from=${start}` : ''}`
  // A page may have ended early, so the one before starts where it would end here.
  const before = from > 1 ? Math.max(1, from - pageLines) : undefined
  const after = last < totalLines ? last + 1 : undefined
  return {
    title: `Blame of ${path.path} at ${rev} · ${name}`,
    repository: name,
    tab: 'code',
    crumbs: [{ text: 'blame' }, { text: path.path, href: to.src(name, rev, path) }],
    json: `${apiPathOf(name)}/blame?${new URLSearchParams(toQuery(rev, path))}`,
    isNoIndex: true,
    body: html`<div class="page-head"><h1>Blame <span class="mono soft">${path.path}</span></h1>
<div class="actions"><a class="button" href="${to.src(name, rev, path)}">${icon('file')}File</a>
<a class="button" href="${to.log(name, rev, path)}">${icon('history')}History</a></div>
<p class="soft blame-about">${icon('branch')} <a href="${to.src(name, rev)}">${rev}</a> · ${
      totalLines <= last && from === 1
        ? `${grouped(totalLines)} lines`
        : `lines ${grouped(from)} to ${grouped(last)} of ${grouped(totalLines)}`
    }${legend()}</p></div>
${
  totalLines === 0
    ? html`<p class="card pad soft">The file is empty.</p>`
    : html`<div class="card blame" tabindex="0" role="region" aria-label="Lines with their commits"><table><caption class="hidden">Lines of ${path.path} with the commits that they are from</caption>
${ranges.map((range) =>
  rangeRows(range, {
    ...{ to, name, time, commit: commits.get(range.commit) },
    highlighted: highlighted?.slice(range.start - from, range.start - from + range.lines.length),
  }),
)}
</table></div>`
}
${
  (before !== undefined || after !== undefined) &&
  html`<nav class="pager" aria-label="Pages">
${before !== undefined && html`<a class="button" href="${here(before)}">Lines before</a>`}
${after !== undefined && html`<a class="button" href="${here(after)}">Lines after</a>`}</nav>`
}`,
  }
}

type RangeContext = Pick<SharedContext, 'to' | 'time'> & {
  name: string
  commit: Blame['commits'][number] | undefined
  highlighted: string[] | undefined
}

/** The lines of one commit: who and when once, beside them. */
function rangeRows(
  range: BlamedRange,
  { to, name, time, commit, highlighted }: RangeContext,
): Html {
  const { start, lines, cutLines = [], previous } = range
  const at = commit?.committer?.at
  const step = at === undefined ? ageSteps.length : 1 + time.stepOf(at, ageLimits)
  const author = commit?.author ? shownName(commit.author) : ''
  const summary = commit ? orNoMessage(commit.summary) : range.commit
  const about = html`<td class="blame-commit age-${step}" rowspan="${lines.length}"><div>
<a class="cut" href="${to.commit(name, range.commit)}" title="${summary} (${author})">${summary}</a>
<span class="soft">${at !== undefined && time.age(at)}</span>${
    previous
      ? html`<a class="before" href="${to.blame(name, previous.commit, previous)}#L${range.originalStart}" title="Blame before this commit">${icon('history')}<span class="hidden">Blame before this commit</span></a>`
      : html`<span class="before"></span>`
  }</div>${lines.length > 1 && html`<div class="soft"><span class="cut">${author}</span>${commitLink(to, name, range.commit)}</div>`}`
  return html`<tbody>${lines.map(
    (line, index) =>
      html`<tr id="L${start + index}">${index === 0 && about}<td data-n="${start + index}"><td>${highlighted ? trusted(highlighted[index] ?? '') : line.replace(/\r$/, '')}${
        cutLines.includes(start + index) && html`<span class="unseen">cut</span>`
      }`,
  )}</tbody>`
}

const day = 86_400_000
const ageSteps: [limitMs: number, text: string][] = [
  [7 * day, 'this week'],
  [30 * day, 'a month'],
  [90 * day, '3 months'],
  [180 * day, '6 months'],
  [365 * day, 'a year'],
  [2 * 365 * day, '2 years'],
  [4 * 365 * day, '4 years'],
  [Number.POSITIVE_INFINITY, 'older'],
]

const ageLimits = ageSteps.map(([limit]) => limit)

function legend(): Html {
  return html`<span class="blame-legend">${ageSteps.map(
    ([, text], index) => html`<span class="age-${index + 1}">${text}</span>`,
  )}</span>`
}
