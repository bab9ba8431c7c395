import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { allEyes, assertAccessible, openWindow, startBrowser } from '../support/browser.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createPageClient, logIn } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service

before(async () => {
  service = await startService()
  await service.admin.post('/repos', { name: 'site' })
})

after(() => service[Symbol.asyncDispose]())

test('without a session every page leads to the login, and back after it', async () => {
  const client = createPageClient(service.url)
  for (const path of ['/', '/r/site', '/r/missing', '/-/new']) {
    const { status, location } = await client.get(path)
    const next = path === '/' ? '' : `?next=${encodeURIComponent(path)}`
    assert.deepEqual([status, location], [303, `/-/login${next}`])
  }
  const { location } = await client.post('/-/login', { token: service.adminToken, next: '/-/new' })
  assert.equal(location, '/-/new')
  assert.equal((await client.get('/-/new')).status, 200)
})

test('the login goes on to no other host', async () => {
  for (const next of [
    '//evil.example',
    '/.//evil.example',
    '/./\\evil.example',
    '/\\evil.example',
    'https://evil.example/',
    '/a b',
    '/repos',
    '',
  ]) {
    const client = createPageClient(service.url)
    const { location } = await client.post('/-/login', { token: service.adminToken, next })
    assert.equal(location, '/', next)
  }
})

test('a wrong token is refused on the same page', async () => {
  const { status, text } = await createPageClient(service.url).post('/-/login', { token: 'svc_x' })
  assert.equal(status, 401)
  assert.match(text, /role="alert"[\s\S]*mistyped, unknown, deleted or expired/)
})

test('a session ends with its token, and when its user logs out', async () => {
  const { body } = await service.admin.post('/tokens', { name: 'short' })
  const client = await logIn(service.url, body.token)
  assert.equal((await client.get('/')).status, 200)
  await service.admin.delete(`/tokens/${body.id}`)
  assert.equal((await client.get('/')).status, 303)

  const other = await logIn(service.url, service.adminToken)
  const cookie = other.cookie()
  await other.post('/-/logout', {})
  const replayed = await fetch(service.url, { headers: { cookie }, redirect: 'manual' })
  assert.equal(replayed.status, 303)
})

test('a form of another site changes nothing', async () => {
  const client = await logIn(service.url, service.adminToken)
  const foreign = [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': '', origin: 'https://evil.example' },
    { 'sec-fetch-site': '' },
  ]
  for (const headers of foreign) {
    const { status } = await client.post('/-/new', { name: 'forged' }, headers)
    assert.equal(status, 403, JSON.stringify(headers))
  }
  assert.equal((await service.admin.get('/repos/forged')).status, 404)
})

test('a form shows its problem beside what was typed', async () => {
  const client = await logIn(service.url, service.adminToken)
  const { status, text } = await client.post('/-/new', { name: 'site' })
  assert.equal(status, 409)
  assert.match(text, /role="alert"/)
  assert.match(text, /value="site"/)
  const created = await client.post('/-/new', { name: 'made-by-form' })
  assert.deepEqual([created.status, created.location], [303, '/r/made-by-form'])
})

test('API and Git never look at cookies, and pages never at tokens', async () => {
  const client = await logIn(service.url, service.adminToken)
  assert.equal((await client.get('/repos')).status, 401)
  const headers = { authorization: `Bearer ${service.adminToken}` }
  assert.equal((await createPageClient(service.url).request('/', { headers })).status, 303)
})

test('after the log-out, the back button shows what the session saw to no one', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  const browser = await startBrowser({ keepsPages: true })
  try {
    const { url, adminToken: token } = service
    const eyes = { width: 1360, scheme: 'light', hasScripts: true } as const
    const { page } = await openWindow(browser, { ...eyes, url, token })
    await page.goto('/-/keys')
    await page.evaluate('window.isKept = true')
    await page.goto('/-/tokens')
    await page.goBack({ waitUntil: 'commit' })
    // Otherwise this would test nothing: the browser has kept the page, and it is not loaded again.
    assert.equal(await page.evaluate('window.isKept'), true)
    await page.goto('/-/tokens')
    await page.click('.top details.menu > summary')
    await page.click('button:has-text("Log out")')
    await page.waitForURL(/login/)
    await page.goBack({ waitUntil: 'commit' })
    await page.waitForURL(/login/)
  } finally {
    await browser.close()
  }
})

test('the login is accessible and quiet in every view', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  const browser = await startBrowser()
  try {
    for (const eyes of allEyes) {
      const { context, page, faults } = await openWindow(browser, { ...eyes, url: service.url })
      await page.goto('/-/login')
      await assertAccessible(page)
      assert.deepEqual(faults, [])
      await page.keyboard.type(service.adminToken)
      await page.keyboard.press('Enter')
      await page.waitForURL('/')
      assert.match(await page.innerText('h1'), /^Repositories \d+$/)
      await assertAccessible(page)
      assert.deepEqual(faults, [])
      await context.close()
    }
  } finally {
    await browser.close()
  }
})
