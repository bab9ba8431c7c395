import { Readable } from 'node:stream'
import { Problem } from '#base/problem.ts'
import { toServerSentEvent } from '#http/server-sent-events.ts'
import type { EventBatch, EventLog, Selection } from './event-log.ts'

const batchSize = 50
const keepAliveMs = 15_000

type StreamOptions = {
  selection: Selection
  /** The sequence number after which to start. */
  after: number
  signal: AbortSignal
}

/**
 * Streams the events after a sequence number, and new ones, as server-sent events. Reads no faster than the client, and
 * buffers at most one batch. Throws Problems before the stream starts; the stream ends when the caller loses access.
 */
export async function streamEvents(
  eventLog: EventLog,
  { selection, after, signal }: StreamOptions,
): Promise<Readable> {
  const pace = { limit: batchSize, idleMs: keepAliveMs }
  const follower = eventLog.follow({ selection, after, ...pace, signal })
  const first = await follower.next()
  // A client that is disconnected before the first event resumes from this id, and misses none.
  let opening = `: the events follow\n${toServerSentEvent({ id: after })}`
  if (first && first.events.length > 0) opening += toText(first)

  async function read(): Promise<string | null> {
    const text = opening
    opening = ''
    if (text !== '') return text
    const batch = await follower.next()
    return batch ? toText(batch) : null
  }

  return new Readable({
    // Nothing is read ahead of the consumer.
    highWaterMark: 0,
    read() {
      read().then(
        (text) => this.push(text),
        (error) => {
          if (!(error instanceof Problem)) return this.destroy(error)
          this.push(`: ${error.message}\n\n`)
          return this.push(null)
        },
      )
    },
  })
}

function toText({ events, upTo }: EventBatch): string {
  // Keeps proxies from closing an idle connection, and lets clients resume from here.
  if (events.length === 0) return `: nothing new\n${toServerSentEvent({ id: upTo })}`
  return events
    .map((event) =>
      toServerSentEvent({ id: event.seq, event: event.kind, data: JSON.stringify(event) }),
    )
    .join('')
}
