import assert from 'node:assert/strict'
import { test } from 'node:test'
import { localPrincipal as admin } from '#access/principal.ts'
import { parsePublicKey } from '#ssh/public-key.ts'
import { until } from '../../../test/support/condition.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { publish } from '../../../test/support/publish.ts'
import { newKeyLine, noRepositories } from '../../../test/support/ssh-keys.ts'
import { createSshKeys } from './ssh-keys.ts'

const wholeList = { after: '', limit: 1000 }

onEachDatabase((fresh) => {
  async function open(database: Awaited<ReturnType<typeof fresh>>) {
    const time = { now: 1_795_184_000_000 }
    const log = { debug() {}, info() {}, warn() {}, error() {} }
    const db = await database.open()
    return {
      time,
      keys: createSshKeys({
        db,
        publish,
        clock: { now: () => time.now },
        log,
        repositories: noRepositories,
      }),
    }
  }

  test('a key is found by its wire form, until it is deleted', async () => {
    await using database = await fresh()
    const { keys } = await open(database)
    const publicKey = newKeyLine()
    const { blob, fingerprint } = parsePublicKey(publicKey)
    assert.equal(await keys.identify(blob), undefined)
    const { id } = await keys.add(admin, { publicKey, name: 'laptop', username: 'ada' })
    const key = {
      id,
      name: 'laptop',
      username: 'ada',
      fingerprint,
      keyType: 'ssh-ed25519',
      expiresAt: null,
    }
    assert.deepEqual(await keys.identify(blob), key)
    const { principal, ...proven } = (await keys.principalOf(id)) ?? assert.fail()
    assert.deepEqual(proven, { key })
    assert.deepEqual(await keys.refresh(principal), principal)
    await keys.remove(admin, id)
    assert.equal(await keys.identify(blob), undefined)
    assert.equal(await keys.principalOf(id), undefined)
    assert.equal(await keys.refresh(principal), undefined)
  })

  test('a key is never an admin, even if added by one', async () => {
    await using database = await fresh()
    const { keys } = await open(database)
    const { id } = await keys.add(admin, { publicKey: newKeyLine('of laptop') })
    const { principal, key } = (await keys.principalOf(id)) ?? assert.fail()
    assert.deepEqual(principal, {
      kind: 'ssh-key',
      id,
      username: 'admin',
      expiresAt: null,
      permissions: new Set(['repo:read', 'repo:write']),
      repositories: undefined,
    })
    assert.equal(key.name, 'of laptop')
  })

  test('an authentication counts as a use, recorded at most every 30 s; a query does not', async () => {
    await using database = await fresh()
    const { keys, time } = await open(database)
    const publicKey = newKeyLine()
    const { id } = await keys.add(admin, { publicKey })
    const lastUsed = async () => (await keys.list(admin, { page: wholeList }))[0]?.lastUsedAt
    await keys.identify(parsePublicKey(publicKey).blob)
    assert.equal(await lastUsed(), null)
    const start = time.now
    for (const [after, noted] of [
      [0, 0],
      [29_999, 0],
      [30_000, 30_000],
    ] as const) {
      time.now = start + after
      await keys.principalOf(id)
      await until('the use is noted', async () => (await lastUsed()) === start + noted)
    }
  })
})
