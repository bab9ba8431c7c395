// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Permission } from '../../src/access/permissions.ts'
import { matchPage } from '../../src/web/match.ts'
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
const ofFields = new Set(
  ['name', 'default-branch', 'leak-guard', 'run-tokens'].map((one) => `settings/${one}`),
)

/** The forms of a page that are actions of it, by their paths. */
async function formsOf(client: PageClient, address: string): Promise<Set<string> | undefined> {
  const { status, text } = await client.get(address)
  if (status !== 200) return undefined
  const targets = [...text.matchAll(/<form[^>]* action="([^"]+)"/g)].map(
    ([, target = '']) => target,
  )
  const found = targets.map((target) => matchPage(actions, 'POST', target.split('?', 1)[0] ?? ''))
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
  // Those of runs that have ended, and of imports, are not on these pages.
  const rest = actions.filter(
    ({ formPage, path }) => formPage.startsWith('/r/:name') && !compared.has(path),
  )
  assert.deepEqual(rest.map(({ path }) => path.replace('/r/:name/', '')).sort(), [
    'cancel-import',
    'runs/:number/rerun',
    'webhooks/:id/enable',
  ])
})
