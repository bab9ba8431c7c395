import type { Notifier } from '../concurrency/notifier.ts'
import { createPoller } from '../concurrency/poller.ts'
import type { Db } from '../database/schema.ts'

export type EventNotifier = ReturnType<typeof createEventNotifier>

const name = 'events'

/**
 * Notifies listeners of new events as soon as this process commits them. Events of other processes are found only by
 * polling, as `until` does.
 */
export function createEventNotifier({ db, changes }: { db: () => Db; changes: Notifier }) {
  let known = 0
  const reader = createPoller({
    intervalMs: undefined,
    run: readLast,
    // The next commit notifies again, and waiters poll.
    onError() {},
  })

  async function readLast(): Promise<void> {
    const row = await db()
      .selectFrom('marks')
      .select('value')
      .where('name', '=', 'events')
      .executeTakeFirst()
    if (!row || row.value <= known) return
    known = row.value
    changes.notify(name)
  }

  return {
    /** Called after each commit, which may have published events. */
    committed: reader.wake,
    /** Calls a function when there are new events, until disposed. */
    onEvents: (listener: () => void) => changes.onChange(name, listener),
    /** Waits as `Notifier.until` does, polling at each new event. */
    until: <T>(
      options: { deadline: number; signal: AbortSignal },
      poll: () => Promise<T | undefined>,
    ) => changes.until(name, options, poll),
  }
}
