import type { Log } from '../base/log.ts'
import { createPoller } from '../concurrency/poller.ts'
import type { Database } from '../database/database.ts'
import { readTime, registerNode, touchNode } from './node-store.ts'
import type { SharedClock } from './shared-clock.ts'

type Dependencies = { db: Database; node: string; clock: SharedClock; log: Log }

const intervalMs = 2000
/** After this time without a sign of it, others take over the work of a server. */
export const lostAfterMs = 10_000

/** Registers this server under its name, and shows others that it runs until disposed of. */
export async function startHeartbeat({
  db,
  node,
  clock,
  log,
}: Dependencies): Promise<AsyncDisposable> {
  const own = await registerNode(db, node)
  return createPoller({
    intervalMs,
    async run() {
      await clock.set(async () => {
        const time = await touchNode(db, own)
        if (time !== undefined) return time
        log.error({ node }, 'another server has the name of this one; give each its own name')
        return readTime(db)
      })
    },
    onError: (error) => log.warn({ err: error }, 'heartbeat not recorded'),
  })
}
