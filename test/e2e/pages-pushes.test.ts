import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertAccessibleInEveryView } from '../support/browser.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, type Project } from '../support/git.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service
let project: Project
let client: PageClient

before(async () => {
  service = await startService()
  project = await createProject()
  await service.admin.post('/repos', { name: 'site' })
  await project.git('remote', 'add', 'origin', service.admin.remote('site'))
  await project.git('push', 'origin', 'HEAD:refs/heads/main')
  client = await logIn(service.url, service.adminToken)
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

/** The id of the newest push. */
async function newest(): Promise<string> {
  const [push] = (await service.admin.get('/repos/site/pushes?limit=1')).body
  return push.id
}

async function push(...refs: string[]): Promise<string> {
  await project.git('commit', '--allow-empty', '--quiet', '-m', 'Next')
  await project.git('push', '--quiet', '--force', 'origin', ...refs)
  return newest()
}

test('pushes are listed with what they did to each ref', async () => {
  await push('HEAD:refs/heads/one', 'HEAD:refs/tags/v1')
  await project.git('commit', '--amend', '--allow-empty', '--quiet', '-m', 'Other')
  await project.git('push', '--quiet', '--force', 'origin', 'HEAD:refs/heads/one')
  await project.git('push', '--quiet', 'origin', ':refs/heads/one')
  const { status, text } = await client.get('/r/site/pushes')
  assert.equal(status, 200)
  const rows = text.split('<li class="row push-row">').slice(1)
  assert.match(rows[0] ?? '', /<b>one<\/b>[\s\S]*>deleted</)
  assert.match(
    rows[1] ?? '',
    /href="\/r\/site\/compare\/[0-9a-f]{40,64}\.\.\.[0-9a-f]{40,64}"[\s\S]*>forced</,
  )
  assert.match(rows[2] ?? '', /pushed 2 refs<[\s\S]*>created<[\s\S]*<b>v1<\/b>/)
  const only = await client.get('/r/site/pushes?ref=refs/tags/v1')
  assert.equal(only.text.match(/push-row/g)?.length, 1)
  assert.equal((await client.get('/r/site/pushes?ref=bad..ref')).status, 400)
})

test('a push is undone by its button, which says what it does, and shows its state', async () => {
  const id = await push('HEAD:refs/heads/main', 'HEAD:refs/heads/two')
  const before = await client.get(`/r/site/pushes/${id}`)
  assert.match(before.text, /move <b>main<\/b> from <code>[0-9a-f]{7}<\/code> back to/)
  assert.match(before.text, /delete <b>two<\/b>/)
  const { status, location } = await client.post(`/r/site/pushes/${id}/undo`, {})
  assert.deepEqual([status, location], [303, `/r/site/pushes/${await newest()}`])
  assert.match((await client.get(location ?? '')).text, /Undo by admin[\s\S]*an earlier push/)
  const after = await client.get(`/r/site/pushes/${id}`)
  assert.match(after.text, /Undone by <b>admin<\/b>/)
  assert.doesNotMatch(after.text, /<button class="danger">/)
  assert.equal((await client.post(`/r/site/pushes/${id}/undo`, {})).status, 409)
})

test('a push shows the commits that it brought to its branches, and how many it removed', async () => {
  const shown = async (...refs: string[]) => {
    await project.git('push', '--quiet', '--force', 'origin', ...refs)
    const { text } = await client.get(`/r/site/pushes/${await newest()}`)
    return text
  }
  await project.git('checkout', '--quiet', '--detach', 'HEAD')
  for (let commit = 1; commit <= 12; commit++)
    await project.git('commit', '--allow-empty', '--quiet', '-m', `Step ${commit}`)
  const grown = await shown('HEAD~2:refs/heads/main')
  await shown('HEAD~2:refs/heads/grown')
  assert.match(grown, /\d\d new commits on <b>main<\/b>[\s\S]*Only the newest 10 are listed/)
  const more = await shown('HEAD:refs/heads/main')
  assert.match(more, /2 new commits on <b>main<\/b>[\s\S]*>Step 12<[\s\S]*>Step 11</)
  assert.doesNotMatch(more, />Step 10<|Only the newest/)
  const back = await shown('HEAD~11:refs/heads/main')
  assert.match(back, /No new commits on <b>main<\/b>[\s\S]*11 commits that it had before are not/)
  const long = await shown('HEAD:refs/heads/long')
  assert.match(long, /11 new commits on <b>long<\/b>[\s\S]*Only the newest 10 are listed/)
  assert.doesNotMatch(long, />Step 1</)
  const gone = await shown(':refs/heads/long', 'HEAD:refs/tags/kept')
  assert.doesNotMatch(gone, /new commit/)
})

test('a push that cannot be undone says why, and readers have no button', async () => {
  const id = await push('HEAD:refs/heads/three')
  await push('HEAD:refs/heads/three')
  assert.match(
    (await client.get(`/r/site/pushes/${id}`)).text,
    /Not possible: its refs have changed/,
  )
  await service.admin.post('/repos/site/collaborators', { username: 'reader', role: 'read' })
  const wanted = { name: 'x', username: 'reader', permissions: ['repo:read'] }
  const { body } = await service.admin.post('/tokens', wanted)
  const reader = await logIn(service.url, body.token)
  const { status, text } = await reader.get(`/r/site/pushes/${await newest()}`)
  assert.equal(status, 200)
  assert.doesNotMatch(text, /<button class="danger">/)
  assert.equal((await client.get('/r/site/pushes/nothing')).status, 404)
})

test('events are sentences with links, filtered, newest first', async () => {
  const { text } = await client.get('/-/events?repository=site&kind=push')
  assert.match(
    text,
    /<b>admin<\/b> pushed to <a href="\/r\/site\/pushes\/\w+"><b>three<\/b><\/a> of/,
  )
  assert.doesNotMatch(text, /created the token/)
  assert.match(
    (await client.get('/-/events?kind=repository.created')).text,
    /created <a href="\/r\/site">/,
  )
  assert.match((await client.get('/-/events?kind=webhook.deleted')).text, /No events/)
  assert.equal((await client.get('/-/events?repository=missing')).status, 404)
  assert.equal((await client.get('/-/events?kind=nonsense')).status, 400)
  const { text: first } = await client.get('/-/events?before=2')
  assert.equal(first.match(/class="event"/g)?.length, 1)
  assert.doesNotMatch(first, /Older events/)
})

test('the pages of pushes and events are accessible and quiet in every view', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  await assertAccessibleInEveryView(service, [
    '/r/site/pushes',
    `/r/site/pushes/${await newest()}`,
    '/-/events',
  ])
})
