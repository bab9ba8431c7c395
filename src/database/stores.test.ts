import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SqliteAdapter, sql } from 'kysely'
import type { Principal } from '#access/principal.ts'
import type { Visibility } from '#access/visibility.ts'
import { dayMs } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import {
  insertPush,
  listSince,
  listUnfinishedPushes,
  listWithUnfinished,
  markFinished,
} from '#git-server/pushes/push-store.ts'
import {
  countSshKeys,
  deleteSshKey,
  findSshKey,
  findSshKeyByFingerprint,
  insertSshKey,
  listSshKeys,
  updateKeyLastUsed,
} from '#identity/ssh-keys/ssh-key-store.ts'
import { createSshKeys } from '#identity/ssh-keys/ssh-keys.ts'
import { toPrincipal } from '#identity/tokens/token-rows.ts'
import {
  deleteToken,
  findLiveTokenOf,
  findToken,
  findTokenByHash,
  insertToken,
  insertTokenOnce,
  listTokens,
  markInitialized,
  updateLastUsed,
} from '#identity/tokens/token-store.ts'
import {
  deleteCollaborator,
  insertCollaborator,
  listCollaborators,
} from '#repositories/collaborator-store.ts'
import { protectedBranchesIn } from '#repositories/protection-rules.ts'
import {
  deleteProtection,
  insertProtection,
  listProtections,
  listProtectionsBetween,
  updateProtection,
} from '#repositories/protection-store.ts'
import { listRepositories } from '#repositories/repository-list-store.ts'
import {
  deleteRepository,
  findRepository,
  insertRepository,
  isNameTaken,
  updateName,
} from '#repositories/repository-store.ts'
import { createProtections } from '#repositories/rights/protections.ts'
import type { NamedScope } from '#repositories/scopes.ts'
import { onEachDatabase } from '../../test/support/databases.ts'
import { publish } from '../../test/support/publish.ts'
import { toPushRow } from '../../test/support/push-rows.ts'
import { newKeyLine, noRepositories } from '../../test/support/ssh-keys.ts'
import { migrate } from './migrate.ts'
import { migrations, sshKeyExpiry } from './migrations.ts'
import type { Db, NewRepository, SshKeyRow, TokenRow } from './schema.ts'

const wholeList = { after: '', limit: 1000 }

onEachDatabase((fresh) => {
  test('two servers that start concurrently migrate once', async () => {
    await using database = await fresh({ isEmpty: true })
    const opened = await Promise.all(Array.from({ length: 4 }, () => database.open()))
    for (const db of opened) assert.deepEqual(await listTokens(db, wholeList), [])
  })

  test('a failed migration leaves the database unchanged', async () => {
    await using database = await fresh()
    const db = await database.open()
    const engine = db.getExecutor().adapter instanceof SqliteAdapter ? 'sqlite' : 'postgres'
    const broken = [
      ...migrations,
      () => ['create table half (id integer)', 'create table half (id text)'],
    ]
    await assert.rejects(migrate(db, engine, broken))
    await assert.rejects(sql`select * from half`.execute(db))
    await migrate(db, engine)
  })

  test('a database of a newer version is not changed', async () => {
    await using database = await fresh()
    const db = await database.open()
    await sql`update schema_version set version = version + 1, oldest_server = version + 1`.execute(
      db,
    )
    await assert.rejects(database.open(), /newer svc/)
  })

  test('tokens are found by hash and id, listed in order, and updated', async () => {
    await using database = await fresh()
    const db = await database.open()
    const [first, second] = [
      tokenRow({ username: 'ada' }),
      tokenRow({ username: 'ada', expiresAt: 50 }),
    ]
    await insertToken(db, first)
    await insertToken(db, second)
    assert.deepEqual(await findTokenByHash(db, first.tokenHash), first)
    assert.equal(await insertTokenOnce(db, { ...first, id: newId() }), false)
    assert.deepEqual(await listTokens(db, wholeList), [first, second])
    assert.deepEqual(await listTokens(db, { after: first.id, limit: 1 }), [second])
    assert.equal((await findLiveTokenOf(db, 'ada', 49))?.id, second.id)
    assert.equal((await findLiveTokenOf(db, 'ada', 50))?.id, first.id)
    await updateLastUsed(db, first.id, 1_795_184_328_814)
    assert.equal((await findToken(db, first.id))?.lastUsedAt, 1_795_184_328_814)
    assert.equal(await deleteToken(db, first.id), true)
    assert.equal(await deleteToken(db, first.id), false)
    assert.equal(await findToken(db, first.id), undefined)
  })

  test('SSH keys are registered once, listed in order, counted, and deleted by their own', async () => {
    await using database = await fresh()
    const db = await database.open()
    const [first, second, third] = [sshKeyRow('ada'), sshKeyRow('ada'), sshKeyRow('grace')]
    for (const row of [first, second, third]) assert.equal(await insertSshKey(db, row), true)
    const again = { ...sshKeyRow('grace'), fingerprint: first.fingerprint }
    assert.equal(await insertSshKey(db, again), false)
    assert.deepEqual(await findSshKeyByFingerprint(db, first.fingerprint), first)
    assert.deepEqual(await listSshKeys(db, 'all', wholeList), [first, second, third])
    const ada = { username: 'ada' }
    assert.deepEqual(await listSshKeys(db, ada, wholeList), [first, second])
    assert.deepEqual(await listSshKeys(db, ada, { after: first.id, limit: 5 }), [second])
    assert.equal(await countSshKeys(db, 'ada'), 2)
    await updateKeyLastUsed(db, first.id, 1_795_184_328_814)
    assert.equal((await findSshKey(db, first.id))?.lastUsedAt, 1_795_184_328_814)
    assert.equal(await deleteSshKey(db, { username: 'grace' }, first.id), undefined)
    assert.equal(await deleteSshKey(db, ada, first.id), 'ada')
    assert.equal(await deleteSshKey(db, 'all', first.id), undefined)
    assert.equal(await deleteSshKey(db, 'all', third.id), 'grace')
  })

  test('concurrent additions register a key once, and do not exceed the limit of a username', async () => {
    await using database = await fresh()
    const connections = await Promise.all([database.open(), database.open()])
    const log = { debug() {}, info() {}, warn() {}, error() {} }
    const services = connections.map((db) =>
      createSshKeys({
        db,
        publish,
        clock: { now: () => Date.now() },
        log,
        repositories: noRepositories,
      }),
    )
    const ada = await insertHolder(connections[0], { username: 'ada', permissions: 'admin' })
    const addAll = async (lines: string[]) => {
      const adding = lines.map((publicKey, at) => services[at % 2]?.add(ada, { publicKey }))
      const outcomes = await Promise.allSettled(adding)
      return outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.code : 'ok'))
    }
    const same = await addAll(Array(10).fill(newKeyLine()))
    assert.deepEqual(same.sort(), ['ok', ...Array(9).fill('ssh_key_taken')])
    // As many at a time as have connections: others would wait for these, within a time limit.
    const addTen = () => addAll(Array.from({ length: 10 }, () => newKeyLine()))
    for (let added = 1; added < 91; added += 10)
      assert.deepEqual(await addTen(), Array(10).fill('ok'))
    assert.deepEqual(await addAll([1, 2, 3, 4].map(() => newKeyLine())), Array(4).fill('ok'))
    const last = await addTen()
    assert.deepEqual(last.sort(), [...Array(5).fill('ok'), ...Array(5).fill('too_many_ssh_keys')])
  })

  test('SSH keys of an older database never expire', async () => {
    await using database = await fresh()
    const db = await database.open()
    const engine = db.getExecutor().adapter instanceof SqliteAdapter ? 'sqlite' : 'postgres'
    await insertSshKey(db, sshKeyRow('ada'))
    await sql`alter table ssh_keys drop column expires_at`.execute(db)
    await sql`update schema_version set oldest_server = 0, version = ${migrations.indexOf(sshKeyExpiry)}`.execute(
      db,
    )
    await migrate(db, engine, migrations.slice(0, migrations.indexOf(sshKeyExpiry) + 1))
    const [key] = await listSshKeys(db, 'all', wholeList)
    assert.deepEqual([key?.username, key?.expiresAt], ['ada', null])
  })

  test('an SSH key expires with the token that added it, unless added by an admin', async () => {
    await using database = await fresh()
    const db = await database.open()
    let now = 1_795_184_328_814
    const log = { debug() {}, info() {}, warn() {}, error() {} }
    const keys = createSshKeys({
      db,
      publish,
      clock: { now: () => now },
      log,
      repositories: noRepositories,
    })
    const expiresAt = now + 2 * dayMs
    const ada = await insertHolder(db, { username: 'ada', expiresAt })
    const admin = await insertHolder(db, { username: 'root', permissions: 'admin', expiresAt })
    const add = (principal: Principal, expiresInDays?: number | null) =>
      keys.add(principal, { publicKey: newKeyLine(), expiresInDays })
    const key = await add(ada)
    assert.equal(key.expiresAt, ada.expiresAt)
    assert.equal((await add(ada, 1)).expiresAt, now + dayMs)
    for (const longer of [3, null])
      await assert.rejects(add(ada, longer), { code: 'permission_missing' })
    assert.equal((await add({ ...ada, expiresAt: null }, null)).expiresAt, null)
    assert.equal((await add(admin)).expiresAt, admin.expiresAt)
    assert.equal((await add(admin, 30)).expiresAt, now + 30 * dayMs)
    assert.equal((await add(admin, null)).expiresAt, null)

    const blob = Buffer.from(key.publicKey.split(' ')[1] ?? '', 'base64')
    const found = await keys.principalOf(key.id)
    assert.equal((await keys.identify(blob))?.id, key.id)
    assert.ok(found && (await keys.refresh(found.principal)))
    now = expiresAt
    assert.equal(await keys.identify(blob), undefined)
    assert.equal(await keys.principalOf(key.id), undefined)
    assert.equal(await keys.refresh(found.principal), undefined)

    // Its current holder may register it again.
    const grace = await insertHolder(db, { username: 'grace' })
    const again = await keys.add(grace, { publicKey: key.publicKey })
    assert.equal((await keys.identify(blob))?.username, 'grace')
    assert.notEqual(again.id, key.id)
    assert.equal(await findSshKey(db, key.id), undefined)
  })

  test('expired SSH keys do not count towards the limit', async () => {
    await using database = await fresh()
    const db = await database.open()
    const now = Date.now()
    const log = { debug() {}, info() {}, warn() {}, error() {} }
    const keys = createSshKeys({
      db,
      publish,
      clock: { now: () => now },
      log,
      repositories: noRepositories,
    })
    for (let count = 0; count < 100; count++)
      await insertSshKey(db, { ...sshKeyRow('ada'), expiresAt: now })
    const ada = await insertHolder(db, { username: 'ada' })
    await keys.add(ada, { publicKey: newKeyLine() })
    assert.equal(await countSshKeys(db, 'ada'), 1)
  })

  test('a service is set up once', async () => {
    await using database = await fresh()
    const [one, two] = await Promise.all([database.open(), database.open()])
    const answers = await Promise.all([markInitialized(one, 1), markInitialized(two, 2)])
    assert.deepEqual(answers.sort(), [false, true])
  })

  test('a repository name is unique without regard to case, and looked up exactly', async () => {
    await using database = await fresh()
    const db = await database.open()
    const site = repositoryRow({ name: 'Site' })
    assert.equal(await insertRepository(db, site), true)
    assert.equal(await insertRepository(db, repositoryRow({ name: 'sITE' })), false)
    assert.equal(await isNameTaken(db, 'SITE'), true)
    assert.equal(await findRepository(db, { name: 'site' }, 'ada'), undefined)
    assert.deepEqual(await findRepository(db, { name: 'Site' }, 'ada'), {
      ...site,
      version: 0,
      pruneEpoch: 0,
      joinedSeq: 0,
      head: null,
      description: '',
      pushedAt: null,
      leakGuard: 'on',
      missingLfsObjects: 0,
      lfsBytes: 0,
      lfsLocks: 0,
      packBytes: null,
      objectFormat: null,
      runTokens: 'read',
      visibility: 'private',
      headChosen: 1,
      importedAt: null,
      deletedAt: null,
      namespaceId: null,
      role: undefined,
    })
    const former = await updateName(db, site.id, { name: 'site', namespaceId: null })
    assert.deepEqual(former, { name: 'Site', namespaceId: null })
    assert.equal((await findRepository(db, { id: site.id }, 'ada'))?.name, 'site')
    const other = repositoryRow({ name: 'other' })
    await insertRepository(db, other)
    await assert.rejects(updateName(db, other.id, { name: 'Site', namespaceId: null }))
    assert.equal(await updateName(db, 'gone', { name: 'x', namespaceId: null }), undefined)
  })

  test('concurrent creations of one name create one repository', async () => {
    await using database = await fresh()
    const [one, two] = await Promise.all([database.open(), database.open()])
    const attempts = Array.from({ length: 20 }, (_, index) =>
      insertRepository(index % 2 ? one : two, repositoryRow({ name: 'site' })),
    )
    const made = (await Promise.all(attempts)).filter(Boolean)
    assert.equal(made.length, 1)
  })

  test('a list has the repositories that a username owns or collaborates in, oldest first, paginated', async () => {
    await using database = await fresh()
    const db = await database.open()
    const [own, shared, foreign, open] = ['own', 'shared', 'foreign', 'open'].map((name) =>
      repositoryRow({ name, ownerUsername: name === 'own' ? 'ada' : 'grace' }),
    )
    assert.ok(own && shared && foreign && open)
    for (const row of [own, shared, foreign]) await insertRepository(db, row)
    await insertRepository(db, { ...open, visibility: 'internal' })
    await insertCollaborator(db, {
      repositoryId: shared.id,
      username: 'ada',
      createdAt: 1,
      role: 'maintain',
    })
    const names = async (...args: Parameters<typeof listRepositories>) =>
      (await listRepositories(...args)).map(({ name }) => name)
    const ofAda = (open: Visibility[], within?: string[]) =>
      names(db, { username: 'ada', open, within }, wholeList)
    assert.deepEqual(await ofAda([]), ['own', 'shared'])
    assert.deepEqual(await ofAda(['public']), ['own', 'shared'])
    assert.deepEqual(await ofAda(['internal', 'public']), ['own', 'shared', 'open'])
    assert.deepEqual(await ofAda(['internal', 'public'], [own.id]), ['own'])
    assert.deepEqual(await names(db, 'all', { after: own.id, limit: 1 }), ['shared'])
    assert.equal((await findRepository(db, { id: shared.id }, 'ada'))?.role, 'maintain')
    assert.equal((await findRepository(db, { id: shared.id }, 'Ada'))?.role, undefined)
  })

  test('protections and collaborators are stored once, in order, and deleted with their repository', async () => {
    await using database = await fresh()
    const db = await database.open()
    const { id: repositoryId, ...site } = repositoryRow({ name: 'site' })
    await insertRepository(db, { id: repositoryId, ...site })
    const rules = { owners: 'any', requires: '[]', approvals: 0, codeOwners: 0, queue: 0 } as const
    for (const [createdAt, branch] of ['main', 'dev'].entries()) {
      const protection = { branch, createdAt, ...rules }
      assert.equal(await insertProtection(db, { scopeId: repositoryId, ...protection }), true)
      assert.equal(await insertProtection(db, { scopeId: repositoryId, ...protection }), false)
    }
    assert.deepEqual(protectedBranchesIn(await listProtections(db, repositoryId)), ['main', 'dev'])
    const others = { ...rules, owners: 'none', requires: '["x"]' } as const
    assert.equal(
      await updateProtection(db, { scopeId: repositoryId, branch: 'dev', ...others }),
      true,
    )
    assert.equal(
      await updateProtection(db, { scopeId: repositoryId, branch: 'dev', ...others }),
      false,
    )
    assert.equal(
      await updateProtection(db, { scopeId: repositoryId, branch: 'no', ...others }),
      false,
    )
    assert.equal((await listProtectionsBetween(db, repositoryId, repositoryId)).length, 2)
    assert.equal(await deleteProtection(db, repositoryId, 'dev'), true)
    assert.equal(await deleteProtection(db, repositoryId, 'dev'), false)
    for (const [createdAt, username] of ['grace', 'ada'].entries()) {
      const granted = { username, createdAt, role: 'write' } as const
      assert.equal(await insertCollaborator(db, { repositoryId, ...granted }), true)
      assert.equal(await insertCollaborator(db, { repositoryId, ...granted }), false)
    }
    assert.deepEqual(await listCollaborators(db, repositoryId), [
      { username: 'grace', role: 'write' },
      { username: 'ada', role: 'write' },
    ])
    assert.equal(await deleteCollaborator(db, repositoryId, 'ada'), true)
    assert.equal(await deleteCollaborator(db, repositoryId, 'ada'), false)
    assert.equal(await deleteRepository(db, repositoryId), true)
    assert.equal(await deleteRepository(db, repositoryId), false)
    assert.deepEqual(await listProtections(db, repositoryId), [])
    assert.deepEqual(await listCollaborators(db, repositoryId), [])
  })

  test('concurrent changes of one protection keep what each of them sets', async () => {
    await using database = await fresh()
    const db = await database.open()
    const row = repositoryRow({ name: 'site' })
    await insertRepository(db, row)
    const protections = createProtections({ db, publish, clock: { now: Date.now } })
    const repository: NamedScope = { kind: 'repository', ...row }
    const actor = { kind: 'token', id: 'x', username: 'ada' } as const
    for (let round = 0; round < 20; round++) {
      const branch = { kind: 'branch', text: `branch-${round}` } as const
      await protections.put(actor, repository, branch)
      await Promise.all([
        protections.put(actor, repository, { ...branch, owners: 'none' }),
        protections.put(actor, repository, { ...branch, requires: [{ workflow: 'ci.yml' }] }),
      ])
      const last = (await protections.list(repository)).at(-1)
      assert.deepEqual([last?.owners, last?.requires], ['none', [{ workflow: 'ci.yml' }]])
    }
  })

  test('a push is finalized once', async () => {
    await using database = await fresh()
    const db = await database.open()
    const repository = repositoryRow({ name: 'site' })
    await insertRepository(db, repository)
    const ids = { id: newId(), repositoryId: repository.id }
    const push = toPushRow({ ...ids, updates: '[]', judgedAt: 10 })
    await insertPush(db, push)
    assert.deepEqual(await listUnfinishedPushes(db, push.repositoryId), [push])
    assert.deepEqual(await listWithUnfinished(db), [push.repositoryId])
    assert.deepEqual(await listUnfinishedPushes(db, 'another'), [])
    const outcome = { updates: [], keptUntil: null }
    assert.equal(await markFinished(db, push.id, { ...outcome, now: 20 }), true)
    assert.equal(await markFinished(db, push.id, { ...outcome, now: 30 }), false)
    assert.deepEqual(await listUnfinishedPushes(db, push.repositoryId), [])
    assert.deepEqual(await listWithUnfinished(db), [])
    const finished = { ...push, finishedAt: 20 }
    assert.deepEqual(await listSince(db, push), [])
    const [earlier, later] = ['0'.repeat(26), 'z'.repeat(26)]
    // Judged before the other one had finished, in either order; at the end of it; and later.
    assert.deepEqual(await listSince(db, { ...push, id: earlier }), [finished])
    assert.deepEqual(await listSince(db, { ...push, id: later }), [finished])
    assert.deepEqual(await listSince(db, { ...push, id: later, judgedAt: 20 }), [])
    assert.deepEqual(await listSince(db, { ...push, id: earlier, judgedAt: 21 }), [finished])
    await deleteRepository(db, repository.id)
    assert.equal(await markFinished(db, push.id, { ...outcome, now: 40 }), false)
  })

  test('events are numbered without gaps, under concurrent publishing', async () => {
    await using database = await fresh()
    const connections = await Promise.all(Array.from({ length: 3 }, () => database.open()))
    // As many at a time as have connections: others would wait for these, within a time limit.
    const publishAll = () =>
      Promise.allSettled(
        Array.from({ length: 30 }, (_, index) =>
          connections[index % 3]?.transaction().execute(async (tx) => {
            await publish(tx, index, [tokenDeleted(index), tokenDeleted(index)])
            if (index % 10 === 9) throw new Error('rolled back')
          }),
        ),
      )
    const outcomes = [...(await publishAll()), ...(await publishAll())]
    const kept = outcomes.filter(({ status }) => status === 'fulfilled').length
    assert.equal(kept, 54)
    const [db] = connections
    const rows = (await db?.selectFrom('events').select('seq').orderBy('seq').execute()) ?? []
    assert.deepEqual(
      rows.map(({ seq }) => seq),
      Array.from({ length: kept * 2 }, (_, index) => index + 1),
    )
  })

  test('a push of very many refs is one transaction of as many events', async () => {
    await using database = await fresh()
    const db = await database.open()
    const events = Array.from({ length: 5000 }, (_, index) => tokenDeleted(index))
    await db.transaction().execute((tx) => publish(tx, 1, events))
    const last = await db
      .selectFrom('events')
      .select('seq')
      .orderBy('seq', 'desc')
      .executeTakeFirst()
    assert.equal(last?.seq, 5000)
  })
})

function tokenDeleted(index: number) {
  const actor = { id: 'token', username: 'ada' }
  return {
    kind: 'token.deleted',
    actor,
    repositoryId: null,
    data: { tokenId: String(index) },
  } as const
}

function tokenRow(given: Partial<TokenRow>): TokenRow {
  const id = newId()
  const times = { createdAt: 1, expiresAt: null, lastUsedAt: null }
  return {
    id,
    name: 'test',
    tokenHash: id,
    username: id,
    permissions: 'repo:read',
    ...times,
    repositories: null,
    refs: null,
    delegatedFrom: null,
    delegationRoot: null,
    loginId: null,
    ...given,
  }
}

/** Inserts a token, and returns its principal. */
async function insertHolder(db: Db, given: Partial<TokenRow>): Promise<Principal> {
  const row = tokenRow(given)
  await insertToken(db, row)
  return toPrincipal(row)
}

function sshKeyRow(username: string): SshKeyRow {
  const id = newId()
  const key = { publicKey: 'ssh-ed25519 AAAA', keyType: 'ssh-ed25519', fingerprint: id }
  const times = { createdAt: 1, expiresAt: null, lastUsedAt: null }
  return {
    id,
    username,
    name: 'laptop',
    ...key,
    permissions: 'repo:read',
    repositories: null,
    ...times,
  }
}

function repositoryRow({
  name,
  ownerUsername = 'ada',
}: {
  name: string
  ownerUsername?: string
}): NewRepository {
  const owner = { ownerTokenId: 'token', ownerUsername }
  const createdAt = 1_795_184_328_814
  return { id: newId(), name, nameKey: name.toLowerCase(), ...owner, createdAt, state: 'ready' }
}
