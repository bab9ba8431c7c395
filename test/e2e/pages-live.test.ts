import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Browser, Page, Request } from 'playwright-core'
import { openWindow, startBrowser } from '../support/browser.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { logIn } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { begun, jobEnded, mustClaim, runEnded, wrote } from '../support/run-by-hand.ts'
import { type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

let service: Service
let browser: Browser | undefined

before(async () => {
  service = await startService()
  await pushFiles(service.admin, 'site', oneStep('true'))
})

after(async () => {
  await browser?.close()
  await service[Symbol.asyncDispose]()
})

const eyes = { width: 1360, scheme: 'light', hasScripts: true } as const

async function startRun() {
  const { body } = await service.admin.post('/repos/site/workflows', {})
  const held = await mustClaim(service.admin)
  return { number: body.number as number, held }
}

/** A response that is still being sent. */
async function follow(path: string, token = service.adminToken) {
  const client = await logIn(service.url, token)
  const gone = new AbortController()
  const response = await fetch(service.url + path, {
    headers: { cookie: client.cookie() },
    signal: gone.signal,
    redirect: 'manual',
  })
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  return {
    client,
    response,
    text: () => text,
    /** Reads until the text matches, or the end; false at the end. */
    async until(pattern: RegExp): Promise<boolean> {
      while (!pattern.test(text)) {
        const part = await reader?.read().catch(() => undefined)
        if (part?.value === undefined) return false
        text += part.value
      }
      return true
    },
    [Symbol.asyncDispose]: async () => gone.abort(),
  }
}

test('the page of a log grows without a script until the run ends', exhaustive, async () => {
  const { number, held } = await startRun()
  await held.report(...begun(), wrote('first <line>\n'))
  await using page = await follow(`/r/site/runs/${number}/log`)
  assert.ok(await page.until(/<li id="L2">first &lt;line&gt;<\/li>/))
  assert.doesNotMatch(page.text(), /<\/html>/)
  await held.report(wrote('\x1b[32msecond\x1b[0m\n'))
  assert.ok(await page.until(/<li id="L3"><span class="ansi-green">second/))
  await held.report(...jobEnded(), runEnded())
  assert.ok(
    await page.until(/<\/ol><\/div><p class="log-note" id="end">Succeeded\.<\/p>[\s\S]*<\/html>/),
  )
})

test(
  'streams end within a moment of the end of the session, the token or the access',
  exhaustive,
  async () => {
    const { number, held } = await startRun()
    await held.report(...begun(), wrote('busy\n'))
    const paths = [
      '/-/events/stream?repository=site',
      `/r/site/runs/${number}/live`,
      `/r/site/runs/${number}/log`,
    ]
    await service.admin.post('/repos/site/collaborators', { username: 'guest' })
    const wanted = { username: 'guest', permissions: ['repo:read', 'workflow:read'] }
    for (const path of paths) {
      for (const ending of ['session', 'token', 'access']) {
        const guest = await service.client(wanted)
        await using stream = await follow(path, guest.token)
        assert.equal(stream.response.status, 200, path)
        assert.ok(await stream.until(/\n\n|busy/), path)
        if (ending === 'session') await stream.client.post('/-/logout', {})
        else if (ending === 'token') await service.admin.delete(`/tokens/${guest.id}`)
        else await service.admin.delete('/repos/site/collaborators/guest')
        assert.equal(await stream.until(/never/), false)
        if (ending === 'access')
          await service.admin.post('/repos/site/collaborators', { username: 'guest' })
      }
    }
    await held.report(...jobEnded(), runEnded())
    assert.doesNotMatch(service.log(), /request failed/)
  },
)

test('streams need a session and the right of the operation', async () => {
  for (const path of ['/-/events/stream', '/r/site/runs/1/live']) {
    const response = await fetch(service.url + path, { redirect: 'manual' })
    assert.equal(response.status, 303)
  }
  const stranger = await service.client({
    username: 'stranger',
    permissions: ['repo:read', 'workflow:read'],
  })
  const client = await logIn(service.url, stranger.token)
  assert.equal((await client.get('/-/events/stream?repository=site')).status, 404)
  assert.equal((await client.get('/r/site/runs/1/live')).status, 404)
})

test('a stream goes on after the last event that the browser has', async () => {
  const { number, held } = await startRun()
  await held.report(...begun(), wrote('one\n'), wrote('two\n'), ...jobEnded(), runEnded())
  await using whole = await follow(`/r/site/runs/${number}/live`)
  assert.ok(await whole.until(/event: end[\s\S]*\n\n$/))
  const [, id] =
    /id: (\d+)\ndata: \{"step":0,"lines":\[\[\["","one"\]\]\]\}/.exec(whole.text()) ?? []
  await using rest = await follow(`/r/site/runs/${number}/live?after=${id}`)
  assert.ok(await rest.until(/event: end/))
  assert.match(rest.text(), /"two"/)
  assert.doesNotMatch(rest.text(), /"one"/)
})

test('the streams of lists have what happens between the page and its stream', async () => {
  const client = await logIn(service.url, service.adminToken)
  for (const path of ['/r/site/runs', '/r/site/pushes', '/-/events']) {
    const { text } = await client.get(path)
    const [, address = ''] = /<main[^>]* data-live="([^"]*)"/.exec(text) ?? []
    const { held } = await startRun()
    await pushFiles(service.admin, 'site', { 'b.txt': path }, { branch: 'between' })
    await using stream = await follow(address.replaceAll('&amp;', '&'))
    assert.ok(await stream.until(/event: push/), path)
    await held.report(...begun(), ...jobEnded(), runEnded())
  }
})

async function withPage(
  use: (page: Page) => Promise<void>,
  { url, token } = { url: service.url, token: service.adminToken },
): Promise<void> {
  browser ??= await startBrowser()
  const { context, page, faults } = await openWindow(browser, { ...eyes, url, token })
  try {
    await use(page)
    assert.deepEqual(faults, [])
  } finally {
    await context.close()
  }
}

test('in a browser, the log, the states and the end of a run follow without a reload', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  const { number, held } = await startRun()
  await withPage(async (page) => {
    await page.goto(`/r/site/runs/${number}`)
    await page.evaluate('window.isSame = true')
    await held.report(...begun({ name: 'Build <b>' }))
    await page.waitForSelector('details#step-0[open] summary:has-text("Build <b>")')
    await held.report(wrote('one\n\x1b[31mtwo <i>\x1b[0m\n'))
    await page.waitForSelector('#log-0 li:nth-child(2) .ansi-red:text-is("two <i>")')
    await held.report(wrote('three\n'))
    await page.waitForSelector('#log-0 li#s0-L3:text-is("three")')
    await held.report(...jobEnded('failure'), runEnded('failure'))
    await page.waitForSelector('#run-head .badge.bad:has-text("Failed")')
    await page.waitForSelector('.digest :text("failed in Build <b>")')
    assert.equal(await page.locator('#log-0 li').count(), 3)
    assert.equal(await page.evaluate('window.isSame'), true)
  })
})

test('in a browser, a change that comes while the page is asked for again is shown, too', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  await withPage(async (page) => {
    const { number, held } = await startRun()
    const path = `/r/site/runs/${number}`
    await page.route(
      `${service.url}${path}?state=`,
      async (route) => {
        const old = await route.fetch()
        const isStream = (one: Request) => /live\?/.test(one.url())
        const streamEnded = Promise.race([
          page.waitForEvent('requestfinished', isStream),
          page.waitForEvent('requestfailed', isStream),
        ])
        await held.report(...jobEnded(), runEnded())
        await streamEnded
        await route.fulfill({ response: old })
      },
      { times: 1 },
    )
    await page.goto(path)
    await held.report(...begun())
    await page.waitForSelector('#run-head .badge.good')
  })
})

test('in a browser, a stream and a page that a proxy refuses are asked for again', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  browser ??= await startBrowser()
  const { url, adminToken: token } = service
  const { context, page } = await openWindow(browser, { ...eyes, url, token })
  try {
    const { number, held } = await startRun()
    const refusal = { status: 502, contentType: 'text/html', body: 'Bad gateway' }
    for (const pattern of [/\/live\?/, /\?state=$/])
      await page.route(pattern, (route) => route.fulfill(refusal), { times: 1 })
    await page.goto(`/r/site/runs/${number}`)
    await held.report(...begun(), ...jobEnded(), runEnded())
    await page.waitForSelector('#run-head .badge.good')
  } finally {
    await context.close()
  }
})

test('in a browser, the list of runs follows, and a push is announced on other pages', {
  ...exhaustive,
  skip: without('chromium'),
}, async () => {
  await withPage(async (page) => {
    await page.goto('/r/site/runs')
    const { number, held } = await startRun()
    const row = `.run-row:has(a[href="/r/site/runs/${number}"])`
    await page.waitForSelector(`${row} .mark[title="Running"]`)
    await held.report(...begun(), ...jobEnded(), runEnded())
    await page.waitForSelector(`${row} .mark[title="Succeeded"]`)
    await page.goto('/r/site/pushes')
    await page.goto('/r/site/settings')
    await until('the stream is open', async () => {
      await pushFiles(
        service.admin,
        'site',
        { 'a.txt': String(Math.random()) },
        { branch: 'other' },
      )
      return page.locator('#live-notice:has-text("pushed to other of site just now")').count()
    })
  })
})

test('in a browser, the log of a real workflow in its sandbox grows', {
  skip: without('chromium') || without('bubblewrap'),
}, async () => {
  await using server = await startService({ env: { SVC_RUNNER: 'on' } })
  const script =
    'for n in 1 2 3; do printf "\\033[32mline\\033[0m $n\\n"; sleep 0.5; done; echo the end'
  await pushFiles(server.admin, 'real', oneStep(script))
  const { body } = await server.admin.post('/repos/real/workflows', {})
  await withPage(
    async (page) => {
      await page.goto(`/r/real/runs/${body.number}`)
      await page.waitForSelector('#log-0 li:has-text("line 1")', { timeout: 180_000 })
      await page.waitForSelector('#log-0 li:has-text("the end")', { timeout: 180_000 })
      await page.waitForSelector('#run-head .badge.good', { timeout: 180_000 })
      assert.equal(await page.locator('#log-0 li').count(), 4)
    },
    { url: server.url, token: server.adminToken },
  )
})
