// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { untilTidy } from '../support/leftovers.ts'
import { without } from '../support/programs.ts'
import { gitHeaders, waitingPushBody } from '../support/raw-git.ts'
import { connectRaw } from '../support/raw-http.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { createClient, type Service, startService } from '../support/service.ts'
import { commitFiles, onPush, startPushSite } from '../support/waiting-push.ts'
import { endOf } from '../support/workflow-site.ts'

const options = { skip: without('bubblewrap'), timeout: 300_000 }
const runner = { SVC_RUNNER: 'on' }

test(
  'a server that is killed while a push waits moves no ref, and cancels the run',
  options,
  async () => {
    await using folder = await startService({ env: runner })
    const { dataDir, adminToken } = folder
    await using site = await startPushSite(folder, folder.admin, 'site')
    const before = await site.branch('main')
    await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('sleep 3142') })
    const push = site.push(['wait'], ['HEAD:main'])
    await push.shows('Run 1 is running.')
    await folder.end('SIGKILL')
    assert.notEqual((await push.ended).code, 0)
    await using next = await startService({
      dataDir,
      env: { ...runner, SVC_ADMIN_TOKEN: adminToken },
    })
    const admin = createClient(next.url, adminToken)
    const [{ id }] = (await admin.get('/repos/site/workflows')).body
    const run = await endOf(admin, 'site', id)
    assert.deepEqual(
      [run.conclusion, run.fault],
      ['cancelled', 'The push that waited for this run was cut off.'],
    )
    const refs = await site.project.git('ls-remote', admin.remote('site'))
    assert.match(refs, new RegExp(`^${before}\trefs/heads/main$`, 'm'))
    await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('true') })
    await site.project.git('push', '-o', 'wait', admin.remote('site'), 'HEAD:main')
  },
)

test(
  'a server that stops refuses the pushes that wait, and cancels their runs',
  options,
  async () => {
    await using service = await startService({ env: runner })
    await using site = await startPushSite(service, service.admin, 'site')
    await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('sleep 3143') })
    const push = site.push(['wait'], ['HEAD:main'])
    await push.shows('Run 1 is running.')
    assert.equal(await service.end('SIGTERM'), 0)
    const { code, text } = await push.ended
    assert.equal(code, 1)
    assert.match(text, /The server is stopping\. Push again\./)
  },
)

test('a push waits for a limited time', options, async () => {
  await using service = await startService({ env: { SVC_PUSH_WAIT_SECONDS: '2' } })
  await using site = await startPushSite(service, service.admin, 'site')
  await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('true') })
  const { code, text } = await site.push(['wait'], ['HEAD:main']).ended
  assert.equal(code, 1)
  assert.match(text, /The runs did not end within 2 s; nothing was pushed\./)
  const [{ id }] = await site.runs()
  const run = await endOf(service.admin, 'site', id)
  assert.deepEqual([run.conclusion, run.startedAt === run.completedAt], ['cancelled', true])
})

test('waiting pushes are limited for each user, and take no place of others', options, async () => {
  const env = { SVC_REPOSITORY_PUSHES_AT_ONCE: '1', SVC_PUSHES_AT_ONCE: '2' }
  await using service = await startService({ env })
  await using site = await startPushSite(service, service.admin, 'site')
  await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('true') })
  const waiting = [1, 2, 3, 4].map((number) => site.push(['wait'], [`HEAD:b${number}`]))
  await Promise.all(waiting.map((push) => push.shows('is queued')))
  const fifth = await site.push(['wait'], ['HEAD:b5']).ended
  assert.equal(fifth.code, 1)
  assert.match(fifth.text, /Too many pushes of this user wait for their runs; try again later\./)
  const plain = await site.push([], ['HEAD:b6']).ended
  assert.equal(plain.code, 0, plain.text)
  for (const push of waiting) push.signal('SIGINT')
  await Promise.all(waiting.map((push) => push.ended))
  for (const { id, ref } of await site.runs()) {
    if (ref === 'refs/heads/b6') continue
    assert.equal((await endOf(service.admin, 'site', id)).conclusion, 'cancelled')
  }
})

test('a push whose token is deleted while it waits is refused', options, async () => {
  await using service = await startService({ env: runner })
  const owner = await service.client({
    permissions: ['repo:read', 'repo:write', 'workflow:read'],
  })
  await using site = await startPushSite(service, owner, 'site')
  await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('sleep 3144') })
  const push = site.push(['wait'], ['HEAD:main'])
  await push.shows('Run 1 is running.')
  await service.admin.delete(`/tokens/${owner.id}`)
  const { code, text } = await push.ended
  assert.equal(code, 1)
  assert.match(text, /The token or key was deleted or has expired, /)
  const run = await endOf(service.admin, 'site', '1')
  assert.equal(run.conclusion, 'cancelled')
})

test(
  'a push that would wait for too many runs is refused before it has planned all',
  options,
  async () => {
    await using service = await startService()
    await using site = await startPushSite(service, service.admin, 'site')
    await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('true') })
    const refs = Array.from({ length: 502 }, (_, index) => `HEAD:b${index}`)
    const { code, text } = await site.push(['wait'], refs).ended
    assert.equal(code, 1)
    assert.match(text, /The push would wait for more than 500 runs; push fewer refs at a time\./)
    assert.deepEqual(await site.runs(), [])
  },
)

/** Begins a push of a branch that waits, on a connection whose answer is not read yet; with its run. */
async function startUnread(service: Service, site: Awaited<ReturnType<typeof startPushSite>>) {
  await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('true') })
  const body = await waitingPushBody(site.project.path, 'topic')
  const connection = await connectRaw(service.url)
  connection.socket.pause()
  const headers = gitHeaders('git-receive-pack', service.adminToken, body.length)
  connection.request(`POST /repos/${site.name}.git/git-receive-pack`, headers)
  connection.socket.write(body)
  return { connection, run: await mustClaim(service.admin) }
}

test('a client that reads nothing while its push waits has pushed, and gets the report later', async () => {
  await using service = await startService()
  await using site = await startPushSite(service, service.admin, 'site')
  const { connection, run } = await startUnread(service, site)
  await run.report(...wholeRun())
  await until('the branch is there', async () => (await site.branch('topic')) !== undefined)
  connection.socket.resume()
  const { status, body } = await connection.answer()
  assert.equal(status, 200)
  assert.match(body, /Run 1 \(CI\) succeeded after \d+ s\..*unpack ok.*ok refs\/heads\/topic/s)
  connection.socket.destroy()
})

test('a push whose connection breaks while it waits leaves nothing, and its run is cancelled', async () => {
  await using service = await startService()
  await using site = await startPushSite(service, service.admin, 'site')
  const { connection, run } = await startUnread(service, site)
  connection.socket.resetAndDestroy()
  const { body: orders } = await run.own.get(`${run.path}/orders?wait=30`)
  assert.match(orders.cancel, /was refused: Its client disconnected/)
  await untilTidy(service.dataDir)
  assert.equal(await site.branch('topic'), undefined)
})

test('a client that is frozen does not prolong the wait of its push', options, async () => {
  await using service = await startService({ env: { SVC_PUSH_WAIT_SECONDS: '2' } })
  await using site = await startPushSite(service, service.admin, 'site')
  await commitFiles(site.project, { '.svc/workflows/ci.yml': onPush('true') })
  const push = site.push(['wait'], ['HEAD:main'])
  await push.shows('is queued')
  push.signal('SIGSTOP')
  const [{ id }] = await site.runs()
  assert.equal((await endOf(service.admin, 'site', id)).conclusion, 'cancelled')
  await untilTidy(service.dataDir)
  push.signal('SIGCONT')
  const { code, text } = await push.ended
  assert.equal(code, 1)
  assert.match(text, /The runs did not end within 2 s; nothing was pushed\./)
})
