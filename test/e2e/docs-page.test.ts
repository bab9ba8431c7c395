import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import type { Route } from '#http/route.ts'
import { checkBody, checkQuery } from '#http/validation.ts'
import { curlExample } from '#web/docs/examples.ts'
import { assertAccessible, assertNoOverflow, openWindow, startBrowser } from '../support/browser.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { without } from '../support/programs.ts'
import { isSoak } from '../support/rounds.ts'

const eyes = { width: 1360, scheme: 'light', hasScripts: true } as const

let service: InProcess

before(async () => {
  service = await startInProcess()
})

after(() => service[Symbol.asyncDispose]())

describe('in a browser', { skip: without('chromium') }, () => {
  let browser: Browser

  before(async () => {
    browser = await startBrowser()
  })

  after(() => browser.close())

  test('the documentation page shows every route, loads nothing from elsewhere, and can be searched', async () => {
    const { url } = service
    const { context, page, faults } = await openWindow(browser, { ...eyes, url })
    const requested: string[] = []
    page.on('request', (request) => requested.push(request.url()))
    await page.goto('/docs')
    const text = await page.innerText('main')
    for (const { method, path } of service.routes) {
      const shown = path.replace(/:(\w+)\*?/g, '{$1}')
      assert.ok(text.includes(`${method} ${shown}`), `${method} ${shown}`)
    }
    for (const address of requested) assert.ok(address.startsWith(`${url}/`), address)
    const broken = await page.evaluate(
      `[...document.querySelectorAll('a[href^="#"]')].filter((link) => !document.querySelector(link.hash)).length`,
    )
    assert.equal(broken, 0)
    await page.keyboard.press('/')
    await page.keyboard.type('undo push')
    assert.deepEqual(await page.locator('article:visible h3').allInnerTexts(), ['Undo a push'])
    await page.keyboard.type(' nothing like it')
    assert.ok(await page.getByText('No operation matches.').isVisible())
    assert.deepEqual(faults, [])
    await context.close()
  })

  test('the documentation page is accessible, wide and narrow', exhaustive, async () => {
    const { context, page, faults } = await openWindow(browser, { ...eyes, url: service.url })
    await page.goto('/docs')
    await assertAccessible(page)
    await page.setViewportSize({ width: 320, height: 900 })
    await page.emulateMedia({ colorScheme: 'dark' })
    await assertNoOverflow(page)
    // Axe takes seconds for a page of this length, even for what is hidden, and all of its operations look alike.
    if (!isSoak) {
      await page.fill('[data-docs-filter]', 'webhook')
      await page.evaluate(
        'for (const article of document.querySelectorAll("article[hidden]")) article.remove()',
      )
    }
    const count = await page.locator('article:visible').count()
    assert.ok(count > 5, `${count} operations`)
    await assertAccessible(page)
    assert.deepEqual(faults, [])
    await context.close()
  })
})

test('the example of every route is a command that sends a valid request', () => {
  const script = service.routes.map(argumentsOf).join('\necho =\n')
  const printed = execFileSync('bash', ['-ec', script], { encoding: 'utf8' }).split('\n=\n')
  for (const [index, route] of service.routes.entries()) {
    const words = printed[index]?.split('\n') ?? []
    const url = new URL(words.find((word) => word.startsWith('https:')) ?? '')
    const method = words.includes('-X') ? words[words.indexOf('-X') + 1] : 'GET'
    assert.equal(method, route.method)
    if (route.kind !== 'json') continue
    checkQuery(route.query, url.searchParams)
    const body = words.indexOf('-d')
    checkBody(route.body, body === -1 ? undefined : JSON.parse(words[body + 1] ?? ''))
  }
})

/** The words that the example passes to curl, a line each. */
function argumentsOf(route: Route): string {
  const example = curlExample(route, 'https://git.example.com')
  return example.replace(/^curl/, "SVC_TOKEN=t; printf '%s\\n'")
}

test('documents are sent compressed to clients that take gzip, and are the same to others', async () => {
  for (const path of ['/openapi.json', '/docs', '/llms.txt']) {
    const get = (encoding: string, method = 'GET') =>
      fetch(service.url + path, { method, headers: { 'accept-encoding': encoding } })
    const plain = await get('identity')
    assert.equal(plain.headers.get('content-encoding'), null)
    assert.equal(plain.headers.get('vary'), 'accept-encoding')
    const text = await plain.text()
    for (const encoding of ['gzip', 'br, gzip;q=0.5']) {
      const zipped = await get(encoding)
      assert.equal(zipped.headers.get('content-encoding'), 'gzip', path)
      assert.ok(Number(zipped.headers.get('content-length')) < text.length / 3, path)
      assert.equal(await zipped.text(), text, path)
      const head = await get(encoding, 'HEAD')
      assert.equal(head.headers.get('content-length'), zipped.headers.get('content-length'))
    }
    for (const encoding of ['gzip;q=0', 'br', 'x-gzip-not'])
      assert.equal((await get(encoding)).headers.get('content-encoding'), null, encoding)
  }
  const health = await fetch(`${service.url}/health`, { headers: { 'accept-encoding': 'gzip' } })
  assert.equal(health.headers.get('content-encoding'), null)
})
