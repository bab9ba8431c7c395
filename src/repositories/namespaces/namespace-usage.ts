import { type Clock, dayMs } from '#base/clock.ts'
import { createPoller } from '#base/concurrency/poller.ts'
import type { Log } from '#base/log.ts'
import type { Database } from '#database/database.ts'
import type { Subscriber } from '#events/events.ts'
import { measureNamespace, type NamespaceUse } from '../namespace-limit-store.ts'
import {
  addToDay,
  type DayCounts,
  deleteDaysBefore,
  findNamespacesOf,
  listDays,
} from '../namespace-usage-store.ts'
import { lockScope } from '../scope-store.ts'
import type { Namespace } from './namespaces.ts'

/**
 * The usage of namespaces by day. Each server counts in memory, and adds its counts to the rows of all servers every few
 * seconds and when it stops; a killed one loses the last of them.
 */
export type NamespaceUsage = {
  /** Counts what happened in a repository; without effect if that is in no namespace. */
  add: (repositoryId: string, counts: Partial<DayCounts>) => void
  /** Counts pushes and runs by their events. */
  countEvents: Subscriber
  /** What a namespace takes now, and its days in a period of milliseconds since the epoch, newest first. */
  read: (namespace: Namespace, period: Period) => Promise<NamespaceUse & { days: NamespaceDay[] }>
  /** Counts since the start, by the names of namespaces. */
  total: (field: keyof DayCounts) => Record<string, number>
  /** Writes the counts from now on, until disposed. */
  start: (log: Log) => AsyncDisposable
  /** Deletes days that are older than the retention period. */
  prune: () => Promise<void>
}

type Period = { since?: number | undefined; until?: number | undefined }

type NamespaceDay = DayCounts & { day: string }

type Dependencies = { db: Database; clock: Clock }

const writeIntervalMs = 5000
const retentionMs = 400 * dayMs
const shownMs = 30 * dayMs
const none: DayCounts = { pushes: 0, fetches: 0, receivedBytes: 0, sentBytes: 0, runMs: 0 }

export function createNamespaceUsage({ db, clock }: Dependencies): NamespaceUsage {
  /** What is not written yet, by day and the id of the repository. */
  let unwritten = new Map<string, DayCounts>()
  /** What events it has counted: a transaction that failed publishes them again. */
  let counted = new Set<string>()
  const totals = new Map<string, { name: string; counts: DayCounts }>()

  function add(repositoryId: string, counts: Partial<DayCounts>): void {
    const key = `${toDay(clock.now())} ${repositoryId}`
    unwritten.set(key, sumOf(unwritten.get(key), counts))
  }

  function addOnce(event: string, repositoryId: string, counts: Partial<DayCounts>): void {
    if (counted.has(event)) return
    counted.add(event)
    add(repositoryId, counts)
  }

  async function write(): Promise<void> {
    if (unwritten.size === 0) return
    const [taken, takenEvents] = [unwritten, counted]
    unwritten = new Map()
    counted = new Set()
    try {
      await writeCounts(taken)
    } catch (error) {
      for (const [key, counts] of taken) unwritten.set(key, sumOf(unwritten.get(key), counts))
      counted = counted.union(takenEvents)
      throw error
    }
  }

  async function writeCounts(taken: ReadonlyMap<string, DayCounts>): Promise<void> {
    const entries = [...taken].map(([key, counts]) => {
      const [day = '', repositoryId = ''] = key.split(' ')
      return { day, repositoryId, counts }
    })
    const ids = new Set(entries.map(({ repositoryId }) => repositoryId))
    const namespaces = await findNamespacesOf(db, [...ids])
    const rows = new Map<string, { namespaceId: string; day: string; counts: DayCounts }>()
    for (const { day, repositoryId, counts } of entries) {
      const namespaceId = namespaces.get(repositoryId)?.id
      if (namespaceId === undefined) continue
      const key = `${namespaceId} ${day}`
      rows.set(key, { namespaceId, day, counts: sumOf(rows.get(key)?.counts, counts) })
    }
    if (rows.size === 0) return
    await db.transaction().execute(async (tx) => {
      // In one order, so that servers do not wait for each other in a circle.
      for (const key of [...rows.keys()].sort()) {
        const { counts, ...row } = rows.get(key) ?? { namespaceId: '', day: '', counts: none }
        // Not to one that was deleted meanwhile.
        if (await lockScope(tx, { kind: 'namespace', id: row.namespaceId }))
          await addToDay(tx, { ...row, ...counts })
      }
    })
    const names = new Map([...namespaces.values()].map(({ id, name }) => [id, name]))
    for (const { namespaceId, counts } of rows.values()) {
      const name = names.get(namespaceId) ?? ''
      totals.set(namespaceId, { name, counts: sumOf(totals.get(namespaceId)?.counts, counts) })
    }
  }

  return {
    add,

    async countEvents(_tx, _now, events) {
      for (const { kind, repositoryId, data } of events) {
        if (repositoryId === null) continue
        // A push has one event per ref.
        if (kind === 'push') addOnce(data.pushId, repositoryId, { pushes: 1 })
        if (kind === 'workflow' && data.startedAt !== null && data.completedAt !== null) {
          const runMs = Math.max(0, data.completedAt - data.startedAt)
          addOnce(`${data.runId} ${data.attempt}`, repositoryId, { runMs })
        }
      }
    },

    async read({ id }, { since = clock.now() - shownMs, until = clock.now() }) {
      // So that it includes what this server has counted.
      await write()
      const [use, days] = await Promise.all([
        measureNamespace(db, id),
        listDays(db, id, { from: toDay(since), to: toDay(until) }),
      ])
      return { ...use, days: days.map(({ namespaceId, ...day }) => day) }
    },

    total: (field) =>
      Object.fromEntries([...totals.values()].map(({ name, counts }) => [name, counts[field]])),

    start(log) {
      const onError = (error: unknown) => log.warn({ err: error }, 'usage not written; retrying')
      const writing = createPoller({ intervalMs: writeIntervalMs, run: write, onError })
      return {
        async [Symbol.asyncDispose]() {
          await writing[Symbol.asyncDispose]()
          await write().catch(onError)
        },
      }
    },

    prune: () => deleteDaysBefore(db, toDay(clock.now() - retentionMs)),
  }
}

function sumOf(counts: DayCounts | undefined, more: Partial<DayCounts>): DayCounts {
  const sum = { ...(counts ?? none) }
  for (const field of Object.keys(none) as (keyof DayCounts)[]) sum[field] += more[field] ?? 0
  return sum
}

/** The day of a time, in UTC. */
function toDay(milliseconds: number): string {
  return new Date(milliseconds).toISOString().slice(0, 10)
}
