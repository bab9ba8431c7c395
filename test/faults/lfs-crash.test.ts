// Tags: exhaustive

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { faultSteps } from '#base/fault-points.ts'
import { temporaryFolder } from '../support/git.ts'
import { startService, toAnswer } from '../support/service.ts'

const bytes = randomBytes(100_000)
const oid = createHash('sha256').update(bytes).digest('hex')

for (const step of faultSteps.filter((one) => /^lfs\.(received|placed)$/.test(one))) {
  test(`a server killed at ${step} does not have the LFS object, and takes it again`, async () => {
    await using folder = await temporaryFolder()
    const dataDir = join(folder.path, 'data')
    const send = (url: string, token: string) =>
      fetch(`${url}/repos/site.git/info/lfs/objects/${oid}`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${token}` },
        body: bytes,
      }).then(toAnswer)
    let env: Record<string, string>
    {
      await using doomed = await startService({ dataDir, env: { SVC_FAULT_POINT: step } })
      env = { SVC_ADMIN_TOKEN: doomed.adminToken, SVC_PORT: new URL(doomed.url).port }
      await doomed.admin.post('/repos', { name: 'site' })
      await assert.rejects(send(doomed.url, doomed.adminToken))
    }
    await using service = await startService({ dataDir, env })
    assert.deepEqual(await readdir(join(dataDir, 'staging')), [])
    const batch = { operation: 'download', objects: [{ oid, size: bytes.length }] }
    const path = '/repos/site.git/info/lfs/objects/batch'
    const before = await service.admin.post(path, batch)
    assert.equal(before.body.objects[0].error.code, 404)
    assert.equal((await send(service.url, service.adminToken)).status, 200)
    const after = await service.admin.post(path, batch)
    assert.ok(after.body.objects[0].actions.download)
  })
}
