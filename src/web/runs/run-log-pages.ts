import type { Readable } from 'node:stream'
import { type Html, html } from '../../render/html.ts'
import {
  createLogReader,
  type LogLine,
  outputLines,
  renderSegments,
} from '../../render/log-lines.ts'
import { readEventStream } from '../live/read-event-stream.ts'
import { page, RawResponse } from '../page.ts'
import { describeState, type ShownRun, stateBadge } from './run-states.ts'

export const runLogPages = [
  page('/r/:name/runs/:number/log', ['getRun', 'getRunLog'], {
    weight: 'git',
    audience: 'members',
    styles: 'runs',
    async show({ params, query, to, read, call }) {
      const { name = '', number = '' } = params
      const [attempt, step] = [query.get('attempt') || undefined, query.get('step') || undefined]
      const run = await read('getRun', { params: { id: number }, query: { attempt } })
      const isFollowed = step === undefined && !query.has('plain')
      const { value } = await call('getRunLog', {
        params: { id: number },
        query: { attempt, step, follow: isFollowed, states: isFollowed },
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
  const readers = new Map<number, (line: string) => LogLine>()
  let number = 1

  function toItems({ step, prefix, text }: Output): Html {
    const read = readers.get(step ?? -1) ?? createLogReader()
    // Lines between steps are of the server, and have no colours that go on.
    if (step !== null) readers.set(step, read)
    return html`${outputLines(text).map((line) => {
      const content = contentOf(read(line))
      return html`<li id="L${number++}">${prefix !== '' && html`<span class="soft">${prefix}</span>`}${step === null ? html`<b>${content}</b>` : content}</li>`
    })}`
  }

  let end = html``
  if (isFollowed) {
    for await (const { event, data } of readEventStream(source)) {
      // The server's own events.
      if (event === 'output') yield toItems(JSON.parse(data) as Output)
      if (event !== 'end') continue
      const { conclusion } = JSON.parse(data) as Pick<ShownRun, 'conclusion'>
      const { word } = describeState({ status: 'completed', conclusion })
      end = html`<p class="log-note" id="end">${word}.</p>`
    }
  } else {
    // Pieces need not end with a line.
    let rest = ''
    for await (const chunk of source) {
      const text = rest + String(chunk)
      const lineEnd = text.lastIndexOf('\n') + 1
      rest = text.slice(lineEnd)
      yield toItems({ step: 0, prefix: '', text: text.slice(0, lineEnd) })
    }
    yield toItems({ step: 0, prefix: '', text: rest })
  }
  yield html`</ol></div>${end}`
}

type Output = { step: number | null; prefix: string; text: string }

function contentOf(line: LogLine): Html | string {
  if (line.kind === 'end-group') return ''
  const content = renderSegments(line.segments)
  return line.kind === 'group' ? html`<b>${content}</b>` : content
}
