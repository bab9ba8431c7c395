import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Database } from '#database/database.ts'
import { createSingleNode } from '#database/nodes/nodes.ts'
import { createEventNotifier } from '#events/event-notifier.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { sampleEvent } from '../../../test/support/event-kinds.ts'
import { publish } from '../../../test/support/publish.ts'
import { createTailCache } from './tail-cache.ts'

const kept = 1000

function openTail(db: Database) {
  const notifier = createEventNotifier({ db, nodes: createSingleNode('here') })
  return createTailCache({ db, notifier, refresh: async (principal) => principal })
}

async function publishMany(db: Database, count: number): Promise<void> {
  const events = Array.from({ length: count }, () => sampleEvent('push', 'r'))
  await db.transaction().execute((tx) => publish(tx, 1, events))
}

onEachDatabase((fresh) => {
  test('the tail cache has the events after a number, for concurrent readers', async () => {
    await using database = await fresh()
    const db = await database.open()
    const tail = openTail(db)
    assert.deepEqual((await tail.after(0))?.entries, [])
    await publishMany(db, 5)
    // A reader beyond the cached events gets those that follow.
    const asked = [5, 0, 3].map((seq) => tail.after(seq))
    const found = (await Promise.all(asked)).map((part) => part?.entries.map(({ seq }) => seq))
    assert.deepEqual(found, [[], [1, 2, 3, 4, 5], [4, 5]])
  })

  test('a reader that is too far behind, or behind pruned events, reads the log', async () => {
    await using database = await fresh()
    const db = await database.open()
    const tail = openTail(db)
    await publishMany(db, 500)
    assert.equal((await tail.after(0))?.entries.length, 500)
    await publishMany(db, kept + 10 - 500)
    assert.equal((await tail.after(kept + 10))?.entries.length, 0)
    assert.equal(await tail.after(9), undefined)
    assert.equal((await tail.after(10))?.entries.length, kept)
    await publishMany(db, 3 * kept)
    const far = 4 * kept
    assert.equal((await tail.after(far))?.entries.length, 10)
    assert.equal(await tail.after(far - kept), undefined)
    await publishMany(db, 20)
    const last = 4 * kept + 30
    await db.deleteFrom('events').where('seq', '<', last).execute()
    assert.equal((await tail.after(last))?.entries.length, 0)
    assert.equal(await tail.after(last - 2), undefined)
    assert.equal((await tail.after(last - 1))?.entries.length, 1)
  })
})
