// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Permission } from '#access/permissions.ts'
import { toDonePage } from '#web/done.ts'
import { createLinks } from '#web/links.ts'
import type { PageAction, PageContext } from '#web/page.ts'
import { matchPages } from '#web/serve/match.ts'
import { logIn, type PageClient } from '../support/page-client.ts'
import {
  actions,
  addressOf,
  allPermissions,
  openPageSite,
  type PageSite,
  shown,
} from '../support/page-site.ts'
import { createClient } from '../support/service.ts'
import { newKeyLine } from '../support/ssh-keys.ts'

let site: PageSite
let owner: PageClient

before(async () => {
  site = await openPageSite()
  owner = await logIn(site.url, site.adminToken)
  const form = async (path: string, fields: Record<string, string>) =>
    assert.equal((await owner.post(`/r/site/${path}`, fields)).status, 303, path)
  await form('branches', { name: 'side', target: 'main' })
  await form('tags', { name: 'v1', target: 'main' })
  await form('settings/branches', { pattern: 'release', owners: 'any' })
  await form('settings/tags', { pattern: 'v*', owners: 'any' })
  await form('settings/secrets', { secret: 'KEY', value: 'x' })
  for (const [username, role] of Object.entries(roles))
    await form('settings/collaborators', { username, role })
})

after(() => site[Symbol.asyncDispose]())

const roles = { rita: 'read', walt: 'write', mia: 'maintain', ann: 'admin' }

const lacking = (...left: Permission[]) => allPermissions.filter((one) => !left.includes(one))

type Token = {
  username: string
  permissions: readonly Permission[]
  refs?: string[]
  repositories?: string[]
}

const tokens: Record<string, Token> = {
  'role read': { username: 'rita', permissions: allPermissions },
  'role write': { username: 'walt', permissions: allPermissions },
  'role maintain': { username: 'mia', permissions: allPermissions },
  'role admin': { username: 'ann', permissions: allPermissions },
  'role write without repo:delete': { username: 'walt', permissions: lacking('repo:delete') },
  'role admin without any :write': {
    username: 'ann',
    permissions: allPermissions.filter((one) => one.endsWith(':read')),
  },
  'role admin without repo:write': { username: 'ann', permissions: lacking('repo:write') },
  'role admin, limited to refs': {
    username: 'ann',
    permissions: ['repo:read', 'repo:write'],
    refs: ['refs/heads/side'],
  },
  'role admin, limited to a repository': {
    username: 'ann',
    permissions: lacking('metrics:read'),
    repositories: ['site'],
  },
}

// What they may depends on the fields: see `updateRepository`.
const ofFields = new Set([
  // Those who cannot push edit what they have proposed, and resolve what they have begun.
  // The page of a change says what is missing for landing it, instead of the form.
  ...[
    ...['edit', 'abandon', 'reopen', 'land', 'comments/:id/resolve'],
    'files/comments/:id/resolve',
  ].map((one) => `changes/:number/${one}`),
  ...['name', 'default-branch', 'leak-guard', 'run-tokens', 'visibility', 'owner'].map(
    (one) => `settings/${one}`,
  ),
])

/** The forms of a page that are actions of it, by their paths. */
async function formsOf(client: PageClient, address: string): Promise<Set<string> | undefined> {
  const { status, text } = await client.get(address)
  if (status !== 200) return undefined
  const targets = [...text.matchAll(/<form[^>]* action="([^"]+)"/g)].map(
    ([, target = '']) => target,
  )
  const found = targets.map(
    (target) => matchPages(actions, 'POST', target.split('?', 1)[0] ?? '')[0],
  )
  return new Set(found.flatMap((match) => (match ? [match.route.path] : [])))
}

test('a form is shown to all whom the API allows what it does, and to no others', async () => {
  const withForms = shown.filter(({ path }) =>
    actions.some(({ formPage }) => formPage === path && path.startsWith('/r/:name')),
  )
  const compared = new Set<string>()
  for (const [about, token] of Object.entries(tokens)) {
    const { body } = await site.admin.post('/tokens', { name: 'x', ...token })
    assert.ok(body.token, JSON.stringify(body))
    const [client, api] = [await logIn(site.url, body.token), createClient(site.url, body.token)]
    for (const page of withForms) {
      const address = addressOf(page, site)
      const [all, own] = [await formsOf(owner, address), await formsOf(client, address)]
      if (!own) continue
      for (const { path, operation } of actions.filter(({ formPage }) => formPage === page.path)) {
        if (!all?.has(path)) continue
        const check = await api.post('/repos/site/check', { action: operation })
        assert.equal(check.status, 200, check.body.detail)
        compared.add(path)
        const isExpected = check.body.allowed
        if (ofFields.has(path.replace('/r/:name/', '')) && !own.has(path)) continue
        assert.equal(own.has(path), isExpected, `${about}: ${path}: ${check.body.detail}`)
      }
    }
  }
  // Those of runs that have ended or wait for an approval, of imports, and of comments that are being written, are
  // not on these pages.
  const rest = actions.filter(
    ({ formPage, path }) => formPage.startsWith('/r/:name') && !compared.has(path),
  )
  assert.deepEqual(rest.map(({ path }) => path.replace('/r/:name/', '')).sort(), [
    'cancel-import',
    'changes/:number/comments/:id/edit',
    'changes/:number/comments/:id/reopen',
    'changes/:number/files/comments',
    'changes/:number/files/comments/:id/edit',
    'changes/:number/files/comments/:id/reopen',
    'changes/:number/reopen',
    'changes/:number/verdict',
    'changes/:number/withdraw',
    'runs/:number/approve',
    'runs/:number/rerun',
    'webhooks/:id/enable',
  ])
})

/** Rates are limited by token, so each test has one. */
async function newOwner(): Promise<PageClient> {
  const { body } = await site.admin.post('/tokens', {
    name: 'owner',
    username: 'admin',
    permissions: ['admin'],
  })
  return logIn(site.url, body.token)
}

/** The forms of a page that are posted, with the folded part that each is in. */
function postedForms(
  html: string,
): { action: string; content: string; fold: string | undefined }[] {
  const folds: string[] = []
  const parts = html.matchAll(
    /<(details)([^>]*)>|<\/details>|<form method="post" action="([^"]+)"[^>]*>([\s\S]*?)<\/form>/g,
  )
  return [...parts].flatMap(([, details, attributes = '', action, content = '']) => {
    if (details) folds.push(attributes)
    else if (action === undefined) folds.pop()
    else return [{ action, content, fold: folds.at(-1) }]
    return []
  })
}

/** Whether a form destroys something: it performs an operation that deletes, or ends a session. */
function destroys({ operation }: PageAction): boolean {
  const route = site.routes.find(({ operationId }) => operationId === operation)
  return route?.kind === 'json' && route.method === 'DELETE'
}

const ofRefs = ['/r/:name/branches/delete', '/r/:name/tags/delete']

test('what destroys asks once, in the page, and what can be undone does not ask', async () => {
  // Other things that the page site does not have.
  await site.admin.post('/tokens', { name: 'spare' })
  await site.admin.post('/keys', { name: 'key', publicKey: newKeyLine() })
  await site.admin.post('/repos', { name: 'gone' })
  await site.admin.delete('/repos/gone')
  const unlockedUntil = Date.now() + 5 * 60_000
  const seen = new Set<string>()
  const visitor = await newOwner()
  await site.db.updateTable('sessions').set({ unlockedUntil }).execute()
  for (const page of [...shown.map((one) => addressOf(one, site)), '/-/sessions']) {
    if (/\/(?:stream|live|log)$/.test(page)) continue
    const { status, text } = await visitor.get(page)
    if (status !== 200) continue
    for (const { action, content, fold } of postedForms(text)) {
      const { route } = matchPages(actions, 'POST', action)[0] ?? {}
      const isOfSessions = /^\/-\/sessions\//.test(action)
      if (!isOfSessions && !(route?.kind === 'action' && destroys(route))) continue
      seen.add(route?.path ?? 'sessions')
      const isTyped = /name="confirm"[^>]* required/.test(content)
      const isAsked = fold === ' class="ask"'
      if (route && ofRefs.includes(route.path)) assert.ok(!isAsked, `${action} on ${page}`)
      else assert.ok(isTyped || isAsked, `${action} on ${page} does not ask`)
      const isSensitive = route?.kind === 'action' && route.isSensitive
      if (isSensitive && route.path !== '/-/deleted/:id/purge')
        assert.match(content, /name="_token"/, `${action} on ${page} asks twice`)
      if (isOfSessions) assert.doesNotMatch(content, /name="_token"/)
    }
  }
  const unseen = actions.filter((one) => destroys(one) && !seen.has(one.path))
  assert.deepEqual(
    unseen.map(({ path }) => path),
    // Of delegated tokens, which others than administrators see, of imports, and of changes in a queue.
    [
      '/r/:name/cancel-import',
      '/-/tokens/delegated/:id/delete',
      '/r/:name/changes/:number/withdraw',
    ],
  )
})

test('every form says what it has done, or leads to the page of its result', async () => {
  const { webhook = '', delivery = '', shared = '', sharedDelivery = '', push = '' } = site.values
  const toResult = actions.filter(({ done }) => !done).map(({ path }) => path)
  assert.deepEqual(toResult.sort(), [
    '/-/deleted/:id/restore',
    '/-/namespaces',
    '/-/namespaces/:namespace/webhooks/:id/ping',
    '/-/namespaces/:namespace/webhooks/:id/replay',
    '/-/new',
    '/-/new/import',
    '/r/:name/branches',
    '/r/:name/changes',
    '/r/:name/changes/:number/files/comments',
    ...['edit', 'reopen', 'reply', 'resolve'].map(
      (one) => `/r/:name/changes/:number/files/comments/:id/${one}`,
    ),
    '/r/:name/delete/:target*',
    '/r/:name/edit/:target*',
    '/r/:name/new/:target*',
    '/r/:name/start-run',
    '/r/:name/webhooks/:id/ping',
    '/r/:name/webhooks/:id/replay',
  ])
  const visitor = await newOwner()
  for (const action of actions) {
    const isShared = action.path.startsWith('/-/namespaces/')
    const hook = isShared ? { id: shared, delivery: sharedDelivery } : { id: webhook, delivery }
    const of = action.path.includes('webhooks') ? hook : { id: push, delivery }
    const named = { name: 'site', namespace: 'acme' }
    const params = { ...named, number: '1', artifact: 'build', ...of }
    // All that these functions read.
    const [fields, query] = [new URLSearchParams(), new URLSearchParams()]
    const parts = { to: createLinks(''), params, fields, query, baseUrl: site.url }
    const context = parts as unknown as PageContext
    if (!action.done) continue
    const value = { id: of.id, name: 'site', token: 'svc_shown' }
    const next = action.redirectTo(context, value)
    assert.equal(typeof next, 'string', action.path)
    const { address, headers } = toDonePage(String(next), action, { context, value })
    const [path = '', fragment] = address.split('#')
    const cookie = `${visitor.cookie()}; ${headers['set-cookie']?.split(';')[0]}`
    const { status, text, headers: sent } = await visitor.request(path, { headers: { cookie } })
    assert.equal(status, 200, address)
    assert.equal(fragment, action.done.at)
    const [, before = '', after] = text.split(/([\s\S]*)<div class="notice good" role="status">/)
    assert.ok(after?.includes(action.done.text), `${address} does not say what was done`)
    assert.match(sent.get('set-cookie') ?? '', /^svc-done=;.*Max-Age=0/)
    if (fragment !== undefined) assert.match(before, new RegExp(` id="${fragment}"`))
  }
})
