import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Principal } from '#access/principal.ts'
import { newId } from '#base/ids.ts'
import { listLiveUsernames } from '#identity/tokens/token-store.ts'
import { countUsersLike } from '#identity/user-store.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { publish } from '../../../test/support/publish.ts'
import { keepFormerName } from '../claim-name.ts'
import { findRepositoryAudience, insertCollaborator } from '../collaborator-store.ts'
import { hasVisibleRepository } from '../namespace-store.ts'
import { holdPlace, requirePlace, requireSingleUse } from '../place-name.ts'
import { listRepositories } from '../repository-list-store.ts'
import { findRepository, insertRepository, viewerOf } from '../repository-store.ts'
import { createNamespaces } from './namespaces.ts'

const clock = { now: () => 1_795_184_328_814 }

function user(username: string, ...permissions: 'admin'[]): Principal {
  return { kind: 'token', id: username, username, permissions: new Set(permissions) }
}

type Db = Parameters<typeof createNamespaces>[0]['db']

const kitOf = (db: Db) => ({
  ...{ db, publish, clock, countUsersLike },
  usernamesAmong: (usernames: string[]) => listLiveUsernames(db, usernames, clock.now()),
})

/** Creates a repository as the life cycle does, without its files. */
async function create(db: Db, principal: Principal, name: string): Promise<string> {
  const place = await requirePlace(db, principal, name)
  const id = newId()
  const { username: ownerUsername } = principal
  const row = { id, name, nameKey: name.toLowerCase(), namespaceId: place?.id ?? null }
  const rest = { ownerUsername, ownerTokenId: 't', createdAt: 1, state: 'ready' } as const
  await db.transaction().execute(async (tx) => {
    await holdPlace(tx, place)
    if (!(await insertRepository(tx, { ...row, ...rest }))) throw new Error('taken')
    const about = { actor: principal, repositoryId: id, data: { name } }
    await publish(tx, 1, [{ kind: 'repository.created', ...about }])
    await requireSingleUse(tx, name)
  })
  return id
}

onEachDatabase((fresh) => {
  test('a user has the highest role of collaborator, member and groups', async () => {
    await using database = await fresh()
    const db = await database.open()
    const settings = { namespaceCreators: ['group:leads'] }
    const namespaces = createNamespaces({ ...kitOf(db), settings })
    const [ada, eve] = [user('ada'), user('eve')]
    await assert.rejects(namespaces.requireCreator(ada), { code: 'permission_missing' })
    await db.insertInto('userGroups').values({ username: 'ada', name: 'leads' }).execute()
    await namespaces.requireCreator(ada)
    const acme = await namespaces.create(ada, 'acme')
    const id = await create(db, ada, 'acme/site')
    const plain = await create(db, ada, 'site')
    const roleOf = async () => (await findRepository(db, { id }, 'eve'))?.role
    const sees = async () =>
      (await listRepositories(db, viewerOf(eve), { after: '', limit: 9 })).map((one) => one.id)
    assert.deepEqual([await roleOf(), await sees()], [undefined, []])
    await assert.rejects(namespaces.open(eve, 'acme'), { code: 'namespace_not_found' })
    await assert.rejects(create(db, eve, 'acme/x'), { code: 'namespace_not_found' })

    await db
      .insertInto('userGroups')
      .values(['web', 'ops'].map((name) => ({ username: 'eve', name })))
      .execute()
    await namespaces.setMember(ada, acme, { member: 'group:web', role: 'read' })
    assert.deepEqual([await roleOf(), await sees()], ['read', [id]])
    assert.equal((await namespaces.open(eve, 'acme')).role, 'read')
    const { unknown } = await namespaces.setMember(ada, acme, { member: 'group:wbe', role: 'read' })
    const listed = (await namespaces.listMembers(acme)).map((one) => [one.member, one.unknown])
    assert.deepEqual(
      [unknown, listed.sort()],
      [
        true,
        [
          ['ada', true],
          ['group:wbe', true],
          ['group:web', false],
        ],
      ],
    )
    await namespaces.removeMember(ada, acme, 'group:wbe')
    await insertCollaborator(db, { repositoryId: id, username: 'eve', createdAt: 1, role: 'write' })
    assert.equal(await roleOf(), 'write')
    await namespaces.setMember(ada, acme, { member: 'group:ops', role: 'maintain' })
    assert.equal(await roleOf(), 'maintain')
    assert.equal((await namespaces.list(eve, { after: '', limit: 9 }))[0]?.role, 'maintain')
    assert.deepEqual(
      (await findRepositoryAudience(db, id))?.roles,
      new Map([
        ['eve', 'maintain'],
        ['ada', 'admin'],
      ]),
    )
    assert.equal((await findRepository(db, { id: plain }, 'eve'))?.role, undefined)
    await db.deleteFrom('userGroups').where('name', '=', 'ops').execute()
    assert.equal(await roleOf(), 'write')
    await namespaces.removeMember(ada, acme, 'group:web')
    await db.deleteFrom('collaborators').execute()
    assert.deepEqual([await roleOf(), await sees()], [undefined, []])
    assert.equal(await hasVisibleRepository(db, viewerOf(eve), acme.id), false)
  })

  test('renames of a repository leave space for those of its namespace', async () => {
    await using database = await fresh()
    const db = await database.open()
    const namespaces = createNamespaces({
      ...kitOf(db),
      settings: { namespaceCreators: undefined },
    })
    const admin = user('root', 'admin')
    let acme = await namespaces.create(admin, 'acme')
    const repositoryId = await create(db, admin, 'acme/site')
    const row = { repositoryId, freedAt: clock.now() }
    const insert = (count: number, prefix: string) => {
      const names = Array.from({ length: count }, (_, at) => `${prefix}-${at}`)
      const rows = names.map((name) => ({ ...row, name, nameKey: name }))
      return db.insertInto('formerNames').values(rows).execute()
    }
    await insert(100, 'acme/was')
    const claim = { name: 'acme/next', repositoryId, now: clock.now() }
    await assert.rejects(keepFormerName(db, claim), { code: 'too_many_renames' })
    acme = await namespaces.update(admin, acme, { name: 'emca' })
    assert.equal((await findRepository(db, { id: repositoryId }, 'root'))?.name, 'emca/site')
    await insert(99, 'emca/was')
    const renamed = namespaces.update(admin, acme, { name: 'full' })
    await assert.rejects(renamed, { code: 'too_many_renames' })
  })

  test('of concurrent creations of a namespace and a repository, one takes the name', async () => {
    await using database = await fresh()
    const [one, other] = await Promise.all([database.open(), database.open()])
    const namespaces = createNamespaces({
      ...kitOf(one),
      settings: { namespaceCreators: undefined },
    })
    const admin = user('root', 'admin')
    for (const name of ['a', 'b', 'c', 'd']) {
      const outcomes = await Promise.allSettled([
        namespaces.create(admin, name),
        create(other, admin, name),
      ])
      const done = outcomes.filter(({ status }) => status === 'fulfilled')
      assert.equal(done.length, 1, JSON.stringify(outcomes))
    }
    const others = await Promise.all(['x', 'y', 'w'].map((name) => namespaces.create(admin, name)))
    const taking = await Promise.allSettled([
      ...others.map((namespace) => namespaces.update(admin, namespace, { name: 'z' })),
      namespaces.create(admin, 'z'),
    ])
    const refused = taking.filter((outcome) => outcome.status === 'rejected')
    assert.deepEqual(
      refused.map(({ reason }) => reason.code),
      Array(3).fill('namespace_name_taken'),
    )
    // A repository is not put into a namespace that is deleted or renamed meanwhile.
    const acme = await namespaces.create(admin, 'acme')
    const [moved, made] = await Promise.allSettled([
      namespaces.update(admin, acme, { name: 'apex' }),
      create(other, admin, 'acme/site'),
    ])
    assert.equal(moved.status, 'fulfilled')
    const rows = await one.selectFrom('repositories').select('name').execute()
    const name = rows.map((row) => row.name).find((text) => text.includes('/'))
    assert.equal(name, made.status === 'fulfilled' ? 'apex/site' : undefined)
  })
})
