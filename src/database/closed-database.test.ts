import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTick } from 'node:timers/promises'
import { onEachDatabase } from '../../test/support/databases.ts'
import { exhaustive } from '../../test/support/exhaustive.ts'
import type { Db } from './schema.ts'

onEachDatabase((fresh) => {
  // An unhandled rejection fails the test, as it would end the service.
  test(
    'queries of a database that closes end, and none is rejected unseen',
    exhaustive,
    async () => {
      await using database = await fresh()
      const db = await database.open()
      const insert = (into: Db) =>
        into.insertInto('marks').values({ name: 'mark', value: 1 }).execute()
      const queries = [
        () => db.selectFrom('marks').selectAll().execute(),
        () => insert(db),
        () => db.updateTable('marks').set({ value: 2 }).execute(),
        () => db.deleteFrom('marks').execute(),
        () => db.transaction().execute(insert),
      ]
      for (const query of queries) await query()
      const running = Array.from({ length: 5 }, () => queries.map((query) => query())).flat()
      const [ended] = await Promise.all([Promise.allSettled(running), db.destroy()])
      assert.ok(ended.some(({ status }) => status === 'rejected'))
      for (const query of queries) await assert.rejects(query)
      await nextTick()
    },
  )
})
