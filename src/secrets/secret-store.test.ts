import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { newId } from '#base/ids.ts'
import { Sensitive } from '#base/sensitive.ts'
import type { Database } from '#database/database.ts'
import { deleteNamespace, insertNamespace } from '#repositories/namespace-store.ts'
import { deleteRepository, insertRepository, updateName } from '#repositories/repository-store.ts'
import type { NamedScope } from '#repositories/scopes.ts'
import { createDisableWebhook } from '#webhooks/disabling.ts'
import { onEachDatabase } from '../../test/support/databases.ts'
import { publish } from '../../test/support/publish.ts'
import { findUnknownKeys } from './key-check.ts'
import { createRotation } from './rotation.ts'
import { listKeyUses, updateSealed } from './sealed-store.ts'
import { listSealedOf } from './secret-store.ts'
import { createSecrets } from './secrets.ts'
import { createVault, type Vault } from './vault/vault.ts'

const [old, next] = [randomBytes(32), randomBytes(32)]
const actor = { id: 'token', username: 'ada' }
const wholeList = { after: '', limit: 1000 }
const hush = new Sensitive('hush')
const vaultOf = (...keys: Buffer[]) => createVault(new Sensitive(keys))

/** Secrets as a server with these keys has them. */
function serve(db: Database, ...keys: Buffer[]) {
  const vault = vaultOf(...keys)
  const rest = { db, publish, clock: { now: () => Date.now() }, vault: async () => vault }
  return {
    ...createSecrets(rest),
    ...createRotation({
      ...rest,
      faultPoint: () => {},
      disableWebhook: createDisableWebhook(publish),
    }),
    vault,
  }
}

async function addRepository(
  db: Database,
  name = newId(),
  namespaceId: string | null = null,
): Promise<NamedScope> {
  const [id, createdAt] = [newId(), 1]
  const owner = { ownerTokenId: 'token', ownerUsername: 'ada' }
  const row = {
    id,
    name,
    nameKey: name.toLowerCase(),
    namespaceId,
    ...owner,
    createdAt,
    state: 'ready',
  } as const
  await insertRepository(db, row)
  return { kind: 'repository', id, name }
}

const quiet = { report: () => {}, signal: new AbortController().signal }

async function keysIn(db: Database): Promise<string[]> {
  return (await listKeyUses(db)).map(({ keyId, count }) => `${count} ${keyId}`)
}

const idOf = ({ keyIds }: Vault) => keyIds[0] ?? ''

onEachDatabase((fresh) => {
  test('a secret is stored once per name, replaced, listed in order and opened by name', async () => {
    await using database = await fresh()
    const db = await database.open()
    const [site, page] = [await addRepository(db, 'site'), await addRepository(db, 'page')]
    const secrets = serve(db, old)
    for (const name of ['B', 'A', 'C'])
      await secrets.put(actor, site, name, new Sensitive(`1${name}`))
    await secrets.put(actor, page, 'A', hush)
    const [before] = await secrets.list(site, wholeList)
    await secrets.put(actor, site, 'B', new Sensitive('2B'))
    const listed = await secrets.list(site, wholeList)
    assert.deepEqual(
      listed.map(({ name }) => name),
      ['B', 'A', 'C'],
    )
    assert.deepEqual([listed[0]?.id, listed[0]?.createdAt], [before?.id, before?.createdAt])
    assert.deepEqual(await secrets.list(site, { after: before?.id ?? '', limit: 1 }), [listed[1]])
    assert.deepEqual(await secrets.open(site.id), { B: '2B', A: '1A', C: '1C' })
    assert.deepEqual(await secrets.open(site.id, { names: ['C', 'NOTHING'] }), { C: '1C' })
    await deleteRepository(db, site.id)
    assert.deepEqual(await secrets.open(site.id), {})
    assert.deepEqual(await secrets.open(page.id), { A: 'hush' })
  })

  test('repositories have the secrets of their namespace as long as they are in it', async () => {
    await using database = await fresh()
    const db = await database.open()
    const acme: NamedScope = { kind: 'namespace', id: newId(), name: 'acme' }
    await insertNamespace(db, { id: acme.id, name: 'acme', nameKey: 'acme', createdAt: 1 })
    const site = await addRepository(db, 'acme/site', acme.id)
    const other = await addRepository(db, 'other')
    const secrets = serve(db, old)
    for (const name of ['SHARED', 'BOTH']) await secrets.put(actor, acme, name, new Sensitive(name))
    await secrets.put(actor, site, 'BOTH', new Sensitive('own'))
    assert.deepEqual(await secrets.open(site.id), { SHARED: 'SHARED', BOTH: 'own' })
    assert.deepEqual(await secrets.open(site.id, { names: ['SHARED'] }), { SHARED: 'SHARED' })
    assert.deepEqual(await secrets.open(site.id, { isOwnOnly: true }), { BOTH: 'own' })
    assert.deepEqual(await secrets.open(other.id), {})
    const [listed] = await secrets.list(acme, wholeList)
    assert.deepEqual(Object(listed).namespace, 'acme')
    assert.equal((await secrets.list(site, wholeList)).length, 1)
    const events = await db.selectFrom('events').selectAll().orderBy('seq').execute()
    assert.deepEqual(
      [events[0]?.repositoryId, events[0]?.data],
      [null, '{"name":"SHARED","namespace":"acme"}'],
    )

    const rotating = serve(db, next, old)
    assert.equal((await rotating.rotate(quiet)).resealed, 3)
    assert.deepEqual(await serve(db, next).open(site.id), { SHARED: 'SHARED', BOTH: 'own' })

    await updateName(db, site.id, { name: 'site', namespaceId: null })
    assert.deepEqual(await rotating.open(site.id), { BOTH: 'own' })
    await updateName(db, other.id, { name: 'acme/other', namespaceId: acme.id })
    assert.deepEqual(await rotating.open(other.id), { SHARED: 'SHARED', BOTH: 'BOTH' })
    await updateName(db, other.id, { name: 'other', namespaceId: null })
    await deleteNamespace(db, acme.id)
    assert.deepEqual(await rotating.list(acme, wholeList), [])
    await assert.rejects(rotating.put(actor, acme, 'LATE', hush), { code: 'namespace_not_found' })
  })

  test('concurrent saves do not exceed the limit of a repository', async () => {
    await using database = await fresh()
    const servers = (await Promise.all([database.open(), database.open()])).map((db) => ({
      db,
      ...serve(db, old),
    }))
    const [one] = servers
    assert.ok(one)
    const site = await addRepository(one.db)
    const saveAll = (from: number, to: number) =>
      Promise.allSettled(
        Array.from({ length: to - from }, async (_, at) =>
          servers[at % 2]?.put(actor, site, `S${from + at}`, hush),
        ),
      )
    // No more at a time than have connections: others would wait for these, within a time limit.
    for (let saved = 0; saved < 95; saved += 19)
      for (const outcome of await saveAll(saved, saved + 19))
        assert.ok(outcome.status === 'fulfilled', String('reason' in outcome && outcome.reason))
    const outcomes = await saveAll(95, 105)
    const codes = outcomes.map((outcome) => outcome.status === 'rejected' && outcome.reason.code)
    assert.deepEqual(codes.sort(), [...Array(5).fill(false), ...Array(5).fill('too_many_secrets')])
    await one.put(actor, site, 'S0', new Sensitive('replaced'))
    assert.equal((await one.list(site, wholeList)).length, 100)
  })

  test('of concurrent saves and deletions the last one wins', async () => {
    await using database = await fresh()
    const [one, other] = await Promise.all([database.open(), database.open()])
    assert.ok(one && other)
    const site = await addRepository(one)
    const servers = [serve(one, old), serve(other, old)]
    for (let round = 0; round < 10; round++) {
      const work = Array.from({ length: 12 }, async (_, at) => {
        const server = servers[at % 2]
        if (at % 4 === 3) return server?.remove(actor, site, 'TOKEN')
        return server?.put(actor, site, 'TOKEN', new Sensitive(`value ${at}`))
      })
      for (const outcome of await Promise.allSettled(work)) {
        if (outcome.status === 'rejected') assert.equal(outcome.reason.code, 'secret_not_found')
      }
      const { TOKEN: value = 'value 0' } = (await servers[0]?.open(site.id)) ?? {}
      assert.match(value, /^value \d+$/)
    }
    const events = await one.selectFrom('events').select(['seq', 'kind']).orderBy('seq').execute()
    assert.deepEqual(
      events.map(({ seq }) => seq),
      events.map((_, at) => at + 1),
    )
    const isThere = (await listSealedOf(one, site.id)).length === 1
    assert.equal(events.at(-1)?.kind === 'secret.saved', isThere)
  })

  test('saving to a repository that is deleted meanwhile fails, and leaves no secret', async () => {
    await using database = await fresh()
    const db = await database.open()
    const site = await addRepository(db)
    await deleteRepository(db, site.id)
    await assert.rejects(serve(db, old).put(actor, site, 'TOKEN', hush), {
      code: 'repository_not_found',
    })
    assert.deepEqual(await listKeyUses(db), [])
  })

  test('a row that was copied to another repository cannot be opened, and is named', async () => {
    await using database = await fresh()
    const db = await database.open()
    const [site, page] = [await addRepository(db), await addRepository(db)]
    const secrets = serve(db, old)
    await secrets.put(actor, site, 'TOKEN', hush)
    await secrets.put(actor, page, 'TOKEN', new Sensitive('other'))
    const [from] = await listSealedOf(db, site.id)
    const [to] = await listSealedOf(db, page.id)
    assert.ok(from && to)
    const row = { ...to, table: 'secrets' as const }
    assert.equal(await updateSealed(db, row, from), true)
    assert.equal(await updateSealed(db, row, from), false)
    const unreadable = {
      code: 'secret_unreadable',
      message: /^The secret TOKEN cannot be opened: the stored value/,
    }
    await assert.rejects(secrets.open(page.id), unreadable)
    await assert.rejects(serve(db, next).open(site.id), {
      code: 'secret_unreadable',
      message: new RegExp(`key that is not configured, ${idOf(vaultOf(old))}`),
    })
    await assert.rejects(serve(db).open(site.id), { code: 'encryption_key_missing' })
    await assert.rejects(serve(db).put(actor, site, 'B', hush), { code: 'encryption_key_missing' })
  })

  test('after a rotation the first key opens everything, and nothing else has changed', async () => {
    await using database = await fresh()
    const db = await database.open()
    const all = await Promise.all(Array.from({ length: 3 }, () => addRepository(db)))
    for (const [at, repository] of all.entries()) {
      const server = serve(db, at === 2 ? next : old)
      for (let count = 0; count < 45; count++)
        await server.put(actor, repository, `S${count}`, new Sensitive(`${at} ${count}`))
    }
    const before = await Promise.all(all.map((one) => serve(db, next, old).list(one, wholeList)))
    assert.deepEqual(await keysIn(db), [`90 ${idOf(vaultOf(old))}`, `45 ${idOf(vaultOf(next))}`])
    assert.equal((await findUnknownKeys(db, vaultOf(next))).length, 1)
    let reported = 0
    const rotated = await serve(db, next, old).rotate({
      ...quiet,
      report: (count) => (reported = count),
    })
    assert.deepEqual(rotated, { resealed: 90, unreadable: 0, named: [], discarded: 0 })
    assert.equal(reported, 90)
    assert.deepEqual(await keysIn(db), [`135 ${idOf(vaultOf(next))}`])
    const server = serve(db, next)
    assert.deepEqual(await Promise.all(all.map((one) => server.list(one, wholeList))), before)
    for (const [at, { id }] of all.entries()) {
      const values = Object.entries(await server.open(id))
      assert.equal(values.length, 45)
      for (const [name, value] of values) assert.equal(value, `${at} ${name.slice(1)}`)
    }
    assert.equal((await server.rotate(quiet)).resealed, 0)
  })

  test('concurrent changes during a rotation are neither lost nor undone', async () => {
    await using database = await fresh()
    const [db, other] = await Promise.all([database.open(), database.open()])
    assert.ok(db && other)
    const [site, doomed] = [await addRepository(db), await addRepository(db)]
    const writer = serve(other, old, next)
    const expected: Record<string, string> = {}
    for (let at = 0; at < 60; at++) {
      expected[`S${at}`] = 'first'
      await writer.put(actor, site, `S${at}`, new Sensitive('first'))
      await writer.put(actor, doomed, `S${at}`, hush)
    }
    // It still saves with the old key, and everything is resealed in the end.
    const writing = (async () => {
      for (let at = 0; at < 60; at += 2) {
        await writer.put(actor, site, `S${at}`, new Sensitive('second'))
        expected[`S${at}`] = 'second'
        if (at % 20 === 10) {
          await writer.remove(actor, site, `S${at + 1}`)
          delete expected[`S${at + 1}`]
        }
        if (at === 30) await deleteRepository(other, doomed.id)
      }
    })()
    await serve(db, next, old).rotate(quiet)
    await writing
    await serve(db, next, old).rotate(quiet)
    assert.deepEqual(await keysIn(db), [`${Object.keys(expected).length} ${idOf(vaultOf(next))}`])
    assert.deepEqual(await serve(db, next).open(site.id), expected)
  })

  test('secrets that no key opens are kept and named, and deleted only on request', async () => {
    await using database = await fresh()
    const db = await database.open()
    const site = await addRepository(db, 'site')
    await serve(db, randomBytes(32)).put(actor, site, 'LOST', hush)
    await serve(db, old).put(actor, site, 'KEPT', hush)
    const server = serve(db, next, old)
    const rotated = await server.rotate(quiet)
    assert.deepEqual([rotated.resealed, rotated.unreadable, rotated.discarded], [1, 1, 0])
    assert.match(rotated.named[0]?.fault ?? '', /key that is not configured, [0-9a-f]{16}$/)
    assert.deepEqual([rotated.named[0]?.repoName, rotated.named[0]?.name], ['site', 'LOST'])
    const { discarded } = await server.rotate({ ...quiet, discardsAs: actor })
    assert.equal(discarded, 1)
    assert.deepEqual(await serve(db, next).open(site.id), { KEPT: 'hush' })
    const last = await db
      .selectFrom('events')
      .select(['kind', 'data'])
      .orderBy('seq', 'desc')
      .executeTakeFirst()
    assert.deepEqual([last?.kind, last?.data], ['secret.deleted', '{"name":"LOST"}'])
    await assert.rejects(serve(db).rotate(quiet), { code: 'encryption_key_missing' })
  })
})
