import assert from 'node:assert/strict'
import { createPublicKey, randomBytes, sign, verify } from 'node:crypto'
import { test } from 'node:test'
import { dayMs } from '#base/clock.ts'
import { Sensitive } from '#base/sensitive.ts'
import type { Db } from '#database/schema.ts'
import { createVault } from '#secrets/vault/vault.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { chooseKey, createSigningKeys, type SigningKeys } from './signing-keys.ts'

test('a key signs when it was published for a day, and until the next one was', () => {
  const at = (...days: number[]) => days.map((day) => ({ createdAt: day * dayMs }))
  const chosen = (days: number[], now: number) => {
    const { signer, isNextDue } = chooseKey(at(...days), now * dayMs)
    return [signer && signer.createdAt / dayMs, isNextDue]
  }
  assert.deepEqual(chosen([], 0), [undefined, true])
  // The first key has no predecessor.
  assert.deepEqual(chosen([0], 0), [0, false])
  assert.deepEqual(chosen([0], 29.9), [0, false])
  assert.deepEqual(chosen([0], 30), [0, true])
  assert.deepEqual(chosen([30, 0], 30.9), [0, false])
  assert.deepEqual(chosen([30, 0], 31), [30, false])
  // After a long time without tokens, no verifier has an old list.
  assert.deepEqual(chosen([0], 31), [undefined, true])
  assert.deepEqual(chosen([100, 0], 100), [100, false])
})

onEachDatabase((fresh) => {
  const keyOf = (bytes: Buffer[]) => async () => createVault(new Sensitive(bytes))

  async function kidsOf(keys: SigningKeys): Promise<string[]> {
    return (await keys.listPublic()).map(({ kid }) => kid)
  }

  function openedBy(db: Db, encryptionKeys: Buffer[], clock = { now: () => 0 }) {
    return createSigningKeys({ db, clock, vault: keyOf(encryptionKeys) })
  }

  test('all nodes sign with the same key, whose private half is sealed', async () => {
    await using database = await fresh()
    const db = await database.open()
    const encryption = [randomBytes(32)]
    const [one, other] = [openedBy(db, encryption), openedBy(db, encryption)]
    assert.deepEqual(await one.listPublic(), [])
    const [signer, again] = [await one.current(), await other.current()]
    assert.equal(signer.id, again.id)
    const concurrently = openedBy(db, encryption)
    const both = await Promise.all([concurrently.current(), concurrently.current()])
    assert.deepEqual(new Set(both.map(({ id }) => id)), new Set([signer.id]))
    const [jwk] = await other.listPublic()
    const { kid, use, alg, ...key } = jwk ?? assert.fail()
    assert.deepEqual([kid, use, alg], [signer.id, 'sig', 'RS256'])
    const text = Buffer.from('text')
    const publicKey = createPublicKey({ key, format: 'jwk' })
    assert.ok(verify('sha256', text, publicKey, sign('sha256', text, again.privateKey)))
    const [row] = await db.selectFrom('signingKeys').selectAll().execute()
    assert.doesNotMatch(JSON.stringify(row), /PRIVATE/)
    assert.ok(!Buffer.from(row?.sealedPrivate ?? []).includes('PRIVATE'))
  })

  test('a key is replaced in time, and stays published while tokens may be valid', async () => {
    await using database = await fresh()
    const db = await database.open()
    let now = 0
    const keys = openedBy(db, [randomBytes(32)], { now: () => now })
    const { id: first } = await keys.current()
    now = 30 * dayMs
    assert.equal((await keys.current()).id, first)
    const [second] = await kidsOf(keys)
    assert.notEqual(second, first)
    now = 31 * dayMs
    assert.equal((await keys.current()).id, second)
    assert.deepEqual(await kidsOf(keys), [second, first])
    now = 61 * dayMs
    await keys.current()
    const left = await kidsOf(keys)
    assert.equal(left.length, 2)
    assert.ok(left.includes(second ?? '') && !left.includes(first))
  })

  test('a key that no encryption key opens is replaced; without any there is none', async () => {
    await using database = await fresh()
    const db = await database.open()
    const [before, after] = [randomBytes(32), randomBytes(32)]
    const { id: first } = await openedBy(db, [before]).current()
    assert.equal((await openedBy(db, [after, before]).current()).id, first)
    const replaced = openedBy(db, [after])
    const { id: second } = await replaced.current()
    assert.notEqual(second, first)
    assert.deepEqual(new Set(await kidsOf(replaced)), new Set([first, second]))
    await assert.rejects(openedBy(db, []).current(), { code: 'encryption_key_missing' })
  })
})
