import type { Log } from '../base/log.ts'
import { createPoller } from '../concurrency/poller.ts'
import type { Database } from '../database/database.ts'
import { registerNode, touchNode } from './node-store.ts'

type Dependencies = { db: Database; node: string; log: Log }

const intervalMs = 2000
/** After this time without a sign of it, others take over the work of a server. */
export const lostAfterMs = 10_000

/** Registers this server under its name, and shows others that it runs until disposed of. */
export async function startHeartbeat({ db, node, log }: Dependencies): Promise<AsyncDisposable> {
  const own = await registerNode(db, node)
  return createPoller({
    intervalMs,
    async run() {
      if (await touchNode(db, own)) return
      log.error({ node }, 'another server has the name of this one; give each its own name')
    },
    onError: (error) => log.warn({ err: error }, 'heartbeat not recorded'),
  })
}
