import { counted } from './display-text.ts'
import { doneNotice } from './done.ts'
import { renderSentence, toSentence } from './event-sentences.ts'
import { icon } from './icons.ts'
import { type PageContext, page, type View } from './page.ts'
import type { PageTime } from './page-time.ts'
import type { OperationValues } from './read-operations.ts'
import { type Html, html } from './render/html.ts'
import { visibilityBadge } from './visibility-parts.ts'

type Activity = OperationValues['listActivity'][number]
type LoggedEvents = OperationValues['listEvents']

const pageSize = 50
const shownEvents = 8
const readEvents = 60
const shownRuns = 13
const shownNamespaces = 20
const shownWaiting = 6

export const homePages = [
  page('/', ['listActivity', 'listEvents', 'listNamespaces', 'listWaitingChanges'], {
    weight: 'light',
    audience: 'code',
    styles: 'home',
    show: homeView,
  }),
]

async function homeView(context: PageContext): Promise<View> {
  const { readPage, query, to, session, may } = context
  const q = query.get('q')?.slice(0, 200) ?? ''
  const cursor = query.get('cursor') ?? undefined
  const isStart = q === '' && cursor === undefined
  const [{ value: repositories, next }, lately, mayCreate, namespaces, waiting] = await Promise.all(
    [
      readPage('listActivity', {
        query: { limit: pageSize, cursor, ...(q !== '' && { filter: q }) },
      }),
      session && recentEvents(context),
      may('createRepository'),
      session && namespaceLine(context),
      session && isStart && waitingChanges(context),
    ],
  )
  const isComplete = next === undefined && cursor === undefined
  const json = q === '' ? '/activity' : `/activity?${new URLSearchParams({ filter: q })}`
  if (repositories.length === 0 && q === '' && cursor === undefined)
    return emptyView(context, mayCreate, namespaces)
  // Who has a role nowhere sees what everybody sees.
  const isNew = isComplete && repositories.every(({ visibility }) => visibility !== 'private')
  const more =
    next && `${to.home()}?${new URLSearchParams({ ...(q !== '' && { q }), cursor: next })}`
  return {
    title: 'Repositories · svc',
    json,
    body: html`${doneNotice(context)}<div${lately && html` class="with-side"`}><div>
${waiting}<div class="page-head"><h1>Repositories${isComplete && html` <span class="count">${repositories.length}</span>`}</h1>
${session && mayCreate && html`<a class="button primary" href="${to.own('new')}">${icon('plus')}New</a>`}</div>
${namespaces}${session && mayCreate && q === '' && isNew && howToBegin(context)}
${q !== '' && html`<p class="help filtered">With <b>${q}</b> in their name or description. <a href="${to.home()}">Show all</a></p>`}
${
  repositories.length === 0
    ? html`<p class="card empty soft">No repository matches.</p>`
    : html`<table class="card repositories"><caption class="hidden">Repositories, the last pushed first</caption>
<thead><tr><th scope="col">Name</th><th scope="col">13 weeks</th><th scope="col">Last runs</th><th scope="col">Pushed</th></tr></thead>
<tbody>${repositories.map((repository) => repositoryRow(context, repository))}</tbody></table>`
}
${more && html`<p class="pager"><a class="button" href="${more}">More repositories</a></p>`}
</div>${lately}</div>`,
  }
}

function repositoryRow({ to, time }: PageContext, repository: Activity): Html {
  const { name, description, lastCommit, state, protectedBranches, visibility } = repository
  const about = state === 'ready' ? description || (lastCommit?.summary ?? '') : stateText[state]
  return html`<tr><td><h2><a href="${to.repository(name)}">${name}</a>${
    protectedBranches.length > 0 &&
    html`<span title="Has protected branches">${icon('lock', 'soft')}<span class="hidden">has protected branches</span></span>`
  }${visibilityBadge(visibility)}</h2><p class="soft cut">${about}</p></td>
<td>${pushLine(repository.pushes)}</td>
<td>${repository.runs && activityTicks(repository.runs)}</td>
<td class="soft">${lastPush(repository, time)}</td></tr>`
}

function lastPush({ pushedAt, importedAt }: Activity, time: PageTime): Html | string {
  if (pushedAt !== null) return time.age(pushedAt)
  return importedAt === null ? 'never' : html`imported ${time.age(importedAt)}`
}

const stateText = { importing: 'Being imported', failed: 'The import has failed' }

const [lineWidth, lineHeight] = [104, 24]

/** Numbers of pushes as a line, with a text that says the same. */
export function pushLine(counts: readonly number[]): Html {
  const total = counts.reduce((sum, count) => sum + count, 0)
  const text = `${counted(total, 'push', 'pushes')} in 13 weeks`
  if (total === 0) return html`<span class="hidden">${text}</span>`
  const top = Math.max(4, ...counts)
  const points = counts.map((count, index) => {
    const x = (index * lineWidth) / (counts.length - 1)
    const y = lineHeight - 2 - (count / top) * (lineHeight - 4)
    return `${x.toFixed(1)},${y.toFixed(1)}`
  })
  return html`<svg class="line" role="img" aria-label="${text}" viewBox="0 0 ${lineWidth} ${lineHeight}"><title>${text}</title><polygon points="0,${lineHeight} ${points.join(' ')} ${lineWidth},${lineHeight}"/><polyline points="${points.join(' ')}"/></svg>`
}

type BriefRuns = NonNullable<Activity['runs']>

/** The newest runs as ticks: those that failed are taller as well as red. A text says the same. */
export function activityTicks(runs: BriefRuns): Html {
  const missing = shownRuns - runs.length
  const text = runsText(runs)
  return html`<svg class="ticks" role="img" aria-label="${text}" viewBox="0 0 90 20"><title>${text}</title>${Array.from(
    { length: missing },
    (_, index) => html`<circle cx="${index * 7 + 2}" cy="10" r="1.2"/>`,
  )}${runs.map((run, index) => {
    const x = (missing + index) * 7
    const tone = toneOf(run)
    const [y, height] = tone === 'bad' ? [1, 18] : [3, 14]
    return html`<rect class="${tone}" x="${x}" y="${y}" width="4" height="${height}" rx="1.5"/>`
  })}</svg>`
}

function toneOf({ status, conclusion }: BriefRuns[number]): string {
  if (status !== 'completed') return 'busy'
  if (conclusion === 'success') return 'good'
  return conclusion === 'failure' || conclusion === 'timed_out' ? 'bad' : 'none'
}

function runsText(runs: BriefRuns): string {
  if (runs.length === 0) return 'No runs'
  const count = (tone: string, words: string) => {
    const found = runs.filter((run) => toneOf(run) === tone).length
    return found === 0 ? [] : [`${found} ${words}`]
  }
  const parts = [
    ...count('good', 'succeeded'),
    ...count('bad', 'failed'),
    ...count('busy', 'in progress'),
    ...count('none', 'cancelled or skipped'),
  ]
  return `Last ${runs.length === 1 ? 'run' : `${runs.length} runs`}: ${parts.join(', ')}`
}

/** The newest events as sentences; of the events of a push or a run, only the last. */
async function recentEvents({ tryRead, to, time }: PageContext): Promise<Html | undefined> {
  const events = await tryRead('listEvents', { query: { before: 'latest', limit: readEvents } })
  const shown = events && withoutRepeated(events).slice(0, shownEvents)
  if (!shown || shown.length === 0) return undefined
  return html`<aside class="lately" aria-labelledby="lately"><h2 id="lately">Recent activity</h2><ol>${shown.map(
    (event) => {
      const sentence = toSentence(event, to)
      return html`<li><span class="lately-dot ${sentence.tone}">${icon(sentence.icon)}</span><div><p>${renderSentence(sentence)}</p><span class="soft">${time.age(event.createdAt)}</span></div></li>`
    },
  )}</ol></aside>`
}

/** Leaves out events that say less than a newer one: earlier states of a run, and all refs of a push but one. */
export function withoutRepeated(events: LoggedEvents): LoggedEvents {
  const seen = new Set<unknown>()
  return events.filter(({ kind, data }) => {
    const subject = kind === 'workflow' ? data.runId : kind === 'push' ? data.pushId : undefined
    if (subject === undefined) return true
    const isNew = !seen.has(subject)
    seen.add(subject)
    return isNew
  })
}

/** The changes that wait for the user. */
async function waitingChanges({ tryRead, to, time }: PageContext): Promise<Html | undefined> {
  const changes = await tryRead('listWaitingChanges', { query: { limit: shownWaiting + 1 } })
  if (!changes || changes.length === 0) return undefined
  const hasMore = changes.length > shownWaiting
  return html`<section class="waiting" aria-labelledby="waiting"><h2 id="waiting">Waiting for you <span class="count">${hasMore ? `${shownWaiting}+` : changes.length}</span></h2>
<ul class="card">${changes.slice(0, shownWaiting).map(
    ({ repository, number, title, username, target, updatedAt }) =>
      html`<li class="row">${icon('commit', 'accent')}<div class="grow"><p class="cut"><a href="${to.of(repository, `changes/${number}`)}">${title}</a></p>
<p class="soft">${repository} #${number} by ${username} for ${target} · ${time.age(updatedAt)}</p></div></li>`,
  )}</ul>
${hasMore && html`<p class="help">The last updated are shown. <code>svc changes waiting</code> lists more.</p>`}</section>`
}

/** The namespaces that the user can see. */
async function namespaceLine({ tryRead, to }: PageContext): Promise<Html | undefined> {
  const namespaces = await tryRead('listNamespaces', { query: { limit: shownNamespaces } })
  if (!namespaces || namespaces.length === 0) return undefined
  const more =
    namespaces.length === shownNamespaces && html`, <a href="${to.own('namespaces')}">all</a>`
  return html`<p class="help filtered">Namespaces: ${namespaces.map(
    ({ name }, index) => html`${index > 0 && ', '}<a href="${to.namespace(name)}">${name}</a>`,
  )}${more}</p>`
}

function howToBegin({ baseUrl }: PageContext): Html {
  return html`<p class="help filtered">To begin, create a repository here, or in a Git project with <code>svc login ${baseUrl}</code> and <code>svc repos create</code>. ${aboutCommand}</p>`
}

const aboutCommand = html`Your administrator has the package with the command <code>svc</code>: <code>npm install --omit=optional --prefix ~/.local/share/svc ./svc-*.tgz</code> puts it into <code>~/.local/share/svc/node_modules/.bin</code>.`

function emptyView(context: PageContext, mayCreate: boolean, namespaces: Html | undefined): View {
  const { to, session, baseUrl } = context
  return {
    title: 'Repositories · svc',
    json: '/activity',
    body: html`${doneNotice(context)}<section class="empty">${icon('mark', 'large')}
<h1>${session ? 'No repositories yet' : 'There are no repositories'}</h1>
${
  session && mayCreate
    ? html`<p class="soft">Create one, or import one that exists elsewhere with its whole history.</p>
<p class="actions"><a class="button primary" href="${to.own('new')}">${icon('plus')}New repository</a></p>
<p class="soft">Or from a terminal, in a Git project:</p>
<pre class="card pad" tabindex="0"><code>svc login ${baseUrl}
svc repos create</code></pre>
<p class="soft">${aboutCommand}</p>`
    : html`<p class="soft">Those that you may see will be listed here.</p>`
}${namespaces}</section>`,
  }
}
