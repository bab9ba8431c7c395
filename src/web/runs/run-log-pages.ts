import type { Readable } from 'node:stream'
import { counted } from '../display-text.ts'
import { readEventStream } from '../live/read-event-stream.ts'
import { page, RawResponse } from '../page.ts'
import { lineOf } from '../page-query.ts'
import { type Html, html } from '../render/html.ts'
import {
  createLogLineReader,
  type LogLine,
  outputLines,
  renderSegments,
} from '../render/log-lines.ts'
import { describeState, type ShownRun, stateBadge } from '../run-states.ts'

/** The most lines of a page, and their characters. */
const maxLines = 2000
const maxLength = 256 * 1024

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
      const search = (added: Record<string, string>) =>
        `?${new URLSearchParams({ ...(attempt && { attempt }), ...(step && { step }), ...added })}`
      const isRunning = isFollowed && run.status !== 'completed'
      const isEnd = query.get('at') === 'end' || (isRunning && !query.get('at'))
      const at = isEnd ? undefined : (lineOf(query, 'at') ?? 1)
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
<div class="actions">${stateBadge(shown ?? run)}<a class="button small" href="${search({ plain: '' })}">As text</a></div></div>
${isRunning && html`<p class="soft log-note">This page grows until the run ends.</p>`}
<div class="card">`,
        more: logPage(value as Readable, {
          isFollowed,
          at,
          offset: isRunning ? (run.logBytes ?? 0) : Number.POSITIVE_INFINITY,
          pageAt: (line) => search({ at: String(line) }),
        }),
      }
    },
  }),
]

type Reading = {
  isFollowed: boolean
  /** The number of the line whose page is shown; without it the last one, as of an offset in the log. */
  at: number | undefined
  offset: number
  /** The address of the page with a line. */
  pageAt: (line: number | 'end') => string
}

/** The lines of one page of a log as they come, and how the log ended. */
async function* logPage(
  source: Readable,
  { isFollowed, at, offset, pageAt }: Reading,
): AsyncGenerator<Html> {
  const toLine = createLineReader()
  let [first, count, length] = [1, 0, 0]
  let pending: Html[] = []
  let isShown = false

  /** What was not sent yet. */
  function flush(): Html {
    const head =
      !isShown &&
      html`<ol class="log" start="${first}" tabindex="0" aria-label="Log" data-all="${pageAt(first)}">`
    const earlier =
      !isShown &&
      first > 1 &&
      html`<p class="log-note">${counted(first - 1, 'earlier line is', 'earlier lines are')} on <a href="${pageAt(first - 1)}">the page before</a>.</p>`
    const lines = html`${earlier}${head}${pending}`
    isShown = true
    pending = []
    return lines
  }

  let end: Html | undefined
  for await (const part of isFollowed ? outputsOf(source) : linesOf(source)) {
    for (const line of part.lines) {
      if (count > 0 && (count === maxLines || length + line.length > maxLength)) {
        if (isShown || (at !== undefined && at < first + count)) {
          yield html`${flush()}</ol></div>
<nav class="pager" aria-label="Pages"><a class="button" rel="next" href="${pageAt(first + count)}">Later lines</a><a class="button" href="${pageAt('end')}">Last lines</a></nav>`
          return
        }
        ;[first, count, length, pending] = [first + count, 0, 0, []]
      }
      pending.push(toLine(part, line, first + count))
      count += 1
      length += line.length
    }
    end = part.end
    const isReached = at === undefined ? part.offset >= offset : at < first + count
    if (isShown || isReached) yield flush()
  }
  yield html`${flush()}</ol></div>${end}`
}

/** Creates a function that renders lines in order, each step with its own colours. */
function createLineReader() {
  const readers = new Map<number, (line: string) => LogLine>()
  return ({ step, prefix }: LogPart, line: string, number: number): Html => {
    const read = readers.get(step ?? -1) ?? createLogLineReader()
    // Lines between steps are of the server, and have no colours that go on.
    if (step !== null) readers.set(step, read)
    const content = contentOf(read(line))
    return html`<li id="L${number}">${prefix !== '' && html`<span class="soft">${prefix}</span>`}${step === null ? html`<b>${content}</b>` : content}</li>`
  }
}

type LogPart = {
  step: number | null
  prefix: string
  lines: string[]
  /** The offset in the log after it. */
  offset: number
  /** How the log ended, once it has. */
  end?: Html
}

/** The parts of a log that is followed. */
async function* outputsOf(source: Readable): AsyncGenerator<LogPart> {
  let offset = 0
  for await (const { id, event, data } of readEventStream(source)) {
    offset = Number(id || offset)
    // The server's own events.
    if (event === 'output') {
      const { step, prefix, text } = JSON.parse(data) as Omit<LogPart, 'lines'> & { text: string }
      yield { step, prefix, lines: outputLines(text), offset }
    }
    if (event !== 'end') continue
    const { conclusion } = JSON.parse(data) as Pick<ShownRun, 'conclusion'>
    const { word } = describeState({ status: 'completed', conclusion })
    const end = html`<p class="log-note" id="end">${word}.</p>`
    yield { step: null, prefix: '', lines: [], offset, end }
  }
}

/** The parts of the output of a step, whose pieces need not end with a line. */
async function* linesOf(source: Readable): AsyncGenerator<LogPart> {
  const toPart = (text: string) => ({ step: 0, prefix: '', lines: outputLines(text), offset: 0 })
  let rest = ''
  for await (const chunk of source) {
    const text = rest + String(chunk)
    const lineEnd = text.lastIndexOf('\n') + 1
    rest = text.slice(lineEnd)
    yield toPart(text.slice(0, lineEnd))
  }
  yield toPart(rest)
}

function contentOf(line: LogLine): Html | string {
  if (line.kind === 'end-group') return ''
  const content = renderSegments(line.segments)
  return line.kind === 'group' ? html`<b>${content}</b>` : content
}
