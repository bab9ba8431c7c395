import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEachDatabase } from '../../../test/support/databases.ts'
import {
  findTrustRule,
  insertTrustRule,
  insertWorkloadToken,
  listRuleRepositories,
  listRulesFor,
  listUsersOfIssuer,
} from './trust-rule-store.ts'

onEachDatabase((fresh) => {
  test('a rule has a limited number of tokens, of which expired ones do not count', async () => {
    await using database = await fresh()
    await using db = await database.open()
    const [issuer, permissions] = ['https://issuer.example.com', 'repo:read']
    const rest = { audience: '', claims: '{}', refs: null, permissions, createdAt: 1 }
    const never = { lastUsedAt: null, lastRefusedAt: null, lastRefusal: null }
    const rule = (id: string, username: string) => {
      return { id, name: id, username, namespaceId: null, coversAll: 0, issuer, ...rest, ...never }
    }
    const rules = [rule('a', 'ada'), rule('b', 'ada'), rule('c', 'bob')]
    await db.insertInto('trustRules').values(rules).execute()
    assert.deepEqual((await listUsersOfIssuer(db, issuer)).sort(), ['ada', 'bob'])
    const insert = (ruleId: string, id: string, expiresAt: number, now: number) =>
      insertWorkloadToken(
        db,
        { id, tokenHash: id, ruleId, subject: '', expiresAt },
        { now, max: 2 },
      )
    assert.equal(await insert('a', '1', 20, 0), undefined)
    assert.equal(await insert('a', '2', 10, 0), undefined)
    assert.equal(await insert('a', '3', 30, 9), 10)
    assert.equal(await insert('b', '4', 30, 9), undefined)
    assert.equal(await insert('a', '5', 30, 10), undefined)
    const rows = await db.selectFrom('workloadTokens').select('id').orderBy('id').execute()
    assert.deepEqual(
      rows.map(({ id }) => id),
      ['1', '4', '5'],
    )
  })

  test('a rule of a namespace covers what is in it', async () => {
    await using database = await fresh()
    await using db = await database.open()
    const named = (id: string) => ({ id, name: id, nameKey: id, createdAt: 1 })
    await db.insertInto('namespaces').values(['acme', 'apex'].map(named)).execute()
    const owner = { ownerUsername: 'ada', ownerTokenId: '', state: 'ready' } as const
    for (const [id, namespaceId] of [
      ['in', 'acme'],
      ['out', 'apex'],
      ['free', null],
    ] as const)
      await db
        .insertInto('repositories')
        .values({ ...named(id), ...owner, namespaceId })
        .execute()
    const issuer = 'https://issuer.example.com'
    const rest = {
      username: 'ada',
      issuer,
      audience: '',
      claims: '{}',
      refs: null,
      permissions: '',
    }
    const never = { createdAt: 1, lastUsedAt: null, lastRefusedAt: null, lastRefusal: null }
    for (const [id, namespaceId, coversAll, repositories] of [
      ['a', 'acme', 1, []],
      ['b', 'acme', 0, ['in', 'out']],
      ['c', null, 0, ['in', 'free']],
      ['d', 'apex', 0, ['in']],
    ] as const) {
      const rule = { id, name: id, namespaceId, coversAll, ...rest, ...never }
      await insertTrustRule(db, rule, repositories)
    }
    const covering = async (repositoryId: string) =>
      (await listRulesFor(db, { repositoryId, issuer })).map(({ id }) => id).join('')
    assert.deepEqual(
      [await covering('in'), await covering('out'), await covering('free')],
      ['abc', '', 'c'],
    )
    const repositories = await listRuleRepositories(db, ['a', 'b', 'c', 'd'])
    assert.deepEqual(Object.fromEntries(repositories), { b: ['in'], c: ['free', 'in'] })
    assert.equal((await findTrustRule(db, 'b'))?.namespace, 'acme')
    // They end with it.
    await db.updateTable('repositories').set({ namespaceId: null }).execute()
    await db.deleteFrom('namespaces').where('id', '=', 'acme').execute()
    assert.equal(await covering('in'), 'c')
  })
})
