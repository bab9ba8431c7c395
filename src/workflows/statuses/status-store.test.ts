import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newId } from '#base/ids.ts'
import { insertRepository } from '#repositories/repository-store.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { countNewestStatuses, findNewestStatus, hasReported, saveStatus } from './status-store.ts'

onEachDatabase((fresh) => {
  test('the newest status of a context is that of all its users, or of some', async () => {
    await using database = await fresh()
    const db = await database.open()
    const [here, elsewhere] = [newId(), newId()]
    for (const id of [here, elsewhere]) {
      const owner = { ownerTokenId: 't', ownerUsername: 'ada' }
      const row = { id, name: id, nameKey: id, ...owner, createdAt: 1, state: 'ready' } as const
      assert.ok(await insertRepository(db, row))
    }
    const context = `"ci"'; -- \u{1f4a5}`
    const of = { repositoryId: here, commitId: 'c', context }
    const rest = { description: '', targetUrl: '' }
    const row = { ...of, ...rest, state: 'success', username: 'ada' } as const
    const others = Array.from({ length: 999 }, (_, index) => ({
      ...{ ...row, id: newId(), context: `other/${index}`, createdAt: 9 },
    }))
    await db.insertInto('commitStatuses').values(others).execute()
    // Ids of different nodes have no order.
    await saveStatus(db, { ...row, id: 'b', createdAt: 1 })
    await saveStatus(db, { ...row, id: 'a', username: 'bob', state: 'failure', createdAt: 2 })
    await saveStatus(db, { ...row, id: 'c', commitId: 'd', createdAt: 3, state: 'error' })
    await saveStatus(db, { ...row, id: 'e', repositoryId: elsewhere, createdAt: 4, state: 'error' })
    const newest = async (by?: string[]) => (await findNewestStatus(db, of, by))?.state
    assert.equal(await newest(), 'failure')
    assert.equal(await newest(['ada']), 'success')
    assert.equal(await newest(['ada', 'bob']), 'failure')
    assert.equal(await newest(['eve']), undefined)
    await saveStatus(db, { ...row, id: 'f', state: 'pending', createdAt: 5 })
    assert.deepEqual([await newest(), await newest(['ada'])], ['pending', 'pending'])
    assert.deepEqual(await countNewestStatuses(db, here, ['c', 'd', 'e']), [
      { commitId: 'c', contexts: 1000, succeeded: 999, pending: 1 },
      { commitId: 'd', contexts: 1, succeeded: 0, pending: 0 },
    ])
    assert.equal(await hasReported(db, of), true)
    assert.equal(await hasReported(db, of, ['eve', 'bob']), true)
    assert.equal(await hasReported(db, of, ['eve']), false)
    assert.equal(await hasReported(db, { ...of, context: context.toUpperCase() }), false)
  })
})
