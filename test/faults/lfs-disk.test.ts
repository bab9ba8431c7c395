// Tags: exhaustive

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { connectRaw } from '../support/raw-http.ts'
import { toAnswer } from '../support/service.ts'
import { startOnSmallDisk, withoutMounts } from '../support/small-disk.ts'

const mib = 1024 * 1024
const skip = await withoutMounts()

test('on a full disk no LFS object is received, and those that are there are sent', {
  skip,
}, async () => {
  await using site = await startOnSmallDisk()
  const { disk, service } = site
  const { admin, adminToken, url, dataDir } = service
  await admin.post('/repos', { name: 'site' })
  const addressOf = (bytes: Buffer) =>
    `/repos/site.git/info/lfs/objects/${createHash('sha256').update(bytes).digest('hex')}`
  const headers = { authorization: `Bearer ${adminToken}` }
  const put = (bytes: Buffer) =>
    fetch(url + addressOf(bytes), { method: 'PUT', headers, body: bytes }).then(toAnswer)
  const [small, large] = [randomBytes(mib), randomBytes(20 * mib)]
  assert.equal((await put(small)).status, 200)
  // More than there is, which is known before it is received.
  using declared = await connectRaw(url)
  declared.request(`PUT ${addressOf(large)}`, { ...headers, 'content-length': 190 * mib })
  assert.match(await declared.end(), /^HTTP\/1\.1 507 /)
  await disk.fill(2 * mib)
  const refused = await put(large)
  assert.deepEqual([refused.status, refused.body.code], [507, 'storage_full'])
  const sent = await fetch(url + addressOf(small), { headers })
  assert.deepEqual(Buffer.from(await sent.arrayBuffer()), small)
  // A client that goes away leaves nothing.
  await disk.empty()
  {
    using gone = await connectRaw(url)
    gone.request(`PUT ${addressOf(large)}`, { ...headers, 'content-length': large.length })
  }
  const staged = () => readdir(join(dataDir, 'staging'))
  await until('nothing stays', async () => (await staged()).length === 0)
  assert.equal((await put(large)).status, 200)
})
