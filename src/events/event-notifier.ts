import { createNotifier } from '#base/concurrency/notifier.ts'
import { createPoller } from '#base/concurrency/poller.ts'
import type { Nodes } from '#database/nodes/nodes.ts'
import type { Db } from '#database/schema.ts'
import { readLastSeq } from './event-store.ts'

/**
 * Notifies listeners of new events as soon as this node commits them or another node announces them. Events published
 * by commands are noticed only by polling, as `until` does.
 */
export type EventNotifier = {
  /** Called after each commit, which may have published events. */
  committed: () => void
  /** Calls a function when there are new events, until disposed. */
  onEvents: (listener: () => void) => Disposable
  /** Waits as `Notifier.until` does, polling at each new event. */
  until: <T>(
    options: { deadline: number; signal: AbortSignal },
    poll: () => Promise<T | undefined>,
  ) => Promise<T | undefined>
}

type Dependencies = { db: Db; nodes: Pick<Nodes, 'send' | 'onMessage'> }

const name = 'events'
const prefix = 'events:'

export function createEventNotifier({ db, nodes }: Dependencies): EventNotifier {
  const changes = createNotifier()
  let lastSeq = 0
  /** The sequence number of the newest event that a message between nodes announced. */
  let announcedSeq = 0
  const reader = createPoller({
    intervalMs: undefined,
    run: readLast,
    // The next commit notifies again, and waiters poll.
    onError() {},
  })

  async function readLast(): Promise<void> {
    const last = await readLastSeq(db)
    if (last <= lastSeq) return
    lastSeq = last
    changes.notify(name)
    if (last <= announcedSeq) return
    announcedSeq = last
    nodes.send(`${prefix}${last}`)
  }

  nodes.onMessage((message) => {
    if (!message.startsWith(prefix)) return
    announcedSeq = Math.max(announcedSeq, Number(message.slice(prefix.length)) || 0)
    reader.wake()
  })

  return {
    committed: reader.wake,
    onEvents: (listener) => changes.onChange(name, listener),
    until: (options, poll) => changes.until(name, options, poll),
  }
}
