import type { Notifier } from '../concurrency/notifier.ts'
import type { Db } from '../database/schema.ts'

export type EventNotifier = ReturnType<typeof createEventNotifier>

const name = 'events'

/**
 * Notifies listeners of new events as soon as this process commits them. Events of other processes are found only by
 * polling, as `until` does.
 */
export function createEventNotifier({ db, changes }: { db: () => Db; changes: Notifier }) {
  let known = 0
  let polling: Promise<void> | undefined
  let isPollPending = false

  async function poll(): Promise<void> {
    const row = await db()
      .selectFrom('marks')
      .select('value')
      .where('name', '=', 'events')
      .executeTakeFirst()
    if (!row || row.value <= known) return
    known = row.value
    changes.notify(name)
  }

  /** Called after each commit, which may have published events. */
  function committed(): void {
    isPollPending = polling !== undefined
    // An error is ignored: the next commit notifies again, and waiters poll.
    polling ??= poll()
      .catch(() => undefined)
      .finally(() => {
        polling = undefined
        if (isPollPending) committed()
      })
  }

  return {
    committed,
    /** Calls a function when there are new events, until disposed. */
    onEvents: (listener: () => void) => changes.onChange(name, listener),
    /** Waits as `Notifier.until` does, polling at each new event. */
    until: <T>(
      options: { deadline: number; signal: AbortSignal },
      poll: () => Promise<T | undefined>,
    ) => changes.until(name, options, poll),
  }
}
