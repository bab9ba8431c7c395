import type { Readable } from 'node:stream'
import { eventStreamType } from '../../http/server-sent-events.ts'
import { type Html, html } from '../../render/html.ts'
import { createLogReader, renderSegments, toLines } from '../../render/log-lines.ts'
import { readEventStream } from '../live/read-event-stream.ts'
import { page, RawResponse } from '../page.ts'
import { describeState, stateBadge } from './run-states.ts'

export const runLogPages = [
  page('/r/:name/runs/:number/log', ['getRun', 'getRunLog'], {
    weight: 'git',
    audience: 'members',
    async show({ params, query, to, read, call }) {
      const { name = '', number = '' } = params
      const [attempt, step] = [query.get('attempt') || undefined, query.get('step') || undefined]
      const run = await read('getRun', { params: { id: number }, query: { attempt } })
      const isFollowed = step === undefined && !query.has('plain')
      const { value } = await call('getRunLog', {
        params: { id: number },
        query: { attempt, step, follow: isFollowed },
        ...(isFollowed && { accept: eventStreamType }),
      })
      if (query.has('plain')) return new RawResponse('text/plain; charset=utf-8', value as Readable)
      const steps = run.steps ?? run.result?.steps ?? []
      const shown = steps.find((one) => String(one.number) === step)
      const self = to.of(name, `runs/${run.number}`)
      const plain = new URLSearchParams({
        ...(attempt && { attempt }),
        ...(step && { step }),
        plain: '',
      })
      return {
        title: `Log of run ${run.number} · ${name} · svc`,
        repository: name,
        tab: 'runs',
        crumbs: [
          { text: 'runs', href: to.of(name, 'runs') },
          { text: String(run.number), href: self },
          { text: 'log' },
        ],
        live: '',
        body: html`<div class="page-head"><h1>${shown ? shown.name : 'Log'} <span class="soft light">of ${run.name} ${run.number}</span></h1>
<div class="actions">${stateBadge(shown ?? run)}<a class="button small" href="?${String(plain)}">As text</a></div></div>
${isFollowed && run.status !== 'completed' && html`<p class="soft log-note">This page grows until the run ends.</p>`}
<div class="card"><ol class="log" tabindex="0" aria-label="Log">`,
        more: growing(value as Readable, isFollowed),
      }
    },
  }),
]

/** The lines of a log as they come, and how it ended. */
async function* growing(source: Readable, isFollowed: boolean): AsyncGenerator<Html> {
  const read = createLogReader()
  let number = 1
  const toItems = (text: string) =>
    html`${toLines(text).map((line) => {
      const shown = read(line)
      const content =
        shown.kind === 'end-group'
          ? ''
          : shown.kind === 'group'
            ? html`<b>${renderSegments(shown.segments)}</b>`
            : renderSegments(shown.segments)
      return html`<li id="L${number++}">${content}</li>`
    })}`
  let end = html``
  if (isFollowed) {
    for await (const { event, data } of readEventStream(source)) {
      if (event === 'end') {
        const { conclusion } = JSON.parse(data)
        const { word } = describeState({ status: 'completed', conclusion })
        end = html`<p class="log-note" id="end">${word}.</p>`
      } else if (data !== '') yield toItems(data)
    }
  } else {
    // Pieces need not end with a line.
    let rest = ''
    for await (const chunk of source) {
      const text = rest + String(chunk)
      const lineEnd = text.lastIndexOf('\n') + 1
      rest = text.slice(lineEnd)
      yield toItems(text.slice(0, lineEnd))
    }
    yield toItems(rest)
  }
  yield html`</ol></div>${end}`
}
