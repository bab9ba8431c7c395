// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { archiveOf, getBytes, put } from '../support/run-files.ts'
import { startService } from '../support/service.ts'
import { startStoreSite } from '../support/store-site.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const skip = withoutObjectStore || without('postgres')

test('artifacts and caches are in the bucket, and every server reads them', { skip }, async () => {
  await using site = await startStoreSite()
  const { service, env } = site
  const { admin } = service
  await pushFiles(admin, 'site', oneStep('true'))
  await admin.post('/repos/site/workflows', {})
  const run = await mustClaim(admin)
  // More than what is stored in one request.
  const content = randomBytes(70 * 1024 * 1024)
  assert.equal((await put(run, 'artifacts?name=large', content)).status, 201)
  assert.equal((await put(run, 'caches?key=k&version=v', archiveOf('a', 'cached'))).status, 201)
  const incoming = join(service.dataDir, 'run-files', 'incoming')
  assert.deepEqual(await readdir(incoming), [])

  await using other = await startService({ env })
  const own = { ...run.own, url: other.url }
  const artifact = await getBytes(own, `${run.path}/artifacts/content?name=large`)
  assert.ok(artifact.bytes.equals(content))
  const cache = await getBytes(own, `${run.path}/caches?keys=k&version=v`)
  assert.deepEqual(cache.bytes, archiveOf('a', 'cached'))
  assert.deepEqual(await readdir(join(other.dataDir, 'run-files', 'incoming')), [])
  await run.report(...wholeRun())

  const path = `/repos/site/workflows/${run.plan.runId}/artifacts/large`
  assert.equal((await other.admin.delete(path)).status, 204)
  assert.equal((await admin.get(path)).status, 404)
})

test('a content that is damaged in the bucket is not passed on', { skip }, async () => {
  await using site = await startStoreSite()
  const { admin } = site.service
  await pushFiles(admin, 'site', oneStep('true'))
  await admin.post('/repos/site/workflows', {})
  const run = await mustClaim(admin)
  await put(run, 'artifacts?name=a', Buffer.from('the right bytes'))
  await put(run, 'artifacts?name=b', Buffer.from('to be removed'))
  await using bucket = site.connectBucket()
  const keys = await Array.fromAsync(bucket.list('run-files/'), ({ key }) => key)
  assert.equal(keys.length, 2)
  const [first = '', second = ''] = keys
  await bucket.delete(first)
  await bucket.put(first, Buffer.from('the wrong bytes'))
  await bucket.delete(second)
  const path = `/repos/site/workflows/${run.plan.runId}/artifacts`
  const damaged = await admin.get(`${path}/a`)
  assert.deepEqual([damaged.status, damaged.body.code], [503, 'storage_unavailable'])
  const missing = await admin.get(`${path}/b`)
  assert.deepEqual([missing.status, missing.body.code], [404, 'artifact_not_found'])
  await run.report(...wholeRun())
  await until('the server still works', async () => (await admin.get('/health')).status === 200)
})
