import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newTokenString } from '#base/token-string.ts'
import { until } from '../support/condition.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

type Line = Record<string, unknown>

/** The lines of requests in the log, once there is one for each of these paths. */
async function linesOf(service: Service, ...paths: string[]): Promise<Line[]> {
  return until('all requests are logged', () => {
    const lines: Line[] = service
      .log()
      .split('\n')
      .filter((line) => line.includes('"msg":"request"'))
      .map((line) => JSON.parse(line))
    return paths.every((path) => lines.some((line) => line.path === path)) && lines
  })
}

const claim = { name: 'x', version: '1', labels: [], isolation: 'none', waitSeconds: 0 }
const refs = '/repos/site.git/info/refs'

for (const [trusted, address] of [
  ['127.0.0.1', '203.0.113.9'],
  ['10.0.0.0/8', '127.0.0.1'],
] as const) {
  test(`a request is logged with its client and its token, with a trusted proxy at ${trusted}`, async () => {
    await using service = await startService({ env: { SVC_TRUSTED_PROXIES: trusted } })
    await service.admin.post('/repos', { name: 'site' })
    const owner = await service.client({ username: 'ada' })
    const ask = (path: string, token: string | undefined) =>
      fetch(service.url + path, {
        headers: {
          'x-forwarded-for': '198.51.100.7, 203.0.113.9',
          'x-forwarded-proto': 'https',
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
        },
      })
    await ask('/keys', owner.token)
    await ask(`${refs}?service=git-upload-pack`, service.adminToken)
    await ask('/repos', newTokenString())
    await ask('/health', undefined)
    await ask('/nowhere', owner.token)
    const lines = await linesOf(service, '/keys', refs, '/repos', '/health', '/nowhere')
    const of = (path: string, method = 'GET') =>
      lines.find((line) => line.path === path && line.method === method)
    for (const path of ['/keys', refs, '/repos', '/health', '/nowhere'])
      assert.equal(of(path)?.address, address, path)
    assert.deepEqual([of('/keys')?.tokenId, of('/keys')?.username], [owner.id, 'ada'])
    assert.deepEqual([typeof of(refs)?.tokenId, of(refs)?.username], ['string', 'admin'])
    for (const path of ['/repos', '/health']) {
      assert.deepEqual([of(path)?.tokenId, of(path)?.username], [undefined, undefined], path)
    }
    assert.ok(!service.log().includes(owner.token) && !service.log().includes(service.adminToken))
  })
}

test('bad tokens are counted by the client that a trusted proxy names', async () => {
  await using service = await startService({
    env: { SVC_TRUSTED_PROXIES: '127.0.0.1', SVC_BAD_TOKENS_PER_MINUTE: '1' },
  })
  const statusFor = async (client: string) => {
    const authorization = `Bearer ${newTokenString()}`
    const headers = { authorization, 'x-forwarded-for': client }
    return (await fetch(`${service.url}/repos`, { headers })).status
  }
  const statuses = []
  for (const client of ['192.0.2.1', '192.0.2.1', '192.0.2.2', '192.0.2.2'])
    statuses.push(await statusFor(client))
  assert.deepEqual(statuses, [401, 429, 401, 429])
})

test('requests of runners for work are logged at debug level, unless they fail', async () => {
  for (const level of ['info', 'debug']) {
    await using service = await startService({ env: { SVC_LOG_LEVEL: level } })
    const client = await service.client()
    assert.equal((await service.admin.post('/runner/claim', claim)).status, 204)
    assert.equal((await client.post('/runner/claim', claim)).status, 403)
    await service.admin.get('/health')
    const lines = await linesOf(service, '/health', '/runner/claim')
    const claims = lines.filter(({ path }) => path === '/runner/claim')
    const result = claims.map(({ status, level: at }) => [status, at])
    const refused = [403, 'info']
    assert.deepEqual(result, level === 'info' ? [refused] : [[204, 'debug'], refused])
  }
})

test('a start with a misspelt setting fails, and one with another name warns', async () => {
  await assert.rejects(
    startService({ env: { SVC_BASE_ULR: 'http://x' } }),
    /SVC_BASE_ULR: .*SVC_BASE_URL/s,
  )
  const env = { SVC_SOMETHING_ELSE: 'x', SVC_SERVICE_HOST: '10.0.0.1' }
  await using service = await startService({ env })
  assert.match(service.log(), /"level":"warn".*SVC_SOMETHING_ELSE is not a setting/)
  assert.match(service.log(), /"level":"warn".*SVC_SERVICE_HOST is not a setting. Kubernetes/)
})

test('the reports of a running job are logged at debug level', async () => {
  await using service = await startService()
  await pushFiles(service.admin, 'site', oneStep('true'))
  await service.admin.post('/repos/site/workflows', {})
  const held = await mustClaim(service.admin)
  for (const entry of wholeRun()) await held.report(entry)
  await service.admin.get('/health')
  const lines = await linesOf(service, '/health')
  assert.deepEqual(
    lines.filter(({ path }) => path === `${held.path}/report`),
    [],
  )
})
