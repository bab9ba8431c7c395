import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { startReceiver } from '../support/receiver.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let service: Service
let owner: Client
const url = 'http://127.0.0.1:9/hook'

before(async () => {
  service = await startService({ env: { SVC_LOG_LEVEL: 'debug' } })
  owner = await service.client({
    username: 'ada',
    permissions: ['repo:read', 'repo:write', 'repo:delete', 'webhook:read', 'webhook:write'],
  })
  await owner.post('/repos', { name: 'site' })
})

after(() => service[Symbol.asyncDispose]())

async function add(body: object = {}, client = owner) {
  const made = await client.post('/repos/site/webhooks', { url, events: ['push'], ...body })
  assert.equal(made.status, 201, made.text)
  return { ...made.body, at: `/repos/site/webhooks/${made.body.id}` }
}

test('a webhook is created, listed, changed and deleted, and its secret is never returned', async () => {
  const made = await owner.post('/repos/site/webhooks', { url, events: ['push'], secret: 'hush' })
  const { id, createdAt } = made.body
  assert.equal(made.status, 201)
  assert.equal(made.headers.get('location'), `/repos/site/webhooks/${id}`)
  assert.deepEqual(made.body, {
    ...{ id, repoName: 'site', url, events: ['push'], createdAt, updatedAt: createdAt },
    ...{ enabled: true, health: 'healthy', failingSince: null, disabledAt: null },
    ...{
      disabledReason: null,
      hasSecret: true,
      secretExpiresAt: null,
      lastSequence: 0,
      pending: 0,
    },
  })
  const at = `/repos/site/webhooks/${id}`
  assert.deepEqual((await owner.get(at)).body, made.body)
  assert.deepEqual((await owner.get('/repos/site/webhooks')).body, [made.body])
  const events = ['workflow', 'push']
  const changed = await owner.patch(at, { url: 'http://127.0.0.1:10/', events, secret: null })
  assert.deepEqual(
    [changed.status, changed.body.events, changed.body.hasSecret],
    [200, events, false],
  )
  assert.equal(changed.body.url, 'http://127.0.0.1:10/')
  assert.ok(changed.body.updatedAt >= createdAt)
  const unchanged = await owner.patch(at, {})
  assert.deepEqual(unchanged.body, changed.body)
  await owner.patch('/repos/site', { name: 'page' })
  const [renamed] = (await owner.get('/repos/page/webhooks')).body
  assert.deepEqual([renamed.id, renamed.repoName], [id, 'page'])
  await owner.patch('/repos/page', { name: 'site' })
  const gone = await owner.delete(at)
  assert.deepEqual([gone.status, gone.text], [204, ''])
  for (const answer of [await owner.get(at), await owner.delete(at), await owner.patch(at, {})])
    assert.deepEqual([answer.status, answer.body.code], [404, 'webhook_not_found'])
  assert.deepEqual((await owner.get('/repos/site/webhooks')).body, [])
})

test('the list is paginated, oldest first', async () => {
  const ids = []
  for (let count = 0; count < 3; count++) ids.push((await add()).id)
  const first = await owner.get('/repos/site/webhooks?limit=2')
  const [, next = ''] = /^<([^>]+)>; rel="next"$/.exec(first.headers.get('link') ?? '') ?? []
  const second = await owner.get(next)
  const listed = [...first.body, ...second.body].map(({ id }) => id)
  assert.deepEqual([listed, second.headers.get('link')], [ids, null])
  for (const id of ids) await owner.delete(`/repos/site/webhooks/${id}`)
})

test('invalid fields are named, with the accepted form', async () => {
  const refused: [object, string, RegExp][] = [
    [{ url: 'hooks.example' }, '/url', /absolute http or https/],
    [{ url: 'http://me:hush@127.0.0.1/' }, '/url', /use a `secret`/],
    [{ url: `${url}#x` }, '/url', /fragment/],
    [{ url: `http://127.0.0.1/${'x'.repeat(2000)}` }, '/url', /2000 characters/],
    [{ url: 1 }, '/url', /absolute http or https/],
    [{ events: [] }, '/events', /1 to 2 different items, each push or workflow/],
    [{ events: ['push', 'push'] }, '/events', /different items/],
    [{ events: ['ping'] }, '/events/0', /^cannot be "ping"; it must be push or workflow\.$/],
    [{ events: 'push' }, '/events', /push or workflow/],
    [{ secret: '' }, '/secret', /1 to 1024 characters/],
    [{ secret: 'x'.repeat(1025) }, '/secret', /1 to 1024 characters/],
    [{ secret: '\ud800' }, '/secret', /well-formed/],
    [{ secret: 'whsec_nothing!' }, '/secret', /at least 16 bytes in base64/],
    [{ secret: 'whsec_MTIzNDU2Nzg5MDEyMzQ1' }, '/secret', /at least 16 bytes/],
    [{ more: 1 }, '/more', /it takes url, events, secret/],
  ]
  const made = await add({ secret: `whsec_${Buffer.alloc(16).toString('base64')}` })
  for (const [fields, pointer, detail] of refused) {
    const body = { url, events: ['push'], ...fields }
    for (const answer of [
      await owner.post('/repos/site/webhooks', body),
      await owner.patch(made.at, fields),
    ]) {
      assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_request'], answer.text)
      const found = answer.body.errors.find(
        (error: { pointer: string }) => error.pointer === pointer,
      )
      assert.match(found?.detail ?? '', detail)
    }
  }
  for (const body of [{}, { url }, { events: ['push'] }])
    assert.equal((await owner.post('/repos/site/webhooks', body)).status, 400)
  const alone = await owner.patch(made.at, { keepPreviousSecretSeconds: 1 })
  assert.deepEqual(
    [alone.status, alone.body.errors[0].pointer],
    [400, '/keepPreviousSecretSeconds'],
  )
  const long = await owner.patch(made.at, { secret: 'x', keepPreviousSecretSeconds: 604_801 })
  assert.equal(long.status, 400)
  assert.deepEqual((await owner.get('/repos/site/webhooks')).body.length, 1)
  await owner.delete(made.at)
})

test('a forbidden address is rejected, and nothing is stored', async () => {
  const [there] = [await add()]
  for (const host of ['169.254.169.254', '10.0.0.1', '[fd00::1]']) {
    for (const answer of [
      await owner.post('/repos/site/webhooks', { url: `http://${host}/`, events: ['push'] }),
      await owner.patch(there.at, { url: `http://${host}/` }),
    ])
      assert.deepEqual([answer.status, answer.body.code], [422, 'outbound_forbidden'])
  }
  assert.deepEqual(
    (await owner.get('/repos/site/webhooks')).body.map(({ url }: { url: string }) => url),
    [url],
  )
  await owner.delete(there.at)
})

test('webhooks need ownership or admin, and the permission', async () => {
  await owner.post('/repos', { name: 'other' })
  const { at, id } = await add()
  const { body: ping } = await owner.post(`${at}/ping`)
  await service.admin.post('/repos/site/collaborators', { username: 'grace' })
  const as = (username: string, ...permissions: string[]) =>
    service.client({ username, permissions })
  const calls = (client: Client, of = 'site', webhook = id) => {
    const path = `/repos/${of}/webhooks`
    return Promise.all([
      client.get(path),
      client.get(`${path}/${webhook}`),
      client.get(`${path}/${webhook}/deliveries`),
      client.get(`${path}/${webhook}/deliveries/${ping.id}`),
      client.post(path, { url, events: [] }),
      client.patch(`${path}/${webhook}`, { enabled: 1 }),
      client.post(`${path}/${webhook}/ping`),
      client.post(`${path}/${webhook}/replay`, { since: -1 }),
      client.post(`${path}/${webhook}/deliveries/${ping.id}/retry`, {}),
    ])
  }
  const statusesOf = async (client: Client, of?: string) =>
    (await calls(client, of)).map(({ status }) => status)
  const both = ['webhook:read', 'webhook:write']
  assert.deepEqual(await statusesOf(await as('grace', ...both)), Array(9).fill(403))
  assert.deepEqual(await statusesOf(await as('eve', ...both)), Array(9).fill(404))
  const reader = await statusesOf(await as('ada', 'webhook:read'))
  assert.deepEqual(reader, [...Array(4).fill(200), ...Array(5).fill(403)])
  const writer = await statusesOf(await as('ada', 'webhook:write'))
  assert.deepEqual(writer, [...Array(4).fill(403), 400, 400, 202, 400, 202])
  // Of another repository of the same owner, it is as if it had never been.
  const elsewhere = await calls(owner, 'other')
  const unused = `${id.slice(0, -4)}zzzz`
  const never = await calls(owner, 'other', unused)
  for (const [place, answer] of elsewhere.entries()) {
    if (place === 0 || place === 4) continue
    assert.deepEqual([answer.status, answer.body.code], [404, 'webhook_not_found'])
    assert.equal(answer.text, never[place]?.text.replaceAll(unused, id))
  }
  const second = await add()
  const foreign = await owner.post(`${second.at}/deliveries/${ping.id}/retry`, {})
  assert.deepEqual([foreign.status, foreign.body.code], [404, 'delivery_not_found'])
  for (const { at: path } of [{ at }, second]) await owner.delete(path)
})

test('a webhook belongs to its repository, also when its creator is gone', async () => {
  const permissions = ['webhook:read', 'webhook:write']
  const maintainer = await service.client({ username: 'mia', permissions })
  const role = { username: 'mia', role: 'maintain' }
  await service.admin.post('/repos/site/collaborators', role)
  const { id, at } = await add({}, maintainer)
  await service.admin.delete('/repos/site/collaborators/mia')
  await service.admin.delete(`/tokens/${maintainer.id}`)
  const { body } = await owner.post(`${at}/ping`)
  assert.equal((await owner.get(`/repos/site/webhooks/${id}`)).body.enabled, true)
  assert.equal(body.webhookId, id)
  await owner.delete(at)
})

test('a ping is delivered; its delivery has the request and response, and can be retried', async () => {
  await using receiver = await startReceiver((_, response) =>
    response.writeHead(201, { 'x-mark': 'here' }).end('thank you'),
  )
  const { at } = await add({ url: receiver.url, secret: 'hush-hush' })
  const ping = await owner.post(`${at}/ping`)
  assert.equal(ping.status, 202)
  assert.equal(ping.headers.get('location'), `${at}/deliveries/${ping.body.id}`)
  assert.deepEqual(
    [ping.body.event, ping.body.status, ping.body.maxAttempts, ping.body.seq],
    ['ping', 'pending', 1, null],
  )
  await receiver.untilReceived(1)
  const settled = (attempts: number) =>
    until(`attempt ${attempts} has ended`, async () => {
      const { body } = await owner.get(`${at}/deliveries/${ping.body.id}`)
      return body.status !== 'pending' && body.attempts === attempts && body
    })
  const delivery = await settled(1)
  assert.deepEqual(
    [delivery.status, delivery.responseStatus, delivery.error],
    ['success', 201, null],
  )
  assert.equal(delivery.body, receiver.received[0]?.body.toString())
  const [attempt] = delivery.history
  assert.deepEqual([attempt.attempt, attempt.url, attempt.error], [1, receiver.url, null])
  assert.deepEqual([attempt.responseBody, attempt.responseHeaders['x-mark']], ['thank you', 'here'])
  assert.equal(attempt.requestHeaders['x-github-event'], 'ping')
  const retried = await owner.post(`${at}/deliveries/${ping.body.id}/retry`)
  assert.deepEqual(
    [retried.status, retried.body.status, retried.body.id],
    [202, 'pending', ping.body.id],
  )
  await receiver.untilReceived(2)
  const again = await settled(2)
  assert.deepEqual(
    again.history.map(({ trigger }: { trigger: string }) => trigger).at(-1),
    'manual',
  )
  const [one, other] = receiver.received
  assert.deepEqual(one?.body, other?.body)
  assert.equal(one?.headers['webhook-id'], other?.headers['webhook-id'])
  const { history: _, body: __, ...listed } = again
  assert.deepEqual((await owner.get(`${at}/deliveries`)).body, [listed])
  assert.deepEqual((await owner.get(`${at}/deliveries?status=failed`)).body, [])
  assert.deepEqual((await owner.get(`${at}/deliveries?event=push`)).body, [])
  assert.equal((await owner.get(`${at}/deliveries?status=success&event=ping`)).body.length, 1)
  assert.equal((await owner.get(`${at}/deliveries?status=done`)).status, 400)
  assert.ok(!service.log().includes('hush-hush') && !JSON.stringify(again).includes('hush-hush'))
  await owner.delete(at)
})

test('deliveries are in pages of 100, newest first', async () => {
  const { at } = await add()
  const ids: string[] = []
  for (let count = 0; count < 105; count++) ids.unshift((await owner.post(`${at}/ping`)).body.id)
  const first = await owner.get(`${at}/deliveries`)
  const [, next = ''] = /^<([^>]+)>; rel="next"$/.exec(first.headers.get('link') ?? '') ?? []
  const second = await owner.get(next)
  assert.equal(first.body.length, 100)
  const listed = [...first.body, ...second.body].map(({ id }) => id)
  assert.deepEqual([listed, second.headers.get('link')], [ids, null])
  await owner.delete(at)
})

test('all data of a webhook is deleted with its repository', async () => {
  await owner.post('/repos', { name: 'doomed' })
  const { body } = await owner.post('/repos/doomed/webhooks', {
    url,
    events: ['push'],
    secret: 'x',
  })
  await owner.post(`/repos/doomed/webhooks/${body.id}/ping`)
  assert.equal((await owner.delete('/repos/doomed')).status, 204)
  await owner.post('/repos', { name: 'doomed' })
  assert.deepEqual((await owner.get('/repos/doomed/webhooks')).body, [])
  assert.equal((await owner.get(`/repos/doomed/webhooks/${body.id}`)).status, 404)
})
