// Tags: exhaustive

import assert from 'node:assert/strict'
import { hash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { faultSteps } from '#base/fault-points.ts'
import { pathOfLfsObject } from '#repositories/store/lfs-files.ts'
import { startSvc } from '../support/command.ts'
import { createProject, temporaryFolder } from '../support/git.ts'
import { repositoryFolders, untilTidy } from '../support/leftovers.ts'
import { without } from '../support/programs.ts'
import { openRows } from '../support/rows.ts'
import { type Service, startService, toAnswer } from '../support/service.ts'
import { withClockAhead } from '../support/shifted-clock.ts'

const bytes = randomBytes(100_000)
const oid = hash('sha256', bytes)

const send = ({ url, adminToken }: Service, content: Buffer) =>
  fetch(`${url}/repos/site.git/info/lfs/objects/${hash('sha256', content)}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${adminToken}` },
    body: content,
  }).then(toAnswer)

const steps = faultSteps.filter((one) => /^lfs\.(received|placed)$/.test(one))

for (const step of steps) {
  test(`a server killed at ${step} does not have the LFS object, and takes it again`, async () => {
    await using folder = await temporaryFolder()
    const dataDir = join(folder.path, 'data')
    let env: Record<string, string>
    {
      await using doomed = await startService({ dataDir, env: { SVC_FAULT_POINT: step } })
      env = { SVC_ADMIN_TOKEN: doomed.adminToken, SVC_PORT: new URL(doomed.url).port }
      await doomed.admin.post('/repos', { name: 'site' })
      await assert.rejects(send(doomed, bytes))
    }
    await using service = await startService({ dataDir, env })
    assert.deepEqual(await readdir(join(dataDir, 'staging')), [])
    const batch = { operation: 'download', objects: [{ oid, size: bytes.length }] }
    const path = '/repos/site.git/info/lfs/objects/batch'
    const before = await service.admin.post(path, batch)
    assert.equal(before.body.objects[0].error.code, 404)
    assert.equal((await send(service, bytes)).status, 200)
    const after = await service.admin.post(path, batch)
    assert.ok(after.body.objects[0].actions.download)
  })

  test(`an import killed at ${step} leaves nothing, and succeeds when it is repeated`, async () => {
    await using folder = await temporaryFolder()
    await using project = await createProject()
    const version = 'version https://git-lfs.github.com/spec/v1'
    await project.commit('large.bin', `${version}\noid sha256:${oid}\nsize ${bytes.length}\n`)
    const path = pathOfLfsObject(join(project.path, '.git'), oid)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, bytes)
    const wanted = { source: project.path, name: 'site' }
    const dataDir = join(folder.path, 'data')
    let env: Record<string, string>
    {
      await using doomed = await startService({ dataDir, env: { SVC_FAULT_POINT: step } })
      env = { SVC_ADMIN_TOKEN: doomed.adminToken, SVC_PORT: new URL(doomed.url).port }
      await assert.rejects(doomed.admin.post('/repos/import', wanted))
    }
    await using service = await startService({ dataDir, env })
    await untilTidy(dataDir)
    assert.deepEqual(await repositoryFolders(dataDir), [])
    const { status, body } = await service.admin.post('/repos/import', wanted)
    assert.deepEqual([status, body.missingLfsObjects], [201, 0])
  })
}

test('maintenance killed at lfs.deleted keeps what pointers name, and the next one removes the other files', {
  skip: without('faketime'),
}, async () => {
  await using folder = await temporaryFolder()
  await using project = await createProject()
  const dataDir = join(folder.path, 'data')
  const unnamed = randomBytes(100_000)
  const pathOf = async ({ admin }: Service, content: Buffer) =>
    pathOfLfsObject((await admin.get('/repos/site')).body.path, hash('sha256', content))
  let [kept, deleted] = ['', '']
  {
    await using service = await startService({ dataDir })
    await service.admin.post('/repos', { name: 'site' })
    for (const content of [bytes, unnamed]) await send(service, content)
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${bytes.length}\n`
    await project.commit('large.bin', pointer)
    await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main')
    kept = await pathOf(service, bytes)
    deleted = await pathOf(service, unnamed)
    await service.end('SIGTERM')
  }
  const maintain = (env: Record<string, string> = {}) =>
    startSvc(['repos', 'maintain', '--full', 'site'], {
      ...{ SVC_DATA_DIR: dataDir, ...env },
      ...withClockAhead(15 * 24 * 60),
    }).ended
  const ids = () => rows.all('select oid from lfs_objects').map((row) => row.oid)
  const files = () => [kept, deleted].map((path) => existsSync(path))
  using rows = openRows(dataDir)
  const killed = await maintain({ SVC_FAULT_POINT: 'lfs.deleted' })
  assert.equal(killed.signal, 'SIGKILL', killed.err)
  assert.deepEqual(files(), [true, true])
  assert.deepEqual(ids(), [oid])
  const next = await maintain()
  assert.equal(next.code, 0, next.err)
  assert.deepEqual(files(), [true, false])
  assert.deepEqual(ids(), [oid])
})
