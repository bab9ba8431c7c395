// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { matchPages } from '#web/serve/match.ts'
import { pages } from '#web/serve/page-list.ts'
import { startBrowser } from '../support/browser.ts'
import {
  allPayloads,
  createHostileRepository,
  hostileAnswer,
  hostileUserAgent,
  payloads,
} from '../support/hostile-repository.ts'
import { createPageClient, logIn, type PageClient } from '../support/page-client.ts'
import { type CrawledPage, crawl } from '../support/page-crawler.ts'
import { readPage } from '../support/page-markup.ts'
import { without } from '../support/programs.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let service: Service
let receiver: Receiver
let owner: Client
let crawled: CrawledPage[]

const name = 'hostile'

before(async () => {
  receiver = await startReceiver((_received, response) =>
    response.writeHead(500, hostileAnswer.headers).end(hostileAnswer.body),
  )
  const env = { SVC_WEB_ANONYMOUS_READ: 'all', SVC_TRUSTED_PROXIES: '127.0.0.1' }
  service = await startService({ env: { SVC_REQUEST_BURST: '10000', ...env } })
  const site = { name, receiver: receiver.url }
  ;({ owner } = await createHostileRepository(service, site))
  await receiver.untilReceived(1)
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

function at(kind: string, file: string): string {
  return `/r/${name}/${kind}/main:${file}`
}

/** Browsers with tokens of their own, since pages are limited by token. */
function logInOften(count: number): Promise<PageClient[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const { body } = await owner.post('/tokens', {
        name: 'x',
        username: 'owner',
        permissions: ['admin'],
      })
      const client = createPageClient(service.url)
      await client.post('/-/login', { token: body.token }, { 'user-agent': hostileUserAgent })
      return client
    }),
  )
}

test('no page of a hostile repository has markup that is not ours', async () => {
  const clients = await logInOften(30)
  // Files first: there are more folders, branches and tags than are opened.
  const files = ['README.md', 'evil.js', 'evil.svg', 'evil.png', 'tab%09here', 'line%0Afeed']
  const from = [
    ...['/', '/-/events', '/-/keys', '/-/tokens', '/-/sessions', '/-/new', `/r/${name}`],
    ...files.flatMap((file) => ['src', 'blame', 'log'].map((kind) => at(kind, file))),
    `/r/${name}/search?q=ran`,
    `/r/${name}/search?${new URLSearchParams({ q: payloads[1] ?? '' })}`,
    `/?${new URLSearchParams({ q: payloads[1] ?? '' })}`,
    `/-/login?${new URLSearchParams({ next: payloads[1] ?? '' })}`,
  ]
  const result = await crawl({ clients, from, mostOfEach: 12 })
  crawled = result.crawled
  assert.deepEqual(result.faults.slice(0, 20), [])
  const failed = crawled.filter(({ answer }) => answer.status >= 500)
  assert.deepEqual(
    failed.map(({ path, answer }) => `${answer.status} ${path}`),
    [],
  )
  // Pages that no link of this repository leads to have no content of it either.
  const reached = new Set(result.templates)
  const missed = pages
    .filter((page) => page.kind === 'page' && !reached.has(page.path))
    .map(({ path }) => path)
  assert.deepEqual(
    missed.filter((path) => !unlinked.has(path)),
    [],
  )
})

/** Pages to which no link leads: streams for the script, and that of a namespace, in which the repository is not. */
const unlinked = new Set<string>([
  '/-/events/stream',
  '/r/:name/runs/:number/live',
  '/-/namespaces/:namespace',
  '/-/namespaces/:namespace/settings',
  '/-/namespaces/:namespace/webhooks',
  '/-/namespaces/:namespace/webhooks/:id',
  '/-/namespaces/:namespace/webhooks/:id/deliveries/:delivery',
])

test('every response has the headers of its kind', () => {
  for (const { path, answer } of crawled) {
    const { headers, status } = answer
    const policy = headers.get('content-security-policy') ?? ''
    assert.match(policy, /default-src 'none'/, path)
    assert.equal(headers.get('x-content-type-options'), 'nosniff', path)
    assert.doesNotMatch(headers.get('cache-control') ?? '', /public/, path)
    assert.ok(headers.get('set-cookie') === null, path)
    const type = headers.get('content-type') ?? ''
    if (type.startsWith('text/html')) {
      assert.doesNotMatch(policy, /unsafe/, path)
      assert.match(policy, /frame-ancestors 'none'/, path)
      assert.match(policy, /require-trusted-types-for 'script'/, path)
    } else if (status === 200) {
      // No type that a browser runs, except images in a sandbox.
      assert.doesNotMatch(type, /javascript|html|css/, path)
      if (/svg/.test(type)) assert.match(policy, /sandbox/, path)
    }
  }
})

test('forms that are refused show what was typed as text', async () => {
  const clients = await logInOften(6)
  const forms = new Map<string, { path: string; fields: Record<string, string> }>()
  for (const { answer, tags } of crawled) {
    if (answer.status !== 200) continue
    for (const form of formsIn(tags)) {
      // Those end sessions, or the end of the run, whose log is read below.
      const { template } = form
      if (/\/(?:logout|sessions|rerun)\b/.test(form.path)) continue
      if (!forms.has(template)) forms.set(template, form)
    }
  }
  assert.ok(forms.size > 0)
  for (const { path, fields } of forms.values()) {
    const client = clients.pop() as PageClient
    clients.unshift(client)
    const { status, text, headers } = await client.post(path, fields)
    assert.ok(status < 500, `${path}: ${status}`)
    if (!headers.get('content-type')?.startsWith('text/html')) continue
    assert.deepEqual(readPage(text).faults, [], path)
  }
})

test('search engines are led to what branches have now, and keep no page of a commit', async () => {
  // Those of a network are limited together.
  const clients = Array.from({ length: 30 }, (_, index) => {
    const client = createPageClient(service.url)
    const headers = { 'x-forwarded-for': `192.0.2.${index}` }
    return { ...client, get: (path: string) => client.request(path, { headers }) }
  })
  const found = await crawl({ clients, from: ['/', `/r/${name}/log/main`], mostOfEach: 6 })
  assert.deepEqual(found.faults, [])
  for (const { path, answer } of [...found.crawled, ...crawled]) {
    const isOfCommit = /^\/r\/[^/]+\/\w+\/[^?:]*[0-9a-f]{40}/.test(path)
    // Those of raw files have their own.
    if (isOfCommit || !path.includes('/raw/'))
      assert.equal(answer.headers.get('x-robots-tag') === 'noindex', isOfCommit, path)
  }
  const links = found.crawled.flatMap(({ tags }) => tags.filter((tag) => tag.name === 'a'))
  assert.ok(links.length > 100)
  for (const { attributes } of links) {
    const address = attributes.get('href') ?? ''
    const isFollowed = !/\bnofollow\b/.test(attributes.get('rel') ?? '')
    const [path = '', query] = address.split('#', 1)[0]?.split('?') ?? []
    const route = path.startsWith('/') ? matchPages(pages, 'GET', path)[0]?.route : undefined
    const isCostly = query !== undefined || (route?.kind === 'page' && route.weight !== 'light')
    const isOfBranch =
      /^\/r\/[^/]+(?:\/src\/.*)?$/.test(path) && query === undefined && !/\/[0-9a-f]{40}/.test(path)
    if (isFollowed) assert.ok(!isCostly || isOfBranch, address)
    if (isOfBranch) assert.ok(isFollowed, address)
  }
})

function formsIn(tags: CrawledPage['tags']) {
  const found: { path: string; template: string; fields: Record<string, string> }[] = []
  let current: (typeof found)[number] | undefined
  for (const { name: element, attributes } of tags) {
    if (element === 'form') {
      const path = attributes.get('action') ?? ''
      current =
        attributes.get('method') === 'post'
          ? { path, template: path.replace(/[0-9a-z]{26}|[0-9a-f]{40}|\d+/g, 'ID'), fields: {} }
          : undefined
      if (current) found.push(current)
    } else if (current && attributes.has('name')) {
      current.fields[attributes.get('name') ?? ''] = allPayloads
    }
  }
  return found
}

test('in a browser nothing runs and nothing leaves', { skip: without('chromium') }, async () => {
  // Forms have started some again, and the page of a log ends with its run.
  const { body: queued } = await owner.get(`/repos/${name}/workflows?status=queued`)
  for (const { id } of queued) await owner.post(`/repos/${name}/workflows/${id}/cancel`)
  const browser = await startBrowser()
  try {
    const context = await browser.newContext({ baseURL: service.url })
    const client = await logIn(service.url, owner.token)
    const [cookieName = '', value = ''] = client.cookie().split('=')
    await context.addCookies([{ name: cookieName, value, url: service.url }])
    const events: string[] = []
    const page = await context.newPage()
    await page.exposeFunction('ran', () => events.push(`ran at ${page.url()}`))
    await context.route('**', (route) => {
      const { origin } = new URL(route.request().url())
      if (origin === service.url) return route.continue()
      events.push(`request of ${route.request().url()} at ${page.url()}`)
      return route.abort()
    })
    page.on('dialog', (dialog) => {
      events.push(`dialog at ${page.url()}`)
      return dialog.dismiss()
    })
    page.on('console', (message) => {
      // The README has images of files that are not there.
      if (/^Failed to load resource: .* 404/.test(message.text())) return
      events.push(`${message.text()} at ${page.url()}`)
    })
    for (const path of samples(crawled)) {
      await page.goto(path)
      const { pathname } = new URL(page.url())
      assert.equal(pathname, new URL(path, service.url).pathname)
      await page.mouse.move(400, 400)
      await page.keyboard.press('Tab')
      // A refresh of a page would happen by now, and its handlers have run.
      await page.evaluate('new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))')
    }
    assert.deepEqual([...new Set(events)], [])
  } finally {
    await browser.close()
  }
})

/** Two pages of each kind: the first and the longest. */
function samples(all: CrawledPage[]): string[] {
  const kinds = Map.groupBy(
    all.filter(({ answer }) => answer.status === 200 && isPage(answer)),
    ({ template }) => template,
  )
  return [...kinds.values()].flatMap((kind) => {
    const longest = kind.toSorted((one, two) => two.answer.text.length - one.answer.text.length)
    return [...new Set([kind[0]?.path, longest[0]?.path])].flatMap((path) => path ?? [])
  })
}

function isPage({ headers }: CrawledPage['answer']): boolean {
  return headers.get('content-type')?.startsWith('text/html') ?? false
}

test('markup that is not ours is found', () => {
  const bad = [
    '<p>a < b</p>',
    '<p onclick="x">',
    '<p class=x>',
    '<iframe src="/x"></iframe>',
    '<a href="javascript:x">',
    '<a href="//evil.example/">',
    '<a href="/\\evil.example/">',
    '<a href="https://evil.example/">',
    '<img src="https://evil.example/">',
    '<script src="/r/x/raw/main:a.js"></script>',
    '<script type="module" src="/-/assets/0123456789abcdef/app.js">x</script>',
    '<a href="&#x6a;avascript:x">',
    '<p style="x">',
  ]
  for (const html of bad) assert.notDeepEqual(readPage(html).faults, [], html)
  const good =
    '<p class="x">a &lt; b <a href="https://x.example/" rel="nofollow noreferrer">x</a></p>'
  assert.deepEqual(readPage(good).faults, [])
})
