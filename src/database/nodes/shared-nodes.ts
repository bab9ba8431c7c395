import { readFile, stat } from 'node:fs/promises'
import type { Log } from '#base/log.ts'
import type { Settings } from '#config/settings.ts'
import type { Database } from '../database.ts'
import { startHeartbeat } from './heartbeat.ts'
import { readNodeName } from './node-name.ts'
import { type JoiningNode, listNodes, readTime } from './node-store.ts'
import type { Nodes } from './nodes.ts'
import { createNotifications } from './notifications.ts'
import { createSharedClock } from './shared-clock.ts'

type Options = {
  db: Database
  settings: Settings
  /** The address of the database. */
  url: string
  /** Reads the fingerprint of the SSH host key; empty without SSH. */
  readHostKey: (settings: Settings) => Promise<string>
  log: Log
}

/** The nodes of a shared store. */
export async function openSharedNodes(options: Options): Promise<Nodes> {
  const { db, settings, url, readHostKey, log } = options
  const { dataDir } = settings
  const own = await readNodeName(dataDir)
  const clock = createSharedClock(log)
  await clock.set(() => readTime(db))
  const notifications = createNotifications({ url, db, own, log })
  return {
    own,
    clock,

    async start() {
      await using starting = new AsyncDisposableStack()
      const node = await describeNode(dataDir, await readHostKey(settings))
      starting.use(await startHeartbeat({ db, node, clock, log }))
      starting.use(notifications.listen())
      return starting.move()
    },

    isRunning: async (name) => name === own || (await listNodes(db)).includes(name),
    send: notifications.send,
    onMessage: notifications.onMessage,
  }
}

/** What a server on a data directory, with the fingerprint of its SSH host key, shows of itself. */
export async function describeNode(dataDir: string, hostKey: string): Promise<JoiningNode> {
  const [id, place] = await Promise.all([readNodeName(dataDir), placeOf(dataDir)])
  return { id, place, hostKey }
}

/** Identifies a directory until the machine boots again; a copy of the directory has another place. */
async function placeOf(dataDir: string): Promise<string> {
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
  const { dev, ino } = await stat(dataDir, { bigint: true })
  return [boot.trim(), dev, ino].join(':')
}
