import { Readable } from 'node:stream'
import { eventStreamType } from '#http/server-sent-events.ts'
import { toSentence } from '../event-sentences.ts'
import { type PageContext, page, RawResponse } from '../page.ts'
import type { OperationValues } from '../read-operations.ts'
import { createLogLineReader, type LogLine, outputLines } from '../render/log-lines.ts'
import { keepAlive, readEventStream, toPageEvent } from './read-event-stream.ts'

const headers = { 'cache-control': 'no-store', 'x-accel-buffering': 'no' }

/** Streams of server-sent events for the script of the pages: the streams of the API, with what a page shows. */
export const livePages = [
  page('/-/events/stream', ['listEvents'], {
    weight: 'light',
    audience: 'members',
    async show(context) {
      const { query, call, lastEventId } = context
      const after = lastEventId ?? query.get('after') ?? 'latest'
      const { value } = await call('listEvents', {
        query: { ...filtersOf(query), after, follow: true },
      })
      return toStream(eventsOf(value as Readable, context), value as Readable)
    },
  }),
  page('/r/:name/runs/:number/live', ['getRunLog'], {
    weight: 'light',
    audience: 'members',
    async show({ query, params, call, lastEventId }) {
      const offset = lastEventId ?? query.get('after') ?? '0'
      const { value } = await call('getRunLog', {
        params: { id: params.number ?? '' },
        query: { offset, follow: true, states: true },
      })
      return toStream(outputOf(value as Readable), value as Readable)
    },
  }),
]

/** The filters of a list of events that are set. */
export function filtersOf(query: URLSearchParams) {
  return {
    repository: query.get('repository') || undefined,
    kind: query.get('kind') || undefined,
  }
}

function toStream(events: AsyncIterable<string>, source: Readable): RawResponse {
  const stream = Readable.from(events)
  stream.once('close', () => source.destroy())
  return new RawResponse(eventStreamType, stream, headers)
}

type LoggedEvent = OperationValues['listEvents'][number]

async function* eventsOf(source: Readable, { to }: PageContext) {
  for await (const { id, event, data } of readEventStream(source)) {
    // An id alone: from here the browser goes on after it was disconnected.
    if (data === '') yield id === '' ? keepAlive : toPageEvent('at', id, {})
    else {
      // The server's own event.
      const logged = JSON.parse(data) as LoggedEvent
      yield toPageEvent(event === 'push' ? 'push' : 'other', id, toSentence(logged, to).parts)
    }
  }
}

async function* outputOf(source: Readable) {
  const readers = new Map<number, (line: string) => LogLine>()
  for await (const { id, event, data } of readEventStream(source)) {
    if (data === '') yield keepAlive
    else if (event !== 'output') yield toPageEvent(event, id, {})
    else {
      const { step, text } = JSON.parse(data) as { step: number | null; text: string }
      // Headings, which the page has as such.
      if (step === null) {
        yield toPageEvent('at', id, {})
        continue
      }
      const read = readers.get(step) ?? createLogLineReader()
      readers.set(step, read)
      const lines = outputLines(text).map((line) => segmentsOf(read(line)))
      yield toPageEvent('output', id, { step, lines })
    }
  }
}

function segmentsOf(line: LogLine) {
  if (line.kind === 'end-group') return []
  return line.kind === 'group'
    ? line.segments.map(([, text]) => ['ansi-bold', text])
    : line.segments
}
