import { isAdmin } from '#access/may.ts'
import { apiPathOf } from '#base/repository-name.ts'
import { doneNotice } from '../done.ts'
import { icon } from '../icons.ts'
import { eventPosition } from '../live/read-event-stream.ts'
import { action, type PageContext, page, type View } from '../page.ts'
import { problemNotice } from '../problem-page.ts'
import { type Html, html } from '../render/html.ts'
import { pushCommits } from './push-commits.ts'
import { refChange, refChanges, type ShownPush, undoSteps } from './ref-changes.ts'

const pageSize = 50
const path = '/r/:name/pushes/:id'

const transports: Record<string, string> = {
  http: 'over HTTP',
  ssh: 'over SSH',
  api: 'through the API',
  queue: 'through the queue',
}

export const pushPages = [
  page('/r/:name/pushes', ['listPushes', 'getRepository', 'listEvents'], {
    weight: 'light',
    audience: 'members',
    styles: 'events',
    async show({ params, query, to, time, readPage, tryRead, call }) {
      const after = await eventPosition({ call, tryRead, params })
      const name = params.name ?? ''
      const [ref, cursor] = [query.get('ref') || undefined, query.get('cursor') || undefined]
      const { value: pushes, next } = await readPage('listPushes', {
        query: { limit: pageSize, ref, cursor },
      })
      const undone = new Set(pushes.map(({ undoes }) => undoes))
      const nextQuery = new URLSearchParams({ ...(ref && { ref }), cursor: next ?? '' })
      return {
        title: `Pushes · ${name} · svc`,
        repository: name,
        tab: 'pushes',
        crumbs: [{ text: 'pushes' }],
        json: `${apiPathOf(name)}/pushes`,
        live: cursor === undefined ? to.eventStream({ repository: name, kind: 'push', after }) : '',
        body: html`<div class="page-head"><h1>Pushes</h1></div>
${ref !== undefined && html`<p class="filters">Only those that changed <code>${ref}</code>. <a href="${to.of(name, 'pushes')}">Show all</a></p>`}
<div id="pushes" data-part="quiet">${
          pushes.length === 0
            ? html`<div class="card empty"><h2>No pushes</h2><p class="soft">Each push, over HTTP, SSH or the API, is listed here, and can be undone.</p></div>`
            : html`<ul class="card pushes">${pushes.map(
                (
                  push,
                ) => html`<li class="row push-row">${icon(push.via === 'undo' ? 'undo' : 'push', 'soft')}
<div class="grow"><p>${pushTitle(push, to.of(name, `pushes/${push.id}`))}${undone.has(push.id) && html` <span class="badge">${icon('undo')}undone</span>`}</p>
${refChanges(push, name, to, 4)}</div>
<span class="soft">${time.age(push.pushedAt)}</span></li>`,
              )}</ul>`
        }</div>
${next !== undefined && html`<nav class="pager" aria-label="Pages"><a class="button" rel="next" href="?${String(nextQuery)}">Older pushes</a></nav>`}`,
      }
    },
  }),
  page(
    path,
    [
      'getPush',
      'listPushes',
      'listEvents',
      'getRepository',
      'listCommits',
      'compareCommits',
      'listBranches',
      'listTags',
      'listRuns',
    ],
    { weight: 'git', audience: 'members', styles: 'push', show: showPush },
  ),
  action(`${path}/undo`, 'undoPush', {
    formPage: path,
    input: () => ({}),
    redirectTo: ({ to, params }, value) =>
      // The server's own response, whose schema is that of the operation.
      to.of(params.name ?? '', `pushes/${(value as ShownPush).id}`),
    done: { text: 'The push is undone.' },
  }),
]

function pushTitle({ actor, via, refs }: ShownPush, href: string): Html {
  const count = refs.length === 1 ? '1 ref' : `${refs.length} refs`
  return html`<b>${actor.username}</b> <a class="title" href="${href}">${via === 'undo' ? 'undid a push' : `pushed ${count}`}</a> <span class="soft">${transports[via]}</span>`
}

async function showPush(context: PageContext): Promise<View> {
  const { params, to, time, read, caller } = context
  const { name = '', id = '' } = params
  const push = await read('getPush')
  const undoneBy = await findUndo(context, push)
  const leaks = await findLeaks(context, push)
  const mayUndo = await context.may('undoPush')
  const commits = await pushCommits(context, push)
  return {
    title: `Push of ${push.actor.username} · ${name} · svc`,
    repository: name,
    tab: 'pushes',
    crumbs: [{ text: 'pushes', href: to.of(name, 'pushes') }, { text: id.slice(-6) }],
    json: `${apiPathOf(name)}/pushes/${encodeURIComponent(id)}`,
    body: html`<div class="page-head"><h1>${push.via === 'undo' ? 'Undo' : 'Push'} by ${push.actor.username}</h1></div>
${doneNotice(context)}${problemNotice(context)}
<dl class="facts">
<dt>When</dt><dd>${time.age(push.pushedAt)}</dd>
${push.via in transports && html`<dt>How</dt><dd>${transports[push.via]}</dd>`}
<dt>Token or key</dt><dd>${push.actor.name ? html`<b>${push.actor.name}</b>` : html`<code>${push.actor.id}</code>`}${isAdmin(caller) && html` <a class="linked" href="${to.own(`audit?credential=${push.actor.id}`)}">what else it changed</a>`}</dd>
${push.undoes !== null && html`<dt>Undid</dt><dd><a class="linked" href="${to.of(name, `pushes/${push.undoes}`)}">an earlier push</a></dd>`}
${push.keptUntil !== null && html`<dt>Overwritten commits</dt><dd>kept until ${new Date(push.keptUntil).toISOString().slice(0, 10)}</dd>`}
</dl>
${
  leaks.length > 0 &&
  html`<div class="notice bad">${icon('warning')}<div><p><b>Credentials that ${push.actor.username} allowed</b></p>
<ul>${leaks.map(({ kind, path: file, line }) => html`<li>${kind} in <code>${file}</code>, line ${line}</li>`)}</ul></div></div>`
}
<section><h2>Refs</h2><ul class="card">${push.refs.map((ref) => html`<li class="row">${refChange(ref, name, to)}</li>`)}</ul></section>
${commits}
<section class="undo"><h2>Undo</h2>${
      undoneBy
        ? html`<p>${icon('undo')} Undone by <b>${undoneBy.actor.username}</b>, ${time.age(undoneBy.pushedAt)}: <a href="${to.of(name, `pushes/${undoneBy.id}`)}">see that push</a>.</p>`
        : push.undoable
          ? html`<p>Undoing this push would, all at once:</p><ul class="undo-steps">${undoSteps(push)}</ul>
${
  mayUndo
    ? html`<form method="post" action="${to.of(name, `pushes/${push.id}/undo`)}"><button class="danger">${icon('undo')}Undo this push</button></form><p class="help">It is recorded as a new push, runs workflows, and can be undone in turn.</p>`
    : html`<p class="soft">Your token may not change this repository.</p>`
}`
          : html`<p class="soft">Not possible: its refs have changed since, or the commits that it replaced are no longer kept.</p>`
    }</section>`,
  }
}

/** The push that undid a push, if it is among the last ones of its first ref. */
async function findUndo({ read }: PageContext, { id, refs }: ShownPush) {
  const [first] = refs
  if (!first) return undefined
  const later = await read('listPushes', { query: { ref: first.ref, limit: pageSize } })
  return later.find(({ undoes }) => undoes === id)
}

type Leak = { kind: string; path: string; line: number }

/** The credentials in a push that its pusher allowed, if that is among the last such events. */
async function findLeaks({ tryRead, params }: PageContext, { id }: ShownPush): Promise<Leak[]> {
  const query = { repository: params.name, kind: 'push.leak_allowed', before: 'latest', limit: 100 }
  const events = (await tryRead('listEvents', { query })) ?? []
  // The server wrote the events, so their kind determines the type of their data.
  return events.flatMap(({ data }) => (data.pushId === id ? (data.findings as Leak[]) : []))
}
