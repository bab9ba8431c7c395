import type { Log } from '../base/log.ts'
import type { Database } from '../database/database.ts'
import { lostAfterMs, startHeartbeat } from './heartbeat.ts'
import { readNodeName } from './node-name.ts'
import { listNodes, readTime } from './node-store.ts'
import type { Nodes } from './nodes.ts'
import { createNotifications } from './notifications.ts'
import { createSharedClock } from './shared-clock.ts'

type Options = { db: Database; dataDir: string; databaseUrl: string; log: Log }

/** The nodes of a shared store. */
export async function openSharedNodes({ db, dataDir, databaseUrl, log }: Options): Promise<Nodes> {
  const own = await readNodeName(dataDir)
  const clock = createSharedClock(log)
  await clock.set(() => readTime(db))
  const notifications = createNotifications({ url: databaseUrl, db, own, log })
  return {
    own,
    clock,

    async start() {
      await using starting = new AsyncDisposableStack()
      starting.use(await startHeartbeat({ db, node: own, clock, log }))
      starting.use(notifications.listen())
      return starting.move()
    },

    isRunning: async (name) => name === own || (await listNodes(db, lostAfterMs)).includes(name),
    send: notifications.send,
    onMessage: notifications.onMessage,
  }
}
