import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { permissions as allPermissions } from '#access/permissions.ts'
import { type Event, eventKinds } from '#events/events.ts'
import { sampleEvent } from '../support/event-kinds.ts'
import { followStream } from '../support/event-stream.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { logIn } from '../support/page-client.ts'
import { publish } from '../support/publish.ts'
import type { Client } from '../support/service.ts'

type Kind = Event['kind']

/** Who may see what, as docs/events.md says: a permission, `owner` where it needs that, too. */
const expected: Record<Kind, string> = {
  push: 'repo:read',
  'push.leak_allowed': 'repo:read',
  'repository.created': 'repo:read',
  'repository.imported': 'repo:read',
  'repository.renamed': 'repo:read',
  'repository.description': 'repo:read',
  'repository.leak_guard': 'repo:read',
  'repository.run_tokens': 'repo:read',
  'repository.visibility': 'repo:read',
  'repository.transferred': 'repo:read',
  'repository.default_branch': 'repo:read',
  'repository.deleted': 'repo:read',
  'repository.restored': 'repo:read',
  'repository.purged': 'repo:read',
  'protection.added': 'repo:read',
  'protection.changed': 'repo:read',
  'protection.removed': 'repo:read',
  'collaborator.added': 'collaborator:read',
  'collaborator.changed': 'collaborator:read',
  'collaborator.removed': 'collaborator:read',
  'namespace.created': 'admin',
  'namespace.limited': 'admin',
  'namespace.updated': 'admin',
  'namespace.deleted': 'admin',
  'namespace.member_added': 'admin',
  'namespace.member_removed': 'admin',
  'secret.saved': 'secrets:read',
  'secret.deleted': 'secrets:read',
  'lfs_lock.created': 'repo:read',
  'lfs_lock.deleted': 'repo:read',
  'status.reported': 'workflow:read',
  'change.opened': 'repo:read',
  'change.version_added': 'repo:read',
  'change.updated': 'repo:read',
  'change.commented': 'repo:read',
  'change.comment_updated': 'repo:read',
  'change.verdict_given': 'repo:read',
  'change.landed': 'repo:read',
  'change.queued': 'repo:read',
  'change.unqueued': 'workflow:read',
  'queue.trial_started': 'repo:read',
  workflow: 'workflow:read',
  'webhook.created': 'webhook:read maintainer',
  'webhook.updated': 'webhook:read maintainer',
  'webhook.disabled': 'webhook:read maintainer',
  'webhook.deleted': 'webhook:read maintainer',
  'user.updated': 'admin',
  'user.deleted': 'admin',
  'token.created': 'admin',
  'token.deleted': 'admin',
  'ssh_key.added': 'ada',
  'ssh_key.deleted': 'ada',
  'trust_rule.created': 'collaborator:read owner',
  'trust_rule.deleted': 'collaborator:read owner',
}
const reading = allPermissions.filter((permission) => permission.endsWith(':read'))

let service: InProcess

before(async () => {
  service = await startInProcess()
  const owner = await service.client({ username: 'ada', permissions: ['repo:write'] })
  await owner.post('/repos', { name: 'site' })
  await service.admin.post('/repos/site/collaborators', { username: 'grace' })
})

after(() => service[Symbol.asyncDispose]())

/** The events of every kind that clients get, from the log and from an open stream. */
async function seenBy(clients: Client[], repositoryId: string): Promise<Kind[][]> {
  const open = clients.map((client) => followStream(client, '/events'))
  const streams = await Promise.all(open)
  const start = await lastSeq()
  const now = Date.now()
  const events = eventKinds.map((kind) =>
    sampleEvent(kind, /^(token|ssh_key)\./.test(kind) ? null : repositoryId),
  )
  await service.db.transaction().execute((tx) => publish(tx, now, events))
  // Something that each of them sees at last, be it that it holds no permission.
  const ends = clients.map(({ username }) => {
    const end = sampleEvent('ssh_key.deleted', null)
    return { ...end, data: { keyId: 'end', username } } as Event
  })
  await service.db.transaction().execute((tx) => publish(tx, now, ends))
  const isEnd = ({ data }: { data: { keyId?: string } }) => data.keyId === 'end'
  const seen = clients.map(async (client, index) => {
    const answer = await client.get(`/events?after=${start}&limit=1000`)
    const looked = answer.body.filter((event: never) => !isEnd(event))
    const followed: typeof looked = []
    for (;;) {
      const received = await streams[index]?.next()
      if (!received) assert.fail('the stream has ended')
      if (received.data === '') continue
      const event = JSON.parse(received.data)
      assert.deepEqual([received.id, received.name], [String(event.seq), event.kind])
      if (!isEnd(event)) followed.push(event)
      else if (event.data.username === client.username) break
    }
    assert.deepEqual(followed, looked, client.username)
    return looked.map(({ kind }: Event) => kind)
  })
  const kinds = await Promise.all(seen)
  for (const stream of streams) await stream[Symbol.asyncDispose]()
  return kinds
}

async function lastSeq(): Promise<number> {
  const { value } = await service.db
    .selectFrom('marks')
    .select('value')
    .where('name', '=', 'events')
    .executeTakeFirstOrThrow()
  return value
}

async function idOf(name: string): Promise<string> {
  return (await service.admin.get(`/repos/${name}`)).body.id
}

function kindsFor(test: (needs: string) => boolean): Kind[] {
  return eventKinds.filter((kind) => test(expected[kind]))
}

test('an admin sees everything', async () => {
  const { admin } = service
  assert.deepEqual(await seenBy([admin], await idOf('site')), [eventKinds])
})

test('an owner, a maintainer, a collaborator and another user see what their permissions allow', async () => {
  const id = await idOf('site')
  const all = { permissions: reading }
  const [owner, maintainer, collaborator, stranger] = await Promise.all([
    service.client({ username: 'ada', ...all }),
    service.client({ username: 'kate', ...all }),
    service.client({ username: 'grace', ...all }),
    service.client({ username: 'mallory', ...all }),
  ])
  await service.admin.post('/repos/site/collaborators', { username: 'kate', role: 'maintain' })
  assert.deepEqual(await seenBy([owner, maintainer, collaborator, stranger], id), [
    kindsFor((needs) => needs !== 'admin'),
    kindsFor((needs) => /:read( maintainer)?$/.test(needs)),
    kindsFor((needs) => needs.endsWith(':read')),
    [],
  ])
})

for (const permission of reading) {
  test(`${permission} alone shows its kinds and no others`, async () => {
    const id = await idOf('site')
    const [owner, collaborator, without] = await Promise.all([
      service.client({ username: 'ada', permissions: [permission] }),
      service.client({ username: 'grace', permissions: [permission] }),
      service.client({
        username: 'grace',
        permissions: allPermissions.filter((one) => one !== permission && one !== 'admin'),
      }),
    ])
    assert.deepEqual(await seenBy([owner, collaborator, without], id), [
      kindsFor((needs) => needs === 'ada' || needs.split(' ')[0] === permission),
      kindsFor((needs) => needs === permission),
      kindsFor((needs) => needs.endsWith(':read') && needs !== permission),
    ])
  })
}

test('of a deleted repository, the former owner sees only the deletion and the purge, and an admin everything', async () => {
  const owner = await service.client({ username: 'ada', permissions: [...reading, 'repo:write'] })
  const collaborator = await service.client({ username: 'grace', permissions: reading })
  await owner.post('/repos', { name: 'gone' })
  await service.admin.post('/repos/gone/collaborators', { username: 'grace' })
  const id = await idOf('gone')
  await service.admin.delete('/repos/gone')
  const [byOwner, byCollaborator, byAdmin] = await seenBy([owner, collaborator, service.admin], id)
  assert.deepEqual(byOwner, [
    'repository.deleted',
    'repository.purged',
    'ssh_key.added',
    'ssh_key.deleted',
  ])
  assert.deepEqual(byCollaborator, [])
  assert.deepEqual(byAdmin, eventKinds)
})

test('a missing and an inaccessible repository are not distinguished', async () => {
  const stranger = await service.client({ username: 'mallory', permissions: reading })
  const there = await stranger.get('/events?repository=site')
  const absent = await stranger.get('/events?repository=sites')
  assert.deepEqual([there.status, there.body.code], [404, 'repository_not_found'])
  assert.equal(there.text, absent.text.replaceAll('sites', 'site'))
  const without = await service.client({ username: 'ada', permissions: ['repo:write'] })
  assert.equal((await without.get('/events?repository=site')).body.code, 'permission_missing')
  assert.equal((await without.get('/events')).status, 200)
})

test('visitors do not see the names that a repository had in another namespace', async () => {
  await service.admin.post('/namespaces', { name: 'veiled' })
  await service.admin.post('/repos', { name: 'veiled/codename' })
  await service.admin.patch('/repos/veiled%2Fcodename', { name: 'veiled/plan' })
  await service.admin.patch('/repos/veiled%2Fplan', { name: 'published', visibility: 'public' })
  const id = await idOf('published')
  const push = sampleEvent('push', id)
  const [ofPush, ofRun] = [push, sampleEvent('workflow', id)].map((event) => ({
    ...event,
    data: { ...event.data, repositoryName: 'veiled/plan' },
  })) as [Event, Event]
  await service.db.transaction().execute((tx) => publish(tx, Date.now(), [ofPush, ofRun]))
  const visitor = await service.client({ username: 'mallory', permissions: reading })
  const path = '/events?repository=published'
  const { text, body } = await visitor.get(path)
  assert.doesNotMatch(text, /veiled|codename/)
  const renamed = body.filter(({ kind }: { kind: string }) => kind === 'repository.renamed')
  assert.deepEqual(
    renamed.map(({ data }: { data: object }) => data),
    [
      { name: '', formerName: '' },
      { name: 'published', formerName: '' },
    ],
  )
  assert.equal((await service.admin.get(path)).text.match(/veiled\/(codename|plan)/g)?.length, 6)
  const { text: home } = await (await logIn(service.url, visitor.token)).get('/')
  assert.match(home, /renamed the repository to/)
  assert.doesNotMatch(home, /veiled|codename/)
  await using stream = await followStream(visitor, `${path}&after=0`)
  for (const event of body) {
    let next = await stream.next()
    while (next?.data === '') next = await stream.next()
    assert.deepEqual(JSON.parse(next?.data ?? ''), event)
  }
})

test('visitors do not see from where a repository was imported', async () => {
  const owner = await service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
  await owner.post('/repos', { name: 'open', visibility: 'internal' })
  const visitor = await service.client({ username: 'mallory', permissions: reading })
  const query = '/events?repository=open&kind=repository.imported'
  await using stream = await followStream(visitor, query)
  const event = sampleEvent('repository.imported', await idOf('open'))
  await service.db.transaction().execute((tx) => publish(tx, Date.now(), [event]))
  let followed = await stream.next()
  while (followed?.data === '') followed = await stream.next()
  const [shown] = (await owner.get(query)).body
  assert.deepEqual(shown.data, event.data)
  const [seen] = (await visitor.get(query)).body
  assert.deepEqual(seen, { ...shown, data: { ...event.data, source: '' } })
  assert.deepEqual(JSON.parse(followed?.data ?? ''), seen)
})
