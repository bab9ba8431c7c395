// Tags: each-store

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { permissions } from '#access/permissions.ts'
import { newTokenString } from '#base/token-string.ts'
import { runSvc } from '../support/command.ts'
import { until } from '../support/condition.ts'
import { onEachServer } from '../support/each-server.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { onlyLocal } from '../support/kind-of-store.ts'
import type { ListedPush } from '../support/pushes.ts'
import { startReceiver } from '../support/receiver.ts'
import { type Client, createClient, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const retries = { SVC_WEBHOOK_RETRY_SCHEDULE: '0,1,1,1,1,1,1,1,1,1' }

const parts = ['protections/branches', 'collaborators', 'secrets', 'webhooks', 'pushes']

/** Everything that belongs to a repository and does not change when it is deleted and restored. */
async function contentOf(owner: Client, name: string, webhookId: string) {
  const texts: string[] = []
  const paths = [...parts, `webhooks/${webhookId}/deliveries`].map((part) => `/${part}`)
  for (const part of ['', ...paths]) {
    const { status, text } = await owner.get(`/repos/${name}${part}`)
    assert.equal(status, 200, text)
    texts.push(text.replaceAll(new RegExp(`(?<=repos/|:\\d+/|[nN]ame":")${name}\\b`, 'g'), 'NAME'))
  }
  const { stdout } = await git('/', ['ls-remote', owner.remote(name)])
  return [...texts, stdout]
}

async function deletedOf(client: Client): Promise<{ id: string; name: string }[]> {
  return (await client.get('/deleted-repos')).body
}

const everything = permissions.filter((permission) => permission !== 'admin')

onEachServer((start) => {
  test('a deleted repository is restored with everything that belonged to it', async () => {
    await using service = await start(retries)
    await using receiver = await startReceiver()
    await using project = await createProject()
    const owner = await service.client({ username: 'ada', permissions: everything })
    const other = await service.client({ username: 'grace', permissions: everything })
    const { body: created } = await owner.post('/repos', { name: 'site', defaultBranch: 'trunk' })
    const at = '/repos/site'
    await owner.put(`${at}/protections/branches/release/*`)
    await owner.post(`${at}/collaborators`, { username: 'grace' })
    await owner.put(`${at}/secrets/TOKEN`, { value: 'open sesame' })
    const hook = { url: receiver.url, events: ['push'], secret: 'hush' }
    const { body: webhook } = await owner.post(`${at}/webhooks`, hook)
    await project.git('push', '--quiet', owner.remote('site'), 'HEAD:trunk', 'HEAD:side')
    await project.git('commit', '--quiet', '--amend', '--allow-empty', '-m', 'Overwritten')
    await project.git('push', '--quiet', '--force', owner.remote('site'), 'HEAD:side')
    await pushFiles(owner, 'site', oneStep('true'), { branch: 'ci' })
    const { body: run } = await owner.post(`${at}/workflows`, { branch: 'ci' })
    await until('all is delivered', async () => {
      const { body } = await owner.get(`${at}/webhooks/${webhook.id}/deliveries`)
      return body.length === 4 && body.every(({ status }: never) => status === 'success')
    })
    const before = await contentOf(owner, 'site', webhook.id)
    const { body: site } = await owner.get(at)

    assert.equal((await owner.delete(at)).status, 204)
    assert.ok(!existsSync(site.path))
    for (const part of ['', ...parts.map((part) => `/${part}`)]) {
      const gone = await owner.get(`${at}${part}`)
      assert.deepEqual([gone.status, gone.body.code], [404, 'repository_not_found'])
    }
    assert.deepEqual((await owner.get('/repos')).body, [])
    await assert.rejects(git('/', ['ls-remote', owner.remote('site')]), /no repository "site"/)
    const [deleted] = await deletedOf(owner)
    assert.deepEqual(
      { ...deleted, deletedAt: 0, purgeAt: 0 },
      {
        ...{ id: site.id, name: 'site', createdAt: site.createdAt, deletedAt: 0, purgeAt: 0 },
        ...{ ownerTokenId: site.ownerTokenId, ownerUsername: 'ada' },
      },
    )

    // The name used again inherits nothing, and what uses it is not replaced.
    assert.equal((await other.post('/repos', { name: 'Site' })).status, 201)
    const { body: none } = await other.get('/repos/Site/collaborators')
    assert.deepEqual(none.collaborators, [])
    for (const part of ['secrets', 'webhooks', 'pushes', 'workflows'])
      assert.deepEqual((await other.get(`/repos/Site/${part}`)).body, [], part)
    const taken = await owner.post(`/deleted-repos/${site.id}/restore`)
    assert.deepEqual([taken.status, taken.body.code], [409, 'repository_name_taken'])
    assert.ok(!existsSync(site.path))

    const restored = await owner.post(`/deleted-repos/${site.id}/restore`, { name: 'back' })
    assert.equal(restored.status, 200, restored.text)
    assert.deepEqual(restored.body, { ...site, ...restored.body, defaultBranch: 'trunk' })
    assert.deepEqual([restored.body.name, restored.body.path], ['back', created.path])
    assert.deepEqual(await contentOf(owner, 'back', webhook.id), before)
    assert.deepEqual(await deletedOf(owner), [])
    const { body: ended } = await owner.get(`/repos/back/workflows/${run.id}`)
    assert.deepEqual([ended.status, ended.conclusion], ['completed', 'cancelled'])

    // What a push overwrote is still retained.
    const pushes: ListedPush[] = (await owner.get('/repos/back/pushes')).body
    const forced = pushes.find(({ refs }) => refs.some((ref) => ref.forced))
    assert.equal((await owner.post(`/repos/back/pushes/${forced?.id}/undo`)).status, 200)
    await receiver.untilReceived(5)
    const { body: events } = await owner.get('/events?repository=back&kind=repository.restored')
    assert.deepEqual(
      events.map(({ data, repoName }: never) => [data, repoName]),
      [[{ name: 'back', formerName: 'site' }, 'back']],
    )
  })

  test('a purged repository is gone, with its files and its rows', async () => {
    await using service = await start(retries)
    const { admin } = service
    await using project = await createProject()
    for (const name of ['one', 'two', 'three']) await admin.post('/repos', { name })
    await project.git('push', '--quiet', admin.remote('one'), 'main')
    const { body: one } = await admin.get('/repos/one')
    for (const name of ['one', 'two', 'three']) await admin.delete(`/repos/${name}`)
    const first = await admin.get('/deleted-repos?limit=2')
    assert.deepEqual(
      first.body.map(({ name }: never) => name),
      ['one', 'two'],
    )
    const [, next = ''] = /<([^>]+)>/.exec(first.headers.get('link') ?? '') ?? []
    assert.deepEqual(
      (await admin.get(next)).body.map(({ name }: never) => name),
      ['three'],
    )

    assert.equal((await admin.delete(`/deleted-repos/${one.id}`)).status, 204)
    for (const again of [
      await admin.delete(`/deleted-repos/${one.id}`),
      await admin.post(`/deleted-repos/${one.id}/restore`),
    ])
      assert.deepEqual([again.status, again.body.code], [404, 'repository_not_found'])
    assert.ok(!existsSync(join(service.dataDir, 'deleted', basename(one.path))))
    const { body: events } = await admin.get('/events?kind=repository.deleted,repository.purged')
    assert.deepEqual(events.map(({ kind, data }: never) => [kind, data]).at(-1), [
      'repository.purged',
      { name: 'one', ownerUsername: 'admin' },
    ])
  })
})

test('to others a deleted repository does not exist', async () => {
  await using service = await startService()
  const owner = await service.client({ username: 'ada', permissions: everything })
  const collaborator = await service.client({ username: 'grace', permissions: everything })
  await owner.post('/repos', { name: 'site' })
  await owner.post('/repos/site/collaborators', { username: 'grace' })
  // A collaborator may delete, and only the owner undo that.
  const { body: site } = await owner.get('/repos/site')
  assert.equal((await collaborator.delete('/repos/site')).status, 204)
  assert.deepEqual(await deletedOf(collaborator), [])
  const calls = [
    (client: Client, id: string) => client.post(`/deleted-repos/${id}/restore`),
    (client: Client, id: string) => client.delete(`/deleted-repos/${id}`),
  ]
  const unknown = site.id.replace(/^./, '7')
  for (const call of calls) {
    const there = await call(collaborator, site.id)
    const absent = await call(collaborator, unknown)
    assert.deepEqual([there.status, there.body.code], [404, 'repository_not_found'])
    assert.equal(there.text.replaceAll(site.id, unknown), absent.text)
  }
  // Its other events are hidden from the collaborator again, and those of others never appear.
  const { body: seen } = await collaborator.get('/events')
  assert.deepEqual(seen, [])
  const colleague = await service.client({ username: 'ada', permissions: ['repo:delete'] })
  assert.equal((await colleague.get('/deleted-repos')).status, 403)
  assert.equal((await colleague.post(`/deleted-repos/${site.id}/restore`)).status, 200)
  assert.equal((await collaborator.get('/repos/site')).status, 200)
  assert.equal((await service.admin.delete('/repos/site')).status, 204)
  assert.deepEqual(
    (await deletedOf(service.admin)).map(({ id }) => id),
    [site.id],
  )
})

test('a collaborator with the role admin finds, restores and purges what they may delete', async () => {
  await using service = await startService()
  const owner = await service.client({ username: 'ada', permissions: everything })
  await owner.post('/repos', { name: 'site' })
  const { body: site } = await owner.get('/repos/site')
  const roles = ['read', 'write', 'maintain', 'admin']
  for (const role of roles) await owner.post('/repos/site/collaborators', { username: role, role })
  const [reader, writer, maintainer, admin] = await Promise.all(
    roles.map((username) => service.client({ username, permissions: everything })),
  )
  assert.ok(reader && writer && maintainer && admin)
  assert.equal((await admin.delete('/repos/site')).status, 204)
  for (const other of [reader, writer, maintainer]) {
    assert.deepEqual(await deletedOf(other), [])
    assert.equal((await other.post(`/deleted-repos/${site.id}/restore`)).status, 404)
    assert.equal((await other.delete(`/deleted-repos/${site.id}`)).status, 404)
  }
  assert.deepEqual(
    (await deletedOf(admin)).map(({ id }) => id),
    [site.id],
  )
  assert.equal((await admin.post(`/deleted-repos/${site.id}/restore`)).status, 200)
  await admin.delete('/repos/site')
  // A token that is limited to other repositories sees as little as of any other.
  await admin.post('/repos', { name: 'other' })
  const { body: limited } = await admin.post('/tokens/delegate', {
    name: 'limited',
    repositories: ['other'],
    permissions: ['repo:read', 'repo:delete'],
  })
  const narrow = createClient(service.url, limited.token)
  assert.deepEqual(await deletedOf(narrow), [])
  assert.equal((await narrow.delete(`/deleted-repos/${site.id}`)).status, 404)
  assert.equal((await admin.delete(`/deleted-repos/${site.id}`)).status, 204)
  assert.deepEqual(await deletedOf(owner), [])
})

test('a webhook delivers nothing while its repository is deleted, and everything afterwards', async () => {
  await using service = await startService({ env: retries })
  const { admin } = service
  await using project = await createProject()
  await using receiver = await startReceiver((_, response) => response.writeHead(500).end())
  await admin.post('/repos', { name: 'site' })
  const { body: site } = await admin.get('/repos/site')
  const hook = { url: receiver.url, events: ['push'] }
  const { body: webhook } = await admin.post('/repos/site/webhooks', hook)
  await project.git('push', '--quiet', admin.remote('site'), 'main')
  await receiver.untilReceived(2)
  await admin.delete('/repos/site')
  const before = receiver.received.length
  // Longer than the time between two attempts.
  await new Promise((resolve) => setTimeout(resolve, 2500))
  assert.equal(receiver.received.length, before)
  receiver.answerWith((_, response) => response.writeHead(204).end())
  await admin.post(`/deleted-repos/${site.id}/restore`)
  await receiver.untilReceived(before + 1)
  await until('it is delivered', async () => {
    const { body } = await admin.get(`/repos/site/webhooks/${webhook.id}/deliveries`)
    return body.length === 1 && body[0].status === 'success'
  })
})

test('a push that was not finalized before the deletion is finalized after the restoration', {
  ...exhaustive,
  skip: onlyLocal,
}, async () => {
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
  const { code, err } = await runSvc(['repos', 'delete', 'site', '--yes'], {
    ...{ SVC_DATA_DIR: dataDir, SVC_FREE_SPACE_MIN: '0' },
  })
  assert.equal(code, 0, err)
  await using service = await startService({ dataDir, env })
  const { admin } = service
  assert.match((await admin.get('/metrics')).text, /^svc_pushes_unfinished 0$/m)
  const report = await runSvc(['doctor', '--json'], { SVC_DATA_DIR: dataDir })
  const findings: { check: string; found: string }[] = JSON.parse(report.out)
  assert.deepEqual(
    findings.filter(({ check }) => check === 'pushes').map(({ found }) => found),
    ['None.'],
  )
  const [deleted] = await deletedOf(admin)
  assert.equal((await admin.post(`/deleted-repos/${deleted?.id}/restore`)).status, 200)
  await project.git('push', '--quiet', admin.remote('site'), 'main:other')
  const { body } = await admin.get('/repos/site/pushes')
  const refs = (body as ListedPush[]).flatMap((push) => push.refs.map(({ ref }) => ref))
  assert.deepEqual(refs, ['refs/heads/other', 'refs/heads/main'])
})
