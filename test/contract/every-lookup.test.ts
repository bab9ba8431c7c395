import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { type Client, createClient } from '../support/service.ts'

let service: InProcess

before(async () => {
  service = await startInProcess({ SVC_OUTBOUND_ALLOW: 'loopback' })
  await service.admin.post('/repos', { name: 'site' })
  await service.admin.post('/namespaces', { name: 'acme' })
})

after(() => service[Symbol.asyncDispose]())

const url = 'http://127.0.0.1:9/in'
const hook = { url, events: ['push'] }
const rule = {
  ...{ name: 'ci', issuer: 'https://127.0.0.1:9', claims: { sub: 'x' } },
  ...{ repositories: ['site'], permissions: ['repo:read'] },
}

/** What each operation that looks up a host is sent. An import is cancelled as soon as its caller loses access. */
const requests: Record<string, object | undefined> = {
  createWebhook: hook,
  updateWebhook: { url: `${url}/new` },
  createNamespaceWebhook: hook,
  updateNamespaceWebhook: { url: `${url}/new` },
  createTrustRule: rule,
  importRepository: undefined,
}

/** How a member with the role `admin` loses access, and what a new request would get. */
const losses: [what: string, lose: (member: Client) => Promise<unknown>, status: number][] = [
  ['its token is deleted', ({ id }) => service.admin.delete(`/tokens/${id}`), 401],
  [
    'its user is disabled',
    ({ username }) => service.admin.patch(`/users/${username}`, { disabled: true }),
    401,
  ],
  [
    'it is removed',
    async ({ username }) => {
      await service.admin.delete(`/repos/site/collaborators/${username}`)
      await service.admin.delete(`/namespaces/acme/members/${username}`)
    },
    404,
  ],
]

test('what a host is looked up for does not come into being once its caller has lost access', async () => {
  const webhook = (await service.admin.post('/repos/site/webhooks', hook)).body
  const shared = (await service.admin.post('/namespaces/acme/webhooks', hook)).body
  const ids: Record<string, string> = { '/repos/': webhook.id, '/namespaces/': shared.id }
  const names = []
  for (const route of service.routes) {
    if (route.kind !== 'json' || !route.problems?.includes('outbound_unresolved')) continue
    const { operationId, method, path, handle } = route
    names.push(operationId)
    const body = requests[operationId]
    if (!body) continue
    const [, place = ''] = /^(\/\w+\/)/.exec(path) ?? []
    const address = path
      .replace(/:name\b/, 'site')
      .replace(/:namespace/, 'acme')
      .replace(/:id/, ids[place] ?? '')
    for (const [index, [what, lose, status]] of losses.entries()) {
      const username = `${operationId}-${index}`.toLowerCase()
      const member = await service.client({ username, permissions: ['everything'] })
      await service.admin.post('/repos/site/collaborators', { username, role: 'admin' })
      await service.admin.put(`/namespaces/acme/members/${username}`, { role: 'admin' })
      // Between its admission and its change.
      route.handle = async (context) => {
        await lose(member)
        return handle(context)
      }
      const answer = await createClient(service.url, member.token).call(method, address, body)
      route.handle = handle
      assert.equal(answer.status, status, `${operationId}, ${what}: ${answer.text}`)
    }
  }
  assert.deepEqual(names.sort(), Object.keys(requests).sort())
  assert.deepEqual((await service.admin.get('/trust-rules')).body, [])
  for (const scope of ['/repos/site', '/namespaces/acme']) {
    const all = (await service.admin.get(`${scope}/webhooks`)).body
    assert.deepEqual(
      all.map((one: { url: string }) => one.url),
      [url],
    )
  }
})
