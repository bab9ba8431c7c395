import { eventKinds } from '#events/events.ts'
import { renderSentence, toSentence } from '../event-sentences.ts'
import { icon } from '../icons.ts'
import type { Links } from '../links.ts'
import { type PageContext, page } from '../page.ts'
import type { PageTime } from '../page-time.ts'
import { problemNotice } from '../problem-page.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { filtersOf } from './live-pages.ts'
import { eventPosition } from './read-event-stream.ts'

type ShownEvent = OperationValues['listEvents'][number]

const pageSize = 50
// Of a reader who sees few of the events, a page is looked for in this many parts of the log.
const maxScans = 10

export const eventPages = [
  page('/-/events', ['listEvents'], {
    weight: 'git',
    audience: 'members',
    styles: 'events',
    async show(context) {
      const { query, to, time } = context
      const { repository, kind } = filtersOf(query)
      const before = query.get('before') || 'latest'
      const after = await eventPosition(context)
      const { events, next } = await readBack(context, before)
      const live = before === 'latest'
      const filters = { ...(repository && { repository }), ...(kind && { kind }) }
      return {
        title: 'Events · svc',
        crumbs: [{ text: 'Events' }],
        live: live ? to.eventStream({ ...filters, after }) : '',
        json: `/events?${new URLSearchParams({ before: 'latest', ...filters })}`,
        body: html`<div class="page-head"><h1>Events</h1></div>
${problemNotice(context)}
<form class="inline filters" method="get">
<label for="repository">Repository</label><input id="repository" name="repository" value="${repository}" size="20" spellcheck="false">
<label for="kind">Kind</label><select id="kind" name="kind"><option value="">any</option>${eventKinds.map(
          (one) => html`<option${one === kind && html` selected`}>${one}</option>`,
        )}</select>
<button>Filter</button>${(repository || kind) && html`<a class="button quiet" href="${to.own('events')}">Clear</a>`}
</form>
<div id="events" data-part>${
          events.length === 0
            ? html`<div class="card empty"><h2>No events</h2><p class="soft">${next === undefined ? 'The log has none that you can see.' : 'There are none in this part of the log.'}</p></div>`
            : html`<ol class="card events">${events.map((event) => eventRow(event, to, time))}</ol>`
        }</div>
${next !== undefined && html`<nav class="pager" aria-label="Pages"><a class="button" rel="next" href="?${withBefore(query, next)}">Older events</a></nav>`}`,
      }
    },
  }),
]

function eventRow(event: ShownEvent, to: Links, time: PageTime): Html {
  const sentence = toSentence(event, to)
  return html`<li class="event" id="e${event.seq}"><span class="event-icon ${sentence.tone}">${icon(sentence.icon)}</span>
<p class="grow">${renderSentence(sentence)}</p><span class="soft">${time.age(event.createdAt)}</span></li>`
}

async function readBack({ call, query }: PageContext, from: string) {
  let before: string | undefined = from
  for (let scan = 0; before !== undefined && scan < maxScans; scan++) {
    const { value, headers } = await call('listEvents', {
      query: { ...filtersOf(query), limit: pageSize, before },
    })
    before = /[?&]before=(\d+)/.exec(headers.link ?? '')?.[1]
    // The server's own response, whose schema is that of the operation.
    const events = value as ShownEvent[]
    if (events.length > 0) return { events, next: before }
  }
  return { events: [], next: before }
}

function withBefore(query: URLSearchParams, before: string): string {
  const next = new URLSearchParams(query)
  next.set('before', before)
  return next.toString()
}
