import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertAccessible, inEveryView } from '../support/browser.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service
let receiver: Receiver
let client: PageClient

before(async () => {
  receiver = await startReceiver()
  service = await startService({ env: { SVC_OUTBOUND_ALLOW: 'loopback' } })
  await service.admin.post('/repos', { name: 'site' })
  client = await logIn(service.url, service.adminToken)
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

/** Adds a webhook by the form; the address of its page. */
async function add(fields: Record<string, string> = {}): Promise<string> {
  const { status, location } = await client.post('/r/site/webhooks', {
    url: receiver.url,
    events: 'push',
    ...fields,
  })
  assert.equal(status, 303)
  return location ?? ''
}

/** Pings a webhook, and waits for the end of the delivery; the address of its page. */
async function ping(webhook: string): Promise<string> {
  const { location } = await client.post(`${webhook}/ping`, {})
  await until(
    'the ping has ended',
    async () => !/badge busy/.test((await client.get(location ?? '')).text),
  )
  return location ?? ''
}

test('a webhook is added, pinged, changed, switched off and on, and deleted', async () => {
  const webhook = await add({ secret: 'hush-4711' })
  const delivery = await ping(webhook)
  const shown = (await client.get(delivery)).text
  assert.match(shown, /badge good[\s\S]*status 204[\s\S]*x-hub-signature-256[\s\S]*\[hidden\]/)
  assert.match(shown, /aria-label="Request body">\{\n {2}&quot;/)
  const page = (await client.get(webhook)).text
  assert.match(page, /healthy[\s\S]*aria-label="1 succeeded; half of them within/)
  assert.match(page, /signed/)
  assert.doesNotMatch(shown + page, /hush-4711/)

  await client.post(`${webhook}/edit`, { url: `${receiver.url}?b`, events: 'workflow' })
  assert.match((await client.get(webhook)).text, /<h1[^>]*>[^<]*\?b<\/h1>/)
  await client.post(`${webhook}/disable`, {})
  assert.match((await client.get(webhook)).text, /disabled<\/span>[\s\S]*Disabled <time/)
  await client.post(`${webhook}/enable`, {})
  assert.match((await client.get('/r/site/webhooks')).text, /healthy/)
  const deleted = await client.post(`${webhook}/delete`, {})
  assert.deepEqual([deleted.status, deleted.location], [303, '/r/site/webhooks'])
  assert.equal((await client.get(webhook)).status, 404)
})

test('a delivery that failed says why, escaped, and is sent again', async () => {
  const webhook = await add()
  receiver.answerWith((_received, response) =>
    response.writeHead(500, { 'x-note': '<script>alert(1)</script>' }).end('<img src=x onerror=y>'),
  )
  const delivery = await ping(webhook)
  const failed = (await client.get(delivery)).text
  assert.match(failed, /badge bad[\s\S]*status 500[\s\S]*&lt;script&gt;alert[\s\S]*&lt;img src=x/)
  assert.doesNotMatch(failed, /<script>alert|<img/)
  assert.match((await client.get(webhook)).text, /Attempts began to fail[\s\S]*1 failed/)
  assert.equal((await client.get(`${webhook}?status=other`)).status, 400)
  assert.match(
    (await client.get(`${webhook}?status=success`)).text,
    /There is none that is success/,
  )

  receiver.answerWith((_received, response) => response.writeHead(204).end())
  const again = await client.post(`${delivery}/retry`, {})
  assert.deepEqual([again.status, again.location], [303, delivery])
  await until('it has arrived', async () => /badge good/.test((await client.get(delivery)).text))
  assert.match(
    (await client.get(delivery)).text,
    /Attempt 2<\/b>[\s\S]*by hand[\s\S]*Attempt 1<\/b>/,
  )
})

test('a period is replayed, and the page says how much', async () => {
  const webhook = await add()
  const { status, location } = await client.post(`${webhook}/replay`, {
    since: '2020-01-01T00:00',
    onlyFailed: 'true',
  })
  assert.equal(status, 303)
  assert.match((await client.get(location ?? '')).text, /role="status"[\s\S]*0 deliveries are sent/)
  const bad = await client.post(`${webhook}/replay`, { since: 'yesterday' })
  assert.equal(bad.status, 400)
  assert.match(bad.text, /aria-invalid="true"[^>]*value="yesterday"/)
})

test('an address that is refused is shown at its field, without the secret', async () => {
  const { status, text } = await client.post('/r/site/webhooks', {
    url: 'ftp://example.com/',
    events: 'push',
    secret: 'hush-4711',
  })
  assert.equal(status, 400)
  assert.match(text, /aria-invalid="true" value="ftp:\/\/example\.com\/"/)
  assert.doesNotMatch(text, /hush-4711/)
})

test('only maintainers with the permission see webhooks, and readers of them no buttons', async () => {
  const webhook = await add()
  const who = { username: 'ada', permissions: ['repo:read', 'webhook:read'] }
  const ada = await logIn(service.url, (await service.client(who)).token)
  const collaborate = (role: string) =>
    service.admin.post('/repos/site/collaborators', { username: 'ada', role })
  assert.equal((await ada.get(webhook)).status, 404)
  await collaborate('write')
  assert.equal((await ada.get(webhook)).status, 403)
  await collaborate('maintain')
  const { status, text } = await ada.get(webhook)
  assert.equal(status, 200)
  assert.doesNotMatch(text, /<form method="post" action="\/r/)
  assert.equal((await ada.post(`${webhook}/ping`, {})).status, 403)
})

test('webhooks and deliveries are accessible in every view', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  const webhook = await add({ secret: 'hush' })
  const delivery = await ping(webhook)
  await inEveryView({ url: service.url, token: service.adminToken }, async (page) => {
    await page.goto('/r/site/webhooks')
    await assertAccessible(page)
    await page.goto(webhook)
    for (const summary of await page.locator('.folded summary').all()) await summary.click()
    await assertAccessible(page)
    await page.goto(delivery)
    await assertAccessible(page)
  })
})
