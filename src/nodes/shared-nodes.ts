import { readFile, stat } from 'node:fs/promises'
import type { Log } from '../base/log.ts'
import type { Settings } from '../config/settings.ts'
import type { Database } from '../database/database.ts'
import { findHostKey } from '../ssh/host-key.ts'
import { fingerprintOf } from '../ssh/public-key.ts'
import { startHeartbeat } from './heartbeat.ts'
import { readNodeName } from './node-name.ts'
import { type JoiningNode, listNodes, readTime } from './node-store.ts'
import type { Nodes } from './nodes.ts'
import { createNotifications } from './notifications.ts'
import { createSharedClock } from './shared-clock.ts'

type NodeSettings = Pick<Settings, 'dataDir' | 'sshPort' | 'sshHostKeyFile'>
type Options = { db: Database; settings: NodeSettings; databaseUrl: string; log: Log }

/** The nodes of a shared store. */
export async function openSharedNodes({ db, settings, databaseUrl, log }: Options): Promise<Nodes> {
  const own = await readNodeName(settings.dataDir)
  const clock = createSharedClock(log)
  await clock.set(() => readTime(db))
  const notifications = createNotifications({ url: databaseUrl, db, own, log })
  return {
    own,
    clock,

    async start() {
      await using starting = new AsyncDisposableStack()
      const node = await describeNode(settings)
      starting.use(await startHeartbeat({ db, node, clock, log }))
      starting.use(notifications.listen())
      return starting.move()
    },

    isRunning: async (name) => name === own || (await listNodes(db)).includes(name),
    send: notifications.send,
    onMessage: notifications.onMessage,
  }
}

/** What a server on a data directory shows of itself. */
export async function describeNode(settings: NodeSettings): Promise<JoiningNode> {
  const [id, place, hostKey] = await Promise.all([
    readNodeName(settings.dataDir),
    placeOf(settings.dataDir),
    hostKeyOf(settings),
  ])
  return { id, place, hostKey }
}

/** Identifies a directory on a machine that runs: a copy of the directory is elsewhere. */
async function placeOf(dataDir: string): Promise<string> {
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
  const { dev, ino } = await stat(dataDir, { bigint: true })
  return [boot.trim(), dev, ino].join(':')
}

/** The fingerprint of the SSH host key; empty without SSH. */
async function hostKeyOf({ sshPort, sshHostKeyFile: file }: NodeSettings): Promise<string> {
  const key = sshPort === 'off' || file === undefined ? undefined : await findHostKey(file)
  return key ? fingerprintOf(key.getPublicSSH()) : ''
}
