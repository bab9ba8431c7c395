import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { localPrincipal } from '#access/principal.ts'
import { dayMs } from '#base/clock.ts'
import type { Database } from '#database/database.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { createPublish, type Event } from '../events.ts'
import { createAuditLog } from './audit-log.ts'
import { recordActions, recordEvents } from './record.ts'
import { pruneAudit } from './retention.ts'

const publish = createPublish([recordEvents])
const actor = {
  id: 'key',
  username: 'ada',
  origin: { via: 'ssh', address: '192.0.2.7' },
} as const

function saved(name: string): Event {
  return { kind: 'secret.saved', actor, repositoryId: 'site', data: { name } }
}

/** Asserts what docs/audit.md says about the hashes; returns the numbers and actions of all entries. */
async function assertChained(db: Database, before = '0'.repeat(64)): Promise<string[]> {
  const rows = await db.selectFrom('audit').selectAll().orderBy('seq').execute()
  let previous = before
  for (const row of rows) {
    const { seq, createdAt, action, actorId, actorUsername, via, address } = row
    const fields = [previous, seq, createdAt, action, actorId, actorUsername, via, address]
    const text = JSON.stringify([...fields, row.repositoryId, row.data])
    assert.equal(row.hash, createHash('sha256').update(text).digest('hex'), `entry ${seq}`)
    previous = row.hash
  }
  return rows.map(({ seq, action }) => `${seq} ${action}`)
}

onEachDatabase((fresh) => {
  test('entries are chained, by several writers, and a rollback leaves no gap', async () => {
    await using database = await fresh()
    const connections = await Promise.all([database.open(), database.open(), database.open()])
    const writers = connections.flatMap((db, index) =>
      Array.from({ length: 10 }, (_, round) =>
        db
          .transaction()
          .execute(async (tx) => {
            await publish(tx, 1000 + round, [saved(`${index}`), saved(`${round}`)])
            if (round % 3 === 0) throw new Error('rolled back')
            const data = { runId: `${round}` }
            const action = { action: 'run.cancelled', actor, repositoryId: 'site', data } as const
            await recordActions(tx, 1000 + round, [action])
          })
          .catch((error) => assert.equal(error.message, 'rolled back')),
      ),
    )
    await Promise.all(writers)
    const [db] = connections
    assert.ok(db)
    const entries = await assertChained(db)
    assert.equal(entries.length, 3 * 6 * 3)
    assert.deepEqual(
      entries.map((entry) => Number.parseInt(entry, 10)),
      entries.map((_, index) => index + 1),
    )
  })

  test('entries are listed by filters, in pages, newest first', async () => {
    await using database = await fresh()
    const db = await database.open()
    const other = { id: 'local', username: 'admin' }
    for (let at = 1; at <= 30; at++) {
      const event = at % 3 === 0 ? { ...saved(`${at}`), actor: other } : saved(`${at}`)
      await db.transaction().execute((tx) => publish(tx, at * 100, [event]))
    }
    const auditLog = createAuditLog({ db, namesOf: async () => new Map([['site', 'web']]) })
    const numbers = async (filter: Parameters<typeof auditLog.list>[1], limit = 1000) => {
      const found: number[] = []
      for (let before: number | undefined; ; ) {
        const { entries, next } = await auditLog.list(localPrincipal, filter, { before, limit })
        assert.ok(entries.length <= limit)
        found.push(...entries.map(({ seq }) => seq))
        if (next === undefined) return found
        before = next
      }
    }
    const all = Array.from({ length: 30 }, (_, index) => 30 - index)
    assert.deepEqual(await numbers({}), all)
    assert.deepEqual(await numbers({}, 7), all)
    const byServer = all.filter((seq) => seq % 3 === 0)
    assert.deepEqual(await numbers({ username: 'admin' }), byServer)
    assert.deepEqual(await numbers({ via: 'cli' }, 1), byServer)
    assert.deepEqual(await numbers({ credential: 'local' }, 4), byServer)
    assert.deepEqual(await numbers({ address: '192.0.2.7', limit: 2 } as object, 2), [
      ...all.filter((seq) => seq % 3 !== 0),
    ])
    assert.deepEqual(await numbers({ since: 1000, until: 1200 }, 2), [12, 11, 10])
    assert.deepEqual(await numbers({ since: 9000 }), [])
    assert.deepEqual(await numbers({ actions: ['push', 'secret.deleted'] }), [])
    assert.deepEqual(await numbers({ actions: ['secret.saved'], repositoryId: 'gone' }), [])
    const { entries } = await auditLog.list(localPrincipal, {}, { before: 2, limit: 5 })
    const [{ hash, ...first } = { hash: '' }] = entries
    assert.match(hash, /^[0-9a-f]{64}$/)
    assert.deepEqual(first, {
      seq: 1,
      createdAt: 100,
      action: 'secret.saved',
      actor: { id: 'key', username: 'ada' },
      via: 'ssh',
      address: '192.0.2.7',
      repositoryId: 'site',
      repoName: 'web',
      data: { name: '1' },
    })
  })

  test('old entries are pruned, and the chain goes on from the hash that the removal records', async () => {
    await using database = await fresh()
    const db = await database.open()
    let now = 0
    const clock = { now: () => now }
    const prune = () =>
      pruneAudit({ db, clock, keptDays: 365, signal: new AbortController().signal })
    await prune()
    for (let at = 1; at <= 2500; at++) {
      const time = at <= 2400 ? at : 2 * dayMs
      if (at % 100 !== 0 && at <= 2400) continue
      const events = at <= 2400 ? Array.from({ length: 100 }, () => saved('old')) : [saved('new')]
      await db.transaction().execute((tx) => publish(tx, time, events))
    }
    now = 366 * dayMs - 1
    await prune()
    assert.equal((await assertChained(db)).length, 2500)
    now = 366.5 * dayMs
    await prune()
    const removals = await db.selectFrom('audit').selectAll().where('seq', '>', 2500).execute()
    const removed = removals.map(({ data }) => JSON.parse(data))
    assert.deepEqual(
      removed.map(({ upTo }) => upTo),
      [1000, 2000, 2400],
    )
    const entries = await assertChained(db, removed.at(-1).hash)
    assert.equal(entries[0], '2401 secret.saved')
    assert.equal(entries.at(-1), '2503 audit.pruned')
    await prune()
    assert.equal((await assertChained(db, removed.at(-1).hash)).length, 103)
  })

  test('when all entries are old, the removal itself goes on from the last of them', async () => {
    await using database = await fresh()
    const db = await database.open()
    await db.transaction().execute((tx) => publish(tx, 0, [saved('1'), saved('2')]))
    const { hash } = await db
      .selectFrom('audit')
      .select('hash')
      .where('seq', '=', 2)
      .executeTakeFirstOrThrow()
    const clock = { now: () => 400 * dayMs }
    await pruneAudit({ db, clock, keptDays: 365, signal: new AbortController().signal })
    assert.deepEqual(await assertChained(db, hash), ['3 audit.pruned'])
  })
})
