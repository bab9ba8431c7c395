import type { Notifier } from '../concurrency/notifier.ts'
import { createPoller } from '../concurrency/poller.ts'
import type { Db } from '../database/schema.ts'
import { readLastSeq } from './event-store.ts'

/**
 * Notifies listeners of new events as soon as this process commits them. Events of other processes are found only by
 * polling, as `until` does.
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

const name = 'events'

export function createEventNotifier({
  db,
  changes,
}: {
  db: () => Db
  changes: Notifier
}): EventNotifier {
  let known = 0
  const reader = createPoller({
    intervalMs: undefined,
    run: readLast,
    // The next commit notifies again, and waiters poll.
    onError() {},
  })

  async function readLast(): Promise<void> {
    const last = await readLastSeq(db())
    if (last <= known) return
    known = last
    changes.notify(name)
  }

  return {
    committed: reader.wake,
    onEvents: (listener) => changes.onChange(name, listener),
    until: <T>(
      options: { deadline: number; signal: AbortSignal },
      poll: () => Promise<T | undefined>,
    ) => changes.until(name, options, poll),
  }
}
