import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Permission, permissions } from '../src/access/permissions.ts'
import type { Page, PageAction } from '../src/web/page.ts'
import { pages } from '../src/web/page-list.ts'
import { type InProcess, startInProcess } from './support/in-process.ts'
import { createPageClient, logIn } from './support/page-client.ts'
import { finishedPushes } from './support/pushes.ts'
import { oneStep, pushFiles } from './support/workflow-site.ts'

type Site = InProcess & { values: Record<string, string> }

/**
 * The address of each page, by the path of its route, for the repository `site`; values for `{…}` are those of
 * `openSite`. A new page needs a line here.
 */
const addresses: Record<string, string> = {
  '/': '/',
  '/-/new': '/-/new',
  '/-/keys': '/-/keys',
  '/-/tokens': '/-/tokens',
  '/-/tokens/new': '/-/tokens/new',
  '/-/tokens/delegate': '/-/tokens/delegate',
  '/-/deleted': '/-/deleted',
  '/-/audit': '/-/audit',
  '/-/events': '/-/events',
  '/-/events/stream': '/-/events/stream',
  '/r/:name': '/r/site',
  '/r/:name/settings': '/r/site/settings',
  '/r/:name/webhooks': '/r/site/webhooks',
  '/r/:name/webhooks/:id': '/r/site/webhooks/{webhook}',
  '/r/:name/webhooks/:id/deliveries/:delivery': '/r/site/webhooks/{webhook}/deliveries/{delivery}',
  '/r/:name/src/:target*': '/r/site/src/main',
  '/r/:name/raw/:target*': '/r/site/raw/main:.svc/workflows/ci.yml',
  '/r/:name/find/:target*': '/r/site/find/main',
  '/r/:name/log': '/r/site/log',
  '/r/:name/log/:target*': '/r/site/log/main',
  '/r/:name/commit/:id': '/r/site/commit/{commit}',
  '/r/:name/compare': '/r/site/compare',
  '/r/:name/compare/:range*': '/r/site/compare/main...main',
  '/r/:name/blame/:target*': '/r/site/blame/main:.svc/workflows/ci.yml',
  '/r/:name/branches': '/r/site/branches',
  '/r/:name/tags': '/r/site/tags',
  '/r/:name/search': '/r/site/search?q=Only',
  '/r/:name/archive/:target*': '/r/site/archive/main.tar.gz',
  '/r/:name/runs': '/r/site/runs',
  '/r/:name/runs/:number': '/r/site/runs/1',
  '/r/:name/runs/:number/log': '/r/site/runs/1/log',
  '/r/:name/runs/:number/live': '/r/site/runs/1/live',
  '/r/:name/pushes': '/r/site/pushes',
  '/r/:name/pushes/:id': '/r/site/pushes/{push}',
}

const shown = pages.filter((route): route is Page => route.kind === 'page')
const actions = pages.filter((route): route is PageAction => route.kind === 'action')

let site: Site

before(async () => {
  site = await openSite('off')
})

after(() => site[Symbol.asyncDispose]())

/** A service with one of everything that a page shows. */
async function openSite(anonymousRead: 'off' | 'code' | 'all'): Promise<Site> {
  const service = await startInProcess({ SVC_WEB_ANONYMOUS_READ: anonymousRead })
  const { admin } = service
  const commit = await pushFiles(admin, 'site', oneStep('true'))
  const webhook = (
    await admin.post('/repos/site/webhooks', { url: 'http://127.0.0.1:9/', events: ['push'] })
  ).body.id
  const delivery = (await admin.post(`/repos/site/webhooks/${webhook}/ping`)).body.id
  await admin.post('/repos/site/workflows', {})
  const [push] = await finishedPushes(service, admin, 'site')
  return { ...service, values: { commit, webhook, delivery, push: push?.id ?? '' } }
}

function addressOf({ path }: Page, { values }: Site, name = 'site'): string {
  const address = addresses[path]
  assert.ok(address, `${path} needs an address in the table at the top of this test`)
  return address
    .replace(/\{(\w+)\}/g, (_, key) => values[key] ?? '')
    .replace('/r/site', `/r/${name}`)
}

/** The response without its body: some pages grow until a run ends. */
async function visit({ url }: Site, path: string, cookie = '') {
  const headers = { ...(cookie !== '' && { cookie }) }
  const response = await fetch(url + path, { headers, redirect: 'manual' })
  await response.body?.cancel()
  return { status: response.status, location: response.headers.get('location') ?? '' }
}

/** The cookie of a new session with a new token. */
async function newCookie(who: { username: string; permissions?: readonly Permission[] }) {
  const { token } = await site.client({
    username: who.username,
    ...(who.permissions && { permissions: [...who.permissions] }),
  })
  return (await logIn(site.url, token)).cookie()
}

const all = permissions.filter((permission) => permission !== 'admin' && permission !== 'runner')

/** The permission of the operation that decides who may see a page. */
function permissionOf({ path, reads: [first] }: Page): Permission | undefined {
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
      page.reads.length > 0,
      `${page.path} reads no operation, so nothing decides who sees it`,
    )
    for (const read of page.reads)
      assert.ok(
        site.routes.some(({ operationId }) => operationId === read),
        `${page.path} reads ${read}`,
      )
  }
})

test('an owner sees every page', async () => {
  const cookie = (await logIn(site.url, site.adminToken)).cookie()
  for (const page of shown) {
    const { status, location } = await visit(site, addressOf(page, site), cookie)
    assert.ok(
      status === 200 || (status === 303 && !location.includes('login')),
      `${page.path}: ${status}`,
    )
  }
})

test('without a session a page is shown or leads to the login, as its audience says', async () => {
  const open = { off: [], code: ['code'], all: ['code', 'all'] } as const
  for (const allowed of ['off', 'code', 'all'] as const) {
    await using here = await openSite(allowed)
    for (const page of shown) {
      const { status, location } = await visit(here, addressOf(page, here))
      const isOpen = open[allowed].some((audience) => audience === page.audience)
      const isLogin = status === 303 && location.startsWith('/-/login')
      assert.equal(isLogin, !isOpen, `${page.path} with ${allowed}: ${status} ${location}`)
      if (isOpen) assert.ok(status < 400, `${page.path} with ${allowed}: ${status}`)
    }
  }
})

test('a repository that is invisible and one that does not exist are byte-equal', async () => {
  const [one, other] = [
    await newCookie({ username: 'stranger', permissions: all }),
    await newCookie({ username: 'stranger', permissions: all }),
  ]
  for (const page of shown.filter(({ path }) => path.startsWith('/r/'))) {
    const fetched = async (name: string, cookie: string) => {
      const path = addressOf(page, site, name)
      const response = await fetch(site.url + path, { headers: { cookie }, redirect: 'manual' })
      return { status: response.status, text: (await response.text()).replaceAll(name, 'NAME') }
    }
    const [hidden, unknown] = [await fetched('site', one), await fetched('nope', other)]
    assert.equal(hidden.status, 404, page.path)
    assert.deepEqual(hidden, unknown, page.path)
  }
})

test('a token without the permission of the first operation gets 403', async () => {
  for (const page of shown) {
    const needed = permissionOf(page)
    if (needed === undefined) continue
    const held = all.filter((permission) => permission !== needed)
    const cookie = await newCookie({ username: 'admin', permissions: held })
    const { status } = await visit(site, addressOf(page, site), cookie)
    assert.equal(status, 403, `${page.path} without ${needed}`)
  }
})

test('every form performs an operation, and has a page that shows its problem', () => {
  for (const { path, does, of } of actions) {
    const route = site.routes.find(({ operationId }) => operationId === does)
    assert.equal(route?.kind, 'json', `${path} performs ${does}`)
    assert.notEqual(route.method, 'GET', `${path} performs ${does}, which changes nothing`)
    assert.ok(
      shown.some((page) => page.path === of),
      `${path} is on ${of}, which is no page`,
    )
  }
})

test('every form is refused from another site, and leads to the login without a session', async () => {
  const client = await logIn(site.url, site.adminToken)
  const before = (await site.admin.get('/audit?limit=1')).body
  for (const { path } of actions) {
    const address = path.replace(':name', 'site').replaceAll(/:\w+\*?/g, 'x')
    const foreign = await client.post(address, {}, { 'sec-fetch-site': 'cross-site' })
    assert.equal(foreign.status, 403, path)
    const { status, location } = await createPageClient(site.url).post(address, {})
    assert.equal(status, 303, path)
    assert.match(location ?? '', /^\/-\/login/, path)
  }
  assert.deepEqual((await site.admin.get('/audit?limit=1')).body, before)
})
