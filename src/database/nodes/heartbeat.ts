import { setTimeout as sleep } from 'node:timers/promises'
import { createPoller } from '#base/concurrency/poller.ts'
import type { Log } from '#base/log.ts'
import { DataDirectoryError } from '#config/data-directory.ts'
import { SettingsError } from '#config/settings.ts'
import type { Database } from '../database.ts'
import {
  findConflict,
  type JoiningNode,
  type OwnNode,
  readTime,
  registerNode,
  releaseNode,
  touchNode,
} from './node-store.ts'
import type { SharedClock } from './shared-clock.ts'

type Dependencies = { db: Database; node: JoiningNode; clock: SharedClock; log: Log }

const intervalMs = 2000
const conflictPauseMs = 500

/**
 * Registers this server under its name, and shows others that it runs until disposed. Throws when another one runs
 * under this name in another data directory, or with another SSH host key.
 */
export async function startHeartbeat({
  db,
  node,
  clock,
  log,
}: Dependencies): Promise<AsyncDisposable> {
  const own = await register(db, node)
  const beating = createPoller({
    intervalMs,
    async run() {
      await clock.set(async () => {
        const time = await touchNode(db, own)
        if (time !== undefined) return time
        log.error(
          { node: own.id },
          'another server has the name of this one; give each its own name',
        )
        return readTime(db)
      })
    },
    onError: (error) => log.warn({ err: error }, 'heartbeat not recorded'),
  })
  return {
    async [Symbol.asyncDispose]() {
      await beating[Symbol.asyncDispose]()
      await releaseNode(db, own).catch((error) => log.warn({ err: error }, 'end not recorded'))
    },
  }
}

/**
 * Registers a server. One that was killed seems to run for some seconds, so another server is in conflict only if it has
 * given a sign since it was first seen here.
 */
async function register(db: Database, node: JoiningNode): Promise<OwnNode> {
  const seen = new Map<string, number>()
  for (;;) {
    const own = await registerNode(db, node)
    const other = await findConflict(db, node)
    if (own && !other) return own
    if (other && (seen.get(other.id) ?? other.seenAt) < other.seenAt) {
      if (own) await releaseNode(db, own)
      throw hasNameOf(node, other) ? nameTaken(node) : otherHostKey(other.id)
    }
    if (other) seen.set(other.id, other.seenAt)
    await sleep(conflictPauseMs)
  }
}

/** Whether a server that runs elsewhere has the name. */
export function hasNameOf(node: JoiningNode, other: Pick<JoiningNode, 'id' | 'place'>): boolean {
  return other.id === node.id && other.place !== node.place
}

function nameTaken({ id }: JoiningNode): Error {
  return new DataDirectoryError(
    `Another server runs with the name of this data directory, ${id}: one is a copy of the other. ` +
      'Start this server with SVC_DATA_DIR set to an empty directory.',
  )
}

function otherHostKey(other: string): Error {
  return new SettingsError(
    `SVC_SSH_HOST_KEY_FILE: the server ${other} runs with another SSH host key. ` +
      'Give all servers the same file; to change the key, stop all of them first.',
  )
}
