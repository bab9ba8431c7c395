import { dayMs } from '#base/clock.ts'
import { Problem } from '#base/problem.ts'
import { apiPathOf } from '#base/repository-name.ts'
import { toQuery, toShort } from '../code/code-target.ts'
import { orNoCommits } from '../code/empty-repository.ts'
import { refPicker } from '../code/ref-picker.ts'
import { icon } from '../icons.ts'
import { type PageTarget, parseTarget } from '../links.ts'
import { cachedPage, type SharedContext, type View } from '../page.ts'
import { html } from '../render/html.ts'
import { idsOf, recentRuns, type ShownCommit } from './commit-parts.ts'
import { commitRow } from './commit-row.ts'
import { commitFeed } from './log-feed.ts'
import { refsById } from './refs-by-id.ts'

const pageSize = 50

export const logPages = [
  cachedPage(
    '/r/:name/log',
    ['getRepository', 'listCommits', 'listBranches', 'listTags', 'listRuns'],
    {
      weight: 'git',
      audience: 'code',
      styles: 'history',
      async show(context) {
        const { defaultBranch } = await context.read('getRepository')
        return logOrNone(context, { rev: defaultBranch, path: { path: '' } })
      },
    },
  ),
  cachedPage(
    '/r/:name/log/:target*',
    ['getRepository', 'listCommits', 'listBranches', 'listTags', 'listRuns'],
    {
      weight: 'git',
      audience: 'code',
      styles: 'history',
      async show(context) {
        const { target: given = '' } = context.params
        const isFeed = given.endsWith('.atom') && !given.includes(':')
        const target = parseTarget(isFeed ? given.slice(0, -'.atom'.length) : given)
        if (!target) throw new Problem('route_not_found', 'There is no such page.')
        return isFeed ? commitFeed(context, target) : logOrNone(context, target)
      },
    },
  ),
]

function logOrNone(context: SharedContext, target: PageTarget): Promise<View> {
  return orNoCommits(context, { ...target, tab: 'commits' }, () => logView(context, target))
}

async function logView(context: SharedContext, target: PageTarget): Promise<View> {
  const { readPage, params, query, to, time } = context
  const name = params.name ?? ''
  const { rev, path } = target
  const author = query.get('author')?.trim() ?? ''
  const cursor = query.get('cursor') ?? undefined
  const listed = readPage('listCommits', {
    query: {
      ...toQuery(rev, path),
      ...(author !== '' && { author }),
      cursor,
      limit: pageSize,
    },
  })
  const [{ value: commits, next }, refs, runs, { picker }] = await Promise.all([
    listed,
    listed.then(({ value }) => refsById(context, idsOf(value))),
    recentRuns(context),
    refPicker(context, { name, rev, path }, 'log'),
  ])
  const here = (changes: Record<string, string | undefined>) => {
    const wanted = Object.entries({ author, ...changes }).filter(([, value]) => value)
    const search = new URLSearchParams(wanted as [string, string][])
    return `${to.log(name, rev, path)}${search.size > 0 ? `?${search}` : ''}`
  }
  const newer = newerCursor(cursor)
  const about = path.path === '' ? rev : `${path.path} at ${rev}`
  return {
    title: `Commits of ${about} · ${name}`,
    repository: name,
    tab: 'commits',
    crumbs: crumbsOf(context, target),
    json: `${apiPathOf(name)}/commits?${new URLSearchParams({ rev })}`,
    isNoIndex: cursor !== undefined,
    body: html`<div class="page-head">
<h1>${path.path === '' ? 'Commits' : html`History of <span class="mono">${path.path}</span>`}</h1>
<div class="actions"><a class="button" href="${to.src(name, rev, path)}">${path.path === '' ? html`${icon('folder')}Files` : html`${icon('file')}This version`}</a>
<a class="button" href="${to.compareFrom(name, rev)}" rel="nofollow">Compare</a></div>
${path.path !== '' && html`<p class="soft">Renames are not followed. <a href="${to.log(name, rev)}">All commits of ${toShort(rev)}</a></p>`}
</div>
<div class="log-bar">${picker}
<form class="inline" action="${to.log(name, rev, path)}">
<label for="author" class="hidden">Author</label>
<input id="author" name="author" value="${author}" placeholder="Author" maxlength="200" spellcheck="false">
<button>Filter</button>
${author !== '' && html`<a class="button quiet" href="${here({ author: undefined })}">All authors</a>`}
<a class="button quiet" href="${to.feed(name, rev)}">Feed</a>
</form></div>
${commits.length === 0 && html`<p class="card pad soft">No commits${author !== '' && ` of an author like “${author}”`}.</p>`}
${byDay(commits).map(
  ({ day, list }) => html`<section class="log-day"><h2>${day}</h2>
<ol class="card">
${list.map((commit) => commitRow(commit, { name, to, time, refs, runs, here }))}
</ol></section>`,
)}
${
  (newer !== undefined || next !== undefined) &&
  html`<nav class="pager" aria-label="Pages">
${newer !== undefined && html`<a class="button" href="${here({ cursor: newer })}">Newer</a>`}
${next !== undefined && html`<a class="button" href="${here({ cursor: next })}" rel="next">Older</a>`}
</nav>`
}`,
  }
}

function crumbsOf({ to, params }: SharedContext, { rev, path }: PageTarget) {
  if (path.path === '') return []
  const name = params.name ?? ''
  return [
    { text: 'log', href: to.log(name, rev) },
    { text: path.path, href: to.log(name, rev, path) },
  ]
}

/** The cursor of the page before one: all pages are of the same commit. */
function newerCursor(cursor: string | undefined): string | undefined {
  const [, tip, skip] = /^([0-9a-f]{40,64})\.(\d+)$/.exec(cursor ?? '') ?? []
  if (tip === undefined) return undefined
  const before = Number(skip) - pageSize
  return before > 0 ? `${tip}.${before}` : ''
}

function byDay(commits: readonly ShownCommit[]): { day: string; list: ShownCommit[] }[] {
  const days: { day: string; list: ShownCommit[] }[] = []
  let lastNumber = Number.NaN
  for (const commit of commits) {
    const number = Math.floor(commit.committer.at / dayMs)
    if (number === lastNumber) days.at(-1)?.list.push(commit)
    else days.push({ day: dayOf(commit.committer.at), list: [commit] })
    lastNumber = number
  }
  return days
}

const dayFormat = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeZone: 'UTC' })

function dayOf(at: number): string {
  return dayFormat.format(Math.max(-8.64e15, Math.min(8.64e15, at)))
}
