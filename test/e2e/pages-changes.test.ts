import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { assertAccessible, openWindow, startBrowser } from '../support/browser.ts'
import { until } from '../support/condition.ts'
import { logIn } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service
let browser: Browser

const skip = without('chromium')

before(async () => {
  service = await startService({ env: { SVC_UNDO_DAYS: '30' } })
  if (!skip) browser = await startBrowser()
  const { admin } = service
  await admin.post('/repos', { name: 'site' })
  const changes = [{ path: 'a.txt', content: 'a' }]
  await admin.post('/repos/site/commits', { branch: 'main', message: 'Start', changes })
  for (const name of ['ONE', 'TWO']) await admin.put(`/repos/site/secrets/${name}`, { value: 'x' })
})

after(async () => {
  await browser?.close()
  await service[Symbol.asyncDispose]()
})

const isInView = (page: Page, selector: string) =>
  page.locator(selector).evaluate((element) => {
    const { top, bottom } = element.getBoundingClientRect()
    return top >= 0 && bottom <= 900
  })

for (const hasScripts of [false, true])
  test(`a deletion asks once, and what was saved says so where it is, ${hasScripts ? 'with' : 'without'} scripts`, {
    skip,
  }, async () => {
    const { url, adminToken: token, admin } = service
    const view = { width: 390, scheme: 'light', hasScripts, url, token } as const
    const { page, context, faults } = await openWindow(browser, view)
    try {
      const [name, others] = hasScripts ? ['TWO', []] : ['ONE', ['TWO']]
      const namesLeft = async () =>
        (await admin.get('/repos/site/secrets')).body.map((one: { name: string }) => one.name)
      await page.goto('/r/site/settings')
      const row = page.locator('#secrets li', { hasText: name })
      await row.getByText('Delete', { exact: false }).first().click()
      await row.getByText(`Delete ${name}?`).waitFor()
      assert.ok((await namesLeft()).includes(name))
      await assertAccessible(page)
      await row.getByRole('button', { name: 'Delete', exact: true }).click()
      await page.locator('#secrets').getByText('The secret is deleted.').waitFor()
      assert.deepEqual(await namesLeft(), others)
      assert.ok(await isInView(page, '#secrets [role=status]'), 'the notice is not in view')
      await page.reload()
      assert.equal(await page.getByText('The secret is deleted.').count(), 0)

      // A problem is in view, too.
      await page.locator('#collaborators summary', { hasText: 'Add' }).click()
      await page.getByLabel('User', { exact: true }).fill('no one')
      await page.locator('#collaborators').getByRole('button', { name: 'Save' }).click()
      await page.locator('#collaborators [role=alert]').waitFor()
      assert.ok(await isInView(page, '[role=alert]'), 'the problem is not in view')
      assert.deepEqual(
        faults.filter((fault) => !/status of 4/.test(fault)),
        [],
      )
    } finally {
      await context.close()
    }
  })

test('a branch is deleted at once, and the page offers to undo it', async () => {
  const { admin, url, adminToken } = service
  const { body: main } = await admin.get('/repos/site/branches')
  const client = await logIn(url, adminToken)
  await client.post('/r/site/branches', { name: 'side', target: 'main' })
  const list = (await client.get('/r/site/branches')).text
  assert.match(list, /<form method="post"[^>]*><input[^>]*value="refs\/heads\/side"/)
  assert.doesNotMatch(list, /class="ask"/)
  const deletion = { ref: 'refs/heads/side', expected: main[0].id }
  const { location } = await client.post('/r/site/branches/delete', deletion)
  // The journal shows a push when it is finished.
  const undo = await until('the journal has the deletion', async () => {
    const { text } = await client.get(location ?? '')
    assert.match(text, /role="status">[\s\S]*The branch is deleted\./)
    return /action="([^"]*\/undo)"/.exec(text)?.[1]
  })
  const undone = await client.post(undo, {})
  assert.match((await client.get(undone.location ?? '')).text, /The push is undone\./)
  const { body: names } = await admin.get('/repos/site/branches')
  assert.ok(names.some(({ name }: { name: string }) => name === 'side'))
})

test('where nothing can be undone, the deletion of a branch asks', async () => {
  await using other = await startService({ env: { SVC_UNDO_DAYS: '0' } })
  await other.admin.post('/repos', { name: 'site' })
  const changes = [{ path: 'a.txt', content: 'a' }]
  for (const start of [undefined, 'main'])
    await other.admin.post('/repos/site/commits', {
      branch: start === undefined ? 'main' : 'side',
      message: 'x',
      changes,
      start,
      allowEmpty: true,
    })
  const client = await logIn(other.url, other.adminToken)
  assert.match(
    (await client.get('/r/site/branches')).text,
    /<details class="ask">[\s\S]*Delete side\?[\s\S]*value="refs\/heads\/side"|<details class="ask">[\s\S]*value="refs\/heads\/side"[\s\S]*Delete side\?/,
  )
})

test('no cookie of others makes a page say what it does not say itself', async () => {
  const client = await logIn(service.url, service.adminToken)
  for (const done of [
    'nope',
    '__proto__%20',
    '%3Cb%3E%20',
    '%ff',
    '%20',
    '/r/:name/settings/nope',
  ]) {
    const cookie = `${client.cookie()}; svc-done=${done}`
    const { status, text } = await client.request('/r/site/settings', { headers: { cookie } })
    assert.equal(status, 200, done)
    assert.doesNotMatch(text, /role="status"/)
  }
})

test('a deleted repository is restored from the page that says so', async () => {
  await service.admin.post('/repos', { name: 'brief' })
  const client = await logIn(service.url, service.adminToken)
  const { location } = await client.post('/r/brief/settings/delete', { confirm: 'brief' })
  const { text } = await client.get(location ?? '')
  const [, restore = ''] = /role="status">[\s\S]*?action="([^"]*\/restore)"/.exec(text) ?? []
  assert.equal((await client.post(restore, {})).location, '/r/brief')
})
