// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { until } from '../support/condition.ts'
import { followLog } from '../support/event-stream.ts'
import { freePort } from '../support/free-port.ts'
import { createProject } from '../support/git.ts'
import { createPageClient } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { type ProxyName, startProxy } from '../support/proxies.ts'
import { begun, jobEnded, mustClaim, runEnded, wrote } from '../support/run-by-hand.ts'
import { createClient, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

// More than the proxies hold in memory.
const pushedBytes = 24 * 1024 * 1024
// Longer than a minute, after which nginx gives up by default.
const pollSeconds = 65

/** A service and a proxy in front of it. */
async function startSite(name: ProxyName, { hasBaseUrl = false } = {}) {
  await using stack = new AsyncDisposableStack()
  const port = await freePort()
  const proxy = stack.use(await startProxy(name, port))
  setDefaultCACertificates([
    ...getCACertificates('default'),
    await readFile(proxy.authority, 'utf8'),
  ])
  const env = {
    SVC_PORT: `${port}`,
    SVC_TRUSTED_PROXIES: '127.0.0.1',
    ...(hasBaseUrl && { SVC_BASE_URL: proxy.url }),
  }
  const service = stack.use(await startService({ env }))
  const project = stack.use(await createProject())
  await project.git('config', 'http.sslCAInfo', proxy.authority)
  const held = stack.move()
  return {
    proxy,
    service,
    project,
    /** The admin, who calls the proxy. */
    admin: createClient(proxy.url, service.adminToken),
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  }
}

type Site = Awaited<ReturnType<typeof startSite>>

const names = ['nginx', 'caddy'] as const
const sites = new Map<ProxyName, Site>()
const skipOf = (name: ProxyName) => without(name) || without('openssl')

before(async () => {
  for (const name of names) if (!skipOf(name)) sites.set(name, await startSite(name))
})

after(async () => {
  for (const site of sites.values()) await site[Symbol.asyncDispose]()
})

const siteOf = (name: ProxyName) => sites.get(name) ?? assert.fail(name)

for (const name of names) {
  describe(`behind ${name}`, { skip: skipOf(name) }, () => {
    let site: Site

    before(() => {
      site = siteOf(name)
    })

    test('a large push and its clone are streamed', async () => {
      const { admin, project, service } = site
      const { body } = await admin.post('/repos', { name: 'site' })
      const remote = admin.remote('site')
      assert.equal(body.cloneUrls.http, `${admin.url}/repos/site.git`)
      await writeFile(join(project.path, 'large.bin'), randomBytes(pushedBytes))
      await project.git('config', 'core.compression', '0')
      await project.git('add', 'large.bin')
      const tip = await project.commit('small.txt')
      await project.git('push', '--quiet', remote, 'main')
      assert.equal((await service.admin.get('/repos/site')).body.sizeBytes > pushedBytes, true)
      const clone = join(project.path, 'clone')
      const trust = `http.sslCAInfo=${site.proxy.authority}`
      await project.git('-c', trust, 'clone', '--quiet', remote, clone)
      assert.equal(await project.git('-C', clone, 'rev-parse', 'HEAD'), tip)
    })

    test('a followed log gets each piece as it is written', async () => {
      const { admin, service } = site
      await pushFiles(service.admin, 'jobs', oneStep('true'))
      const { body } = await admin.post('/repos/jobs/workflows', {})
      const held = await mustClaim(admin)
      await held.report(...begun())
      await using follower = await followLog(admin, `/repos/jobs/workflows/${body.id}/logs`)
      assert.equal(await follower.next(), '▶ steps › Only\n')
      await held.report(wrote('one\n'))
      assert.equal(await follower.next(), 'one\n')
      await held.report(wrote('two\n'), ...jobEnded(), runEnded())
      assert.equal(await follower.rest(), 'two\n✓ success\n')
    })

    test('a clone ends when its client disconnects', async () => {
      const { admin, project, service } = site
      const tip = await project.git('rev-parse', 'main')
      const abortController = new AbortController()
      const response = await fetch(`${admin.url}/repos/site.git/git-upload-pack`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${admin.token}`,
          'content-type': 'application/x-git-upload-pack-request',
        },
        body: `0032want ${tip}\n00000009done\n`,
        signal: abortController.signal,
      })
      assert.equal(response.status, 200)
      abortController.abort()
      await until('the clone has been cut off', async () => {
        const { text } = await service.admin.get('/metrics')
        return /svc_git_operations_total\{[^}]*outcome="cut_off"[^}]*\} 1$/m.test(text)
      })
    })

    test('people log in and send forms', async () => {
      const { admin, service } = site
      const client = createPageClient(admin.url)
      const login = await client.post('/-/login', { token: admin.token })
      assert.deepEqual([login.status, login.location], [303, '/'])
      assert.match(login.headers.get('set-cookie') ?? '', /^__Host-svc=.*; Secure$/)
      // As browsers without Sec-Fetch-Site do.
      const send = (name: string, origin: string) =>
        client.request('/-/new', {
          method: 'POST',
          body: new URLSearchParams({ name }),
          headers: { origin },
        })
      const { status, location } = await send('by-form', admin.url)
      assert.deepEqual([status, location], [303, '/r/by-form'])
      assert.equal((await send('forged', service.url)).status, 403)
      const { body } = await admin.post('/login-codes')
      assert.equal(new URL(body.url).origin, admin.url)
      assert.equal((await createPageClient('').get(body.url)).status, 200)
    })

    test('paths arrive as they were sent', async () => {
      const { admin, service } = site
      await admin.post('/repos', { name: 'paths' })
      const protection = '/repos/paths/protections/branches/release%2F1.0%25'
      assert.equal((await admin.put(protection)).status, 200)
      const { body } = await service.admin.get('/repos/paths')
      assert.deepEqual(body.protectedBranches, ['release/1.0%'])
    })

    test('the address of a client is logged, and not the one that it claims', async () => {
      const { proxy, service, admin } = site
      const sent = request({
        host: '127.0.0.1',
        port: proxy.port,
        servername: 'localhost',
        localAddress: '127.0.0.3',
        path: '/repos?limit=7',
        headers: {
          host: `localhost:${proxy.port}`,
          authorization: `Bearer ${admin.token}`,
          'x-forwarded-for': '203.0.113.9',
          'x-forwarded-proto': 'http',
        },
      }).end()
      // The event has one argument.
      const [response] = (await once(sent, 'response')) as [IncomingMessage]
      assert.equal(response.statusCode, 200)
      response.resume()
      const line = await until('it is logged', () =>
        service
          .log()
          .split('\n')
          .find((one) => one.includes('"address":"127.0.0.3"')),
      )
      assert.doesNotMatch(service.log(), /203\.0\.113\.9/)
      assert.equal(JSON.parse(line).path, '/repos')
    })

    test('with SVC_BASE_URL, its address is in all links, and works', async () => {
      await using based = await startSite(name, { hasBaseUrl: true })
      const { admin, service, project, proxy } = based
      await service.admin.post('/repos', { name: 'site' })
      const { http } = (await service.admin.get('/repos/site')).body.cloneUrls
      assert.equal(http, `${proxy.url}/repos/site.git`)
      await project.git('push', '--quiet', http.replace('://', `://git:${admin.token}@`), 'main')
      const { servers } = (await admin.get('/openapi.json')).body
      assert.deepEqual(servers, [{ url: proxy.url }])
    })
  })
}

test('a long poll of more than a minute is not cut off', {
  skip: skipOf('nginx') || skipOf('caddy'),
}, async () => {
  // Pushed to the services themselves, since git would have to trust the proxies.
  const polls = names.map(siteOf).map(async ({ admin, service }) => {
    await pushFiles(service.admin, 'polled', oneStep('true'))
    const { body } = await admin.post('/repos/polled/workflows', {})
    return admin.get(`/repos/polled/workflows/${body.id}?wait=${pollSeconds}`)
  })
  for (const { status, body } of await Promise.all(polls))
    assert.deepEqual([status, body.status], [200, 'queued'])
})

test('nginx redirects HTTP to HTTPS', { skip: skipOf('nginx') }, async () => {
  const { proxy } = siteOf('nginx')
  const response = await fetch(`http://localhost:${proxy.redirectPort}/repos?limit=1`, {
    redirect: 'manual',
  })
  assert.equal(response.status, 308)
  assert.equal(response.headers.get('location'), 'https://localhost/repos?limit=1')
})
