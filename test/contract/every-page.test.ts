// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import type { Permission } from '#access/permissions.ts'
import type { Page } from '#web/page.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { createPageClient, logIn } from '../support/page-client.ts'
import { decode } from '../support/page-markup.ts'
import {
  actions,
  addressOf,
  allPermissions,
  newCookie,
  openPageSite,
  type PageSite,
  shown,
} from '../support/page-site.ts'
import { without } from '../support/programs.ts'

let site: PageSite

before(async () => {
  site = await openPageSite()
})

after(() => site[Symbol.asyncDispose]())

/** The response without its body: some pages grow until a run ends. */
async function visit({ url }: PageSite, path: string, cookie = '') {
  const headers = { ...(cookie !== '' && { cookie }) }
  const response = await fetch(url + path, { headers, redirect: 'manual' })
  await response.body?.cancel()
  return { status: response.status, location: response.headers.get('location') ?? '' }
}

/** The permission of the operation that decides who may see a page. */
function permissionOf({ path, operations: [first] }: Page): Permission | undefined {
  const route = site.routes.find(({ operationId }) => operationId === first)
  assert.equal(route?.kind, 'json', `${path} reads ${first}, which is no operation`)
  const { permission } = route
  return permission === 'run' ? undefined : permission
}

test('every page has a weight, an audience and operations that exist', () => {
  for (const page of shown) {
    assert.ok(['light', 'git', 'heavy'].includes(page.weight), page.path)
    assert.ok(['code', 'all', 'members'].includes(page.audience), page.path)
    assert.ok(
      page.operations.length > 0,
      `${page.path} reads no operation, so nothing decides who sees it`,
    )
    for (const read of page.operations)
      assert.ok(
        site.routes.some(({ operationId }) => operationId === read),
        `${page.path} reads ${read}`,
      )
  }
})

test('an owner sees every page', () => assertSeesAll(site))

test('an owner sees every page on PostgreSQL', { skip: without('postgres') }, async () => {
  const { url, drop } = await createPostgresDatabase()
  try {
    await using here = await openPageSite({ SVC_DATABASE_URL: url })
    await assertSeesAll(here)
  } finally {
    await drop()
  }
})

async function assertSeesAll(here: PageSite): Promise<void> {
  const cookie = (await logIn(here.url, here.adminToken)).cookie()
  for (const page of shown) {
    const { status, location } = await visit(here, addressOf(page, here), cookie)
    assert.ok(
      status === 200 || (status === 303 && !location.includes('login')),
      `${page.path}: ${status}`,
    )
  }
}

test('without a session a page is shown or leads to the login, as its audience says', async () => {
  const open = { off: [], code: ['code'], all: ['code', 'all'] } as const
  for (const allowed of ['off', 'code', 'all'] as const) {
    await using here = await openPageSite({ SVC_WEB_ANONYMOUS_READ: allowed })
    for (const page of shown) {
      const { status, location } = await visit(here, addressOf(page, here))
      const isOpen = open[allowed].some((audience) => audience === page.audience)
      const isLogin = status === 303 && location.startsWith('/-/login')
      assert.equal(isLogin, !isOpen, `${page.path} with ${allowed}: ${status} ${location}`)
      if (isOpen) assert.ok(status < 400, `${page.path} with ${allowed}: ${status}`)
    }
  }
})

test('a token without the permission of the first operation gets 403', async () => {
  for (const page of shown) {
    const needed = permissionOf(page)
    if (needed === undefined) continue
    const held = allPermissions.filter((permission) => permission !== needed)
    const cookie = await newCookie(site, { username: 'admin', permissions: held })
    const { status } = await visit(site, addressOf(page, site), cookie)
    assert.equal(status, 403, `${page.path} without ${needed}`)
  }
})

test('every form performs an operation, and has a page that shows its problem', () => {
  for (const { path, operation, formPage } of actions) {
    const route = site.routes.find(({ operationId }) => operationId === operation)
    assert.equal(route?.kind, 'json', `${path} performs ${operation}`)
    assert.notEqual(route.method, 'GET', `${path} performs ${operation}, which changes nothing`)
    assert.ok(
      shown.some((page) => page.path === formPage),
      `${path} is on ${formPage}, which is no page`,
    )
  }
})

test('every form is refused from another site, and leads to the login without a session', async () => {
  const client = await logIn(site.url, site.adminToken)
  const before = (await site.admin.get('/audit?limit=1')).body
  for (const { path, formPage } of actions) {
    const [address, form] = [path, formPage].map((one) =>
      one.replace(':name', 'site').replaceAll(/:\w+\*?/g, 'x'),
    ) as [string, string]
    const foreign = await client.post(address, {}, { 'sec-fetch-site': 'cross-site' })
    assert.equal(foreign.status, 403, path)
    const { status, location } = await createPageClient(site.url).post(address, {})
    assert.equal(status, 303, path)
    const query = form === '/' ? '' : `?${new URLSearchParams({ next: form })}`
    assert.equal(location, `/-/login${query}`, path)
  }
  assert.deepEqual((await site.admin.get('/audit?limit=1')).body, before)
})

test('what a page shows as JSON is printed by the command at its end', async () => {
  const { body } = await site.admin.post('/tokens', {
    name: 'reader',
    username: 'admin',
    permissions: ['admin'],
  })
  const client = await logIn(site.url, body.token)
  let count = 0
  for (const page of shown.filter(({ path }) => !/(?:stream|live|log)$/.test(path))) {
    const { text } = await client.get(addressOf(page, site))
    const [, command] = />This as JSON<[\s\S]*?<code>([^<]*)<\/code>/.exec(text) ?? []
    if (command === undefined) continue
    count += 1
    const env = { ...process.env, SVC_TOKEN: site.adminToken }
    const { stdout } = await promisify(execFile)('sh', ['-c', `${decode(command)} -sf`], { env })
    assert.equal(typeof JSON.parse(stdout), 'object', page.path)
  }
  assert.ok(count > 15, `only ${count} pages have a command`)
})
