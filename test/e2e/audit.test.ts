import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { newTokenString } from '#base/token-string.ts'
import { runSvc } from '../support/command.ts'
import { until } from '../support/condition.ts'
import { examine } from '../support/doctor.ts'
import { onEachServer } from '../support/each-server.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, temporaryFolder } from '../support/git.ts'
import { type Client, startService } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'

type Entry = {
  seq: number
  action: string
  actor: { id: string; username: string }
  via: string
  address: string | null
  repoName: string | null
  repositoryId: string | null
  data: Record<string, unknown>
}

async function audit(admin: Client, query = ''): Promise<Entry[]> {
  const { status, body, text } = await admin.get(`/audit?${query}`)
  assert.equal(status, 200, text)
  return body
}

function toLine({ action, actor, via, address, repoName }: Entry): string {
  return [action, actor.username, via, address, repoName].join(' ')
}

onEachServer((start) => {
  test('a change is recorded with its user, credential, transport and address', async () => {
    await using service = await start()
    await using project = await createProject()
    const { admin } = service
    const ada = await service.client({ username: 'ada' })
    await using user = await createSshUser(service, ada)
    await ada.post('/repos', { name: 'site' })
    await project.git('push', '--quiet', ada.remote('site'), 'main')
    await user.git(project.path, 'push', '--quiet', user.remote('site'), 'main:side')
    const { body: pushes } = await ada.get('/repos/site/pushes')
    await ada.post(`/repos/site/pushes/${pushes[0].id}/undo`)
    await ada.patch('/repos/site', { name: 'web' })
    const entries = await audit(admin, 'repository=web')
    assert.deepEqual(entries.map(toLine), [
      'repository.renamed ada api 127.0.0.1 web',
      'push ada api 127.0.0.1 web',
      'push ada ssh 127.0.0.1 web',
      'push ada http 127.0.0.1 web',
      'repository.created ada api 127.0.0.1 web',
    ])
    const [, , bySsh, byHttp] = entries
    assert.notEqual(bySsh?.actor.id, byHttp?.actor.id)
    assert.equal(byHttp?.actor.id, ada.id)
    const { refs, refCount, repositoryName } = byHttp?.data ?? {}
    assert.deepEqual([refCount, repositoryName], [1, 'site'])
    assert.deepEqual(refs, [
      {
        ref: 'refs/heads/main',
        before: '0'.repeat(40),
        after: (await project.git('rev-parse', 'main')).trim(),
        forced: false,
      },
    ])
    assert.deepEqual(
      (await audit(admin, `credential=${ada.id}&action=push,repository.renamed`)).length,
      3,
    )
  })
})

test('a push of many refs is one entry', async () => {
  await using service = await startService()
  await using project = await createProject()
  const ada = await service.client({ username: 'ada' })
  await ada.post('/repos', { name: 'site' })
  const specs = Array.from({ length: 150 }, (_, index) => `main:refs/heads/b${index}`)
  await project.git('push', '--quiet', ada.remote('site'), ...specs)
  const [entry, ...others] = await audit(service.admin, 'action=push')
  assert.deepEqual([others.length, entry?.data.refCount], [0, 150])
  const { refs = [] } = (entry?.data ?? {}) as { refs?: object[] }
  assert.equal(refs.length, 100)
})

test('only admins read it', async () => {
  await using service = await startService()
  const ada = await service.client({ username: 'ada' })
  assert.equal((await ada.get('/audit')).body.code, 'permission_missing')
  for (const [query, status] of [
    ['action=nonsense', 400],
    ['limit=0', 400],
    ['cursor=x', 400],
    ['cursor=0', 400],
    ['via=pigeon', 400],
    ['repository=gone', 404],
  ] as const)
    assert.equal((await service.admin.get(`/audit?${query}`)).status, status, query)
})

test('behind a trusted proxy the address is that of the client', async () => {
  await using service = await startService({ env: { SVC_TRUSTED_PROXIES: '127.0.0.1' } })
  const { token } = service.admin
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'x-forwarded-for': '198.51.100.4, 203.0.113.9',
  }
  const body = JSON.stringify({ name: 'site' })
  const { status } = await fetch(`${service.url}/repos`, { method: 'POST', headers, body })
  assert.equal(status, 201)
  assert.deepEqual((await audit(service.admin, 'address=203.0.113.9')).map(toLine), [
    'repository.created admin api 203.0.113.9 site',
  ])
})

test('a push that a crash interrupted is recorded with its address after the restart', {}, async () => {
  await using folder = await temporaryFolder()
  await using project = await createProject()
  const dataDir = join(folder.path, 'data')
  const env = { SVC_ADMIN_TOKEN: newTokenString() }
  {
    const dying = { ...env, SVC_FAULT_POINT: 'push.moved' }
    await using service = await startService({ dataDir, env: dying })
    await service.admin.post('/repos', { name: 'site' })
    await assert.rejects(project.git('push', '--quiet', service.admin.remote('site'), 'main'))
    await until('it was killed', () => service.hasEnded())
  }
  await using service = await startService({ dataDir, env })
  const [push] = await audit(service.admin, 'action=push')
  assert.deepEqual(push && toLine(push), 'push admin http 127.0.0.1 site')
})

test('svc audit lists entries, also of commands', async () => {
  await using service = await startService()
  const { dataDir, admin } = service
  await admin.post('/repos', { name: 'site' })
  const env = { SVC_DATA_DIR: dataDir }
  assert.equal((await runSvc(['repos', 'create', 'local'], env)).code, 0)
  const { out, code } = await runSvc(['audit', '--action', 'repository.created'], env)
  const lines = out.trim().split('\n')
  assert.deepEqual([code, lines.length], [0, 3])
  assert.match(lines[0] ?? '', /^NUMBER +TIME +USER +VIA +ADDRESS +ACTION +REPOSITORY +DETAILS$/)
  assert.match(lines[1] ?? '', / admin +cli +repository\.created +local +name=local$/)
  assert.match(lines[2] ?? '', / admin +api +127\.0\.0\.1 +repository\.created +site +name=site$/)
  // A time is given as on a server: also in milliseconds.
  const later = await runSvc(['audit', '--since', String(Date.now() + 60_000)], env)
  assert.deepEqual([later.code, later.out.trim().split('\n').length], [0, 1])
  const asJson = await runSvc(['audit', '--json', '--via', 'api', '--limit', '1'], env)
  assert.deepEqual(JSON.parse(asJson.out), await audit(admin, 'via=api&limit=1'))
  for (const [args, message] of [
    [
      ['--action', 'nonsense'],
      /"nonsense" is not accepted; an action is .*: artifact\.deleted, audit\.pruned, /,
    ],
    [['--since', 'yesterday'], /--since takes a time such as /],
    [['--limit', '0'], /--limit takes a whole number from 1\./],
    [['--repository', 'gone'], /gone/],
  ] as const) {
    const refused = await runSvc(['audit', ...args], env)
    assert.notEqual(refused.code, 0)
    assert.match(refused.err, message)
  }
})

test('the doctor finds an entry that was changed or removed', {
  ...exhaustive,
}, async () => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  const env = { SVC_ADMIN_TOKEN: newTokenString() }
  {
    await using service = await startService({ dataDir, env })
    for (let index = 0; index < 9; index++)
      await service.admin.post('/repos', { name: `site-${index}` })
  }
  const database = new DatabaseSync(join(dataDir, 'svc.db'), { timeout: 5000 })
  database.exec('create table kept as select * from audit')
  const check = async (statement: string) => {
    database.exec(statement)
    const { of } = await examine({ dataDir, args: ['--no-fsck'] })
    database.exec('delete from audit; insert into audit select * from kept')
    database.exec("update marks set value = 10 where name = 'audit'")
    return of('audit')
      .map(({ level, found }) => `${level}: ${found}`)
      .join()
  }
  assert.match(
    await check('select 1'),
    /^ok: 10 entries, none changed or removed\. The hash of the last one, 10, is [0-9a-f]{64}\.$/,
  )
  const expected = [
    ["update audit set actor_username = 'eve' where seq = 5", 'Entry 5, or the hash of the one'],
    ["update audit set address = '192.0.2.1' where seq = 1", 'Entry 1, the oldest, was changed.'],
    ["update audit set action = 'audit.pruned', data = '{' where seq = 1", 'Entry 1 was changed.'],
    ["update audit set data = '{}' where seq = 10", 'Entry 10, or the hash of the one'],
    ['delete from audit where seq = 4', 'Entry 4 was removed.'],
    ['delete from audit where seq in (4, 5, 6)', 'Entries 4 to 6 were removed.'],
    ['delete from audit where seq < 3', 'Entries 1 to 2 were removed.'],
    ['delete from audit where seq > 8', 'Entries 9 to 10 were removed.'],
    ['delete from audit', 'Entries 1 to 10 were removed.'],
    [
      "update marks set value = 9 where name = 'audit'",
      'The entries after 9 were not added by svc.',
    ],
  ]
  for (const [statement = '', text = ''] of expected)
    assert.ok((await check(statement)).startsWith(`fault: ${text}`), statement)
  database.close()
})
