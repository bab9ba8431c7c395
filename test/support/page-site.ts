import assert from 'node:assert/strict'
import { type Permission, permissions } from '#access/permissions.ts'
import type { Page, PageAction } from '#web/page.ts'
import { pages } from '#web/serve/page-list.ts'
import { type InProcess, startInProcess } from './in-process.ts'
import { logIn } from './page-client.ts'
import { finishedPushes } from './pushes.ts'
import { mustClaim } from './run-by-hand.ts'
import { archiveOf, put } from './run-files.ts'
import { oneStep, pushFiles } from './workflow-site.ts'

export type PageSite = InProcess & { values: Record<string, string> }

/**
 * The address of each page, by the path of its route, for the repository `site`; values for `{…}` are those of
 * `openPageSite`. A new page needs a line here.
 */
const addresses: Record<string, string> = {
  '/': '/',
  '/-/new': '/-/new',
  '/-/namespaces': '/-/namespaces',
  '/-/namespaces/:namespace': '/-/namespaces/acme',
  '/-/namespaces/:namespace/settings': '/-/namespaces/acme/settings',
  '/-/namespaces/:namespace/webhooks': '/-/namespaces/acme/webhooks',
  '/-/namespaces/:namespace/webhooks/:id': '/-/namespaces/acme/webhooks/{shared}',
  '/-/namespaces/:namespace/webhooks/:id/deliveries/:delivery':
    '/-/namespaces/acme/webhooks/{shared}/deliveries/{sharedDelivery}',
  '/-/keys': '/-/keys',
  '/-/tokens': '/-/tokens',
  '/-/tokens/new': '/-/tokens/new',
  '/-/tokens/delegate': '/-/tokens/delegate',
  '/-/deleted': '/-/deleted',
  '/-/audit': '/-/audit',
  '/-/users': '/-/users',
  '/-/trust-rules': '/-/trust-rules',
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
  '/r/:name/edit/:target*': '/r/site/edit/main:.svc/workflows/ci.yml',
  '/r/:name/new/:target*': '/r/site/new/main',
  '/r/:name/delete/:target*': '/r/site/delete/main:.svc/workflows/ci.yml',
  '/r/:name/log': '/r/site/log',
  '/r/:name/log/:target*': '/r/site/log/main',
  '/r/:name/commit/:id': '/r/site/commit/{commit}',
  '/r/:name/compare': '/r/site/compare',
  '/r/:name/compare/:range*': '/r/site/compare/main...main',
  '/r/:name/changes': '/r/site/changes',
  '/r/:name/changes/:number': '/r/site/changes/1',
  '/r/:name/changes/:number/files': '/r/site/changes/1/files',
  '/r/:name/blame/:target*': '/r/site/blame/main:.svc/workflows/ci.yml',
  '/r/:name/branches': '/r/site/branches',
  '/r/:name/tags': '/r/site/tags',
  '/r/:name/search': '/r/site/search?q=Only',
  '/r/:name/archive/:target*': '/r/site/archive/main.tar.gz',
  '/r/:name/runs': '/r/site/runs',
  '/r/:name/start-run': '/r/site/start-run',
  '/r/:name/runs/:number': '/r/site/runs/1',
  '/r/:name/runs/:number/artifacts/:artifact': '/r/site/runs/1/artifacts/build',
  '/r/:name/runs/:number/log': '/r/site/runs/1/log',
  '/r/:name/runs/:number/live': '/r/site/runs/1/live',
  '/r/:name/pushes': '/r/site/pushes',
  '/r/:name/pushes/:id': '/r/site/pushes/{push}',
}

export const shown = pages.filter((route): route is Page => route.kind === 'page')
export const actions = pages.filter((route): route is PageAction => route.kind === 'action')

/** A service with one of everything that a page shows. */
export async function openPageSite(env: Record<string, string> = {}): Promise<PageSite> {
  const service = await startInProcess(env)
  const { admin } = service
  const commit = await pushFiles(admin, 'site', oneStep('true'))
  const webhook = (
    await admin.post('/repos/site/webhooks', { url: 'http://127.0.0.1:9/', events: ['push'] })
  ).body.id
  const delivery = (await admin.post(`/repos/site/webhooks/${webhook}/ping`)).body.id
  await admin.post('/repos/site/workflows', {})
  await addFiles(service)
  await admin.post('/namespaces', { name: 'acme' })
  await admin.put('/namespaces/acme/secrets/SHARED', { value: 'x' })
  for (const kind of ['branches', 'tags']) await admin.put(`/namespaces/acme/protections/${kind}/x`)
  const rule = {
    ...{ name: 'ci', issuer: 'http://127.0.0.1:9', claims: { sub: 'repo:acme/site:*' } },
    ...{ permissions: ['repo:read'], refs: ['refs/heads/built/*'] },
  }
  for (const place of [{ repositories: ['site'] }, { namespace: 'acme' }])
    await admin.post('/trust-rules', { ...rule, ...place })
  const hooks = '/namespaces/acme/webhooks'
  const hook = { url: 'http://127.0.0.1:9/', events: ['push'] }
  const shared = (await admin.post(hooks, hook)).body.id
  const sharedDelivery = (await admin.post(`${hooks}/${shared}/ping`)).body.id
  const [push] = await finishedPushes(service, admin, 'site')
  const longName = `refs/heads/${'long_name_'.repeat(12)}`
  const made = await admin.put(`/repos/site/refs?ref=${longName}`, { target: commit })
  assert.equal(made.status, 201, made.text)
  await proposeTopic(admin)
  return {
    ...service,
    values: { commit, webhook, delivery, shared, sharedDelivery, push: push?.id ?? '' },
  }
}

/** Proposes a branch for `main`. */
async function proposeTopic(admin: InProcess['admin']): Promise<void> {
  const file = { path: 'topic.txt', content: 'x' }
  const commit = { branch: 'topic', start: 'main', message: 'Topic [skip ci]', changes: [file] }
  for (const [path, body] of [
    ['commits', commit],
    ['changes', { source: 'topic', target: 'main' }],
    ['changes/1/comments', { text: 'Why?', path: 'topic.txt', line: 1 }],
  ] as const) {
    const { status, text } = await admin.post(`/repos/site/${path}`, body)
    assert.equal(status, 201, text)
  }
}

/** Gives the run that waits an artifact, and the repository caches, as a run has made them. */
async function addFiles({ admin, db }: InProcess): Promise<void> {
  const run = await mustClaim(admin)
  for (const path of ['artifacts?name=build', 'caches?key=a&version=v', 'caches?key=b&version=v'])
    assert.equal((await put(run, path, archiveOf('a', 'a'))).status, 201)
  const waiting = { status: 'queued', tokenHash: null, startedAt: null, runner: '' } as const
  await db.updateTable('runs').set(waiting).where('id', '=', run.plan.runId).execute()
}

/** The address of a page of a site. */
export function addressOf({ path }: Page, { values }: PageSite, name = 'site'): string {
  const address = addresses[path]
  assert.ok(address, `${path} needs an address in the table at the top of this file`)
  return address
    .replace(/\{(\w+)\}/g, (_, key) => values[key] ?? '')
    .replace('/r/site', `/r/${name}`)
}

/** The cookie of a new session with a new token. */
export async function newCookie(
  site: PageSite,
  who: { username: string; permissions?: readonly Permission[] },
) {
  const { token } = await site.client({
    username: who.username,
    ...(who.permissions && { permissions: [...who.permissions] }),
  })
  return (await logIn(site.url, token)).cookie()
}

/** Those that tokens of users have. */
export const allPermissions = permissions.filter(
  (permission) => permission !== 'admin' && permission !== 'runner',
)
