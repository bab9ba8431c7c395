import type { Notifier } from '../concurrency/notifier.ts'
import type { Db } from '../database/schema.ts'

export type EventNotifier = ReturnType<typeof createEventNotifier>

const name = 'events'

/**
 * Tells whoever waits in this process that there are new events, as soon as they are committed. Those that another
 * process publishes are seen by who looks again from time to time, as `until` does.
 */
export function createEventNotifier({ db, changes }: { db: () => Db; changes: Notifier }) {
  let known = 0
  let looking: Promise<void> | undefined
  let isAskedAgain = false

  async function look(): Promise<void> {
    const row = await db()
      .selectFrom('marks')
      .select('value')
      .where('name', '=', 'events')
      .executeTakeFirst()
    if (!row || row.value <= known) return
    known = row.value
    changes.notify(name)
  }

  /** A transaction has committed; it may have published something. */
  function committed(): void {
    isAskedAgain = looking !== undefined
    // Whoever cannot look now is told by the next commit, or looks by himself.
    looking ??= look()
      .catch(() => undefined)
      .finally(() => {
        looking = undefined
        if (isAskedAgain) committed()
      })
  }

  return {
    committed,
    /** Calls a function whenever there are new events, until it is disposed of. */
    onEvents: (listener: () => void) => changes.onChange(name, listener),
    /** Waits as `Changes.until` does, looking at each new event. */
    until: <T>(
      options: { deadline: number; signal: AbortSignal },
      look: () => Promise<T | undefined>,
    ) => changes.until(name, options, look),
  }
}
