// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { connectRaw } from '../support/raw-http.ts'
import { mustClaim } from '../support/run-by-hand.ts'
import { contentType, put } from '../support/run-files.ts'
import { startOnSmallDisk, withoutMounts } from '../support/small-disk.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const mib = 1024 * 1024
const skip = await withoutMounts()

test('on a full disk caches go first, then nothing is stored, and reports go on', {
  skip,
}, async () => {
  await using site = await startOnSmallDisk()
  const { disk, service } = site
  const { admin } = service
  await pushFiles(admin, 'site', oneStep('true'))
  await admin.post('/repos/site/workflows', {})
  const run = await mustClaim(admin)
  for (const key of ['a', 'b'])
    assert.equal((await put(run, `caches?key=${key}&version=v`, randomBytes(8 * mib))).status, 201)
  // More than there is, which is known before it is sent.
  using connection = await connectRaw(service.url)
  connection.request(`PUT ${run.path}/artifacts?name=large`, {
    authorization: `Bearer ${run.own.token}`,
    'content-type': contentType,
    'content-length': 90 * mib,
    expect: '100-continue',
  })
  assert.match(await connection.end(), /^HTTP\/1\.1 507 /)

  await disk.fill(14 * mib)
  const small = await put(run, 'artifacts?name=small', randomBytes(mib))
  assert.equal(small.status, 201, small.text)
  const left = (await admin.get('/repos/site/caches')).body
  assert.deepEqual(
    left.map(({ key }: { key: string }) => key),
    ['b'],
  )
  await disk.empty()
  await disk.fill(2 * mib)
  const refused = await put(run, 'artifacts?name=other', randomBytes(mib))
  assert.deepEqual([refused.status, refused.body.code], [507, 'storage_full'])
  assert.deepEqual((await admin.get('/repos/site/caches')).body, [])
  const reported = await run.own.post(`${run.path}/report`, { first: 0, entries: [] })
  assert.equal(reported.status, 200)
})
