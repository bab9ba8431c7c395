import { Readable } from 'node:stream'
import { Problem } from '../base/problem.ts'
import { toServerSentEvent } from '../http/server-sent-events.ts'
import type { EventLog, Seen, Selection } from './event-log.ts'

const eventsAtOnce = 50
const keepAliveMs = 15_000

type Following = {
  selection: Selection
  /** The number after which to begin. */
  after: number
  signal: AbortSignal
}

/**
 * The events after a number, and those to come, as server-sent events. Nothing is read that the client does not take,
 * and of what it does not take one piece is kept at most. What forbids it is thrown before the stream begins; when the
 * caller's right ends later, so does the stream.
 */
export async function streamEvents(
  eventLog: EventLog,
  { selection, after, signal }: Following,
): Promise<Readable> {
  const pace = { limit: eventsAtOnce, idleMs: keepAliveMs }
  const following = eventLog.follow({ selection, after, ...pace, signal })
  const first = await following.next()
  // A client that is cut off before there was any event goes on from here, and misses none.
  let begun = `: the events follow\n${toServerSentEvent({ id: after })}`
  if (first && first.events.length > 0) begun += toText(first)

  async function read(): Promise<string | null> {
    const text = begun
    begun = ''
    if (text !== '') return text
    const seen = await following.next()
    return seen ? toText(seen) : null
  }

  return new Readable({
    // What is read is pushed to who has asked for it, and never beforehand.
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

function toText({ events, upTo }: Seen): string {
  // Keeps proxies from taking silence for an end, and clients from looking at the same again.
  if (events.length === 0) return `: nothing new\n${toServerSentEvent({ id: upTo })}`
  const sent = events.map((event) =>
    toServerSentEvent({ id: event.seq, event: event.kind, data: JSON.stringify(event) }),
  )
  return sent.join('')
}
