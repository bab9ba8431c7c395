import type { Clock } from '#base/clock.ts'
import type { Log } from '#base/log.ts'

/**
 * The clock of the nodes of a database: that of PostgreSQL. The own clock of a node shows how much time has passed since
 * it was set, so leases and due times mean the same on all nodes.
 */
export type SharedClock = Clock & {
  /** Reads PostgreSQL's time by a query, and sets the clock by it. */
  set: (read: () => Promise<number>) => Promise<void>
}

// Below this the clock stays as it is: a query takes time, too.
const toleranceMs = 1000

export function createSharedClock(log: Log): SharedClock {
  let aheadMs = 0
  return {
    now: () => Date.now() + aheadMs,

    async set(read) {
      const startedAt = performance.now()
      const time = await read()
      const tookMs = performance.now() - startedAt
      const offMs = Math.round(time + tookMs / 2 - (Date.now() + aheadMs))
      if (Math.abs(offMs) <= toleranceMs + tookMs / 2) return
      aheadMs += offMs
      log.warn({ differenceMs: aheadMs }, 'the clocks of this machine and of PostgreSQL differ')
    },
  }
}
