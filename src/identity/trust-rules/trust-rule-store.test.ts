import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { insertWorkloadToken, listUsersOfIssuer } from './trust-rule-store.ts'

onEachDatabase((fresh) => {
  test('a rule has a limited number of tokens, of which expired ones do not count', async () => {
    await using database = await fresh()
    await using db = await database.open()
    const [issuer, permissions] = ['https://issuer.example.com', 'repo:read']
    const rest = { audience: '', claims: '{}', refs: null, permissions, createdAt: 1 }
    const never = { lastUsedAt: null, lastRefusedAt: null, lastRefusal: null }
    const rule = (id: string, username: string) => {
      return { id, name: id, username, issuer, ...rest, ...never }
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
})
