// Tags: exhaustive
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { type Project, temporaryFolder } from '../support/git.ts'
import {
  assertSameContent,
  createNoisyProject,
  startGate,
  startGitDaemon,
} from '../support/import-sources.ts'
import { importAsync, requestImport } from '../support/imports.ts'
import { untilTidy } from '../support/leftovers.ts'
import { importingGits } from '../support/processes.ts'
import { type Answer, type Service, startService } from '../support/service.ts'
import { smallDisk, withoutMounts } from '../support/small-disk.ts'

const mib = 1024 * 1024
const skip = await withoutMounts()

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let project: Project
let daemon: Awaited<ReturnType<typeof startGitDaemon>>

before(async () => {
  folder = await temporaryFolder()
  project = await createNoisyProject({ files: 12, bytes: mib })
  await project.git('clone', '--quiet', '--bare', '.', join(folder.path, 'large.git'))
  daemon = await startGitDaemon(folder.path)
})

after(async () => {
  await daemon[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
})

test('a source larger than the disk fails without leftovers, and is imported once there is space', {
  skip,
}, async () => {
  await using disk = await smallDisk('48m')
  await using service = await start(disk.path, '0')
  await disk.fill(6 * mib)
  for (const source of [join(folder.path, 'large.git'), `${daemon.url}/large.git`]) {
    const refused = await service.admin.post('/repos/import', { source })
    await assertRefused(service, refused, /no space left; nothing was changed/)
  }
  // A copy fits, but not together with the pack that git creates.
  await disk.empty()
  await disk.fill(18 * mib)
  const source = join(folder.path, 'large.git')
  const refused = await service.admin.post('/repos/import', { source })
  await assertRefused(service, refused, /no space left; nothing was changed/)
  await disk.empty()
  await assertImports(service, source)
  await assertImports(service, `${daemon.url}/large.git`)
})

test('an import respects the minimum of free space', { skip }, async () => {
  await using disk = await smallDisk('48m')
  await using service = await start(disk.path, '8MiB')
  using gate = await startGate(daemon.port, 10 * mib)
  await disk.fill(16 * mib)
  const source = `git://127.0.0.1:${gate.port}/large.git`
  const refused = await service.admin.post('/repos/import', { source })
  await assertRefused(service, refused, /not have enough free disk space for this import/)
  await untilHealthIs(service, 'ok')

  await disk.empty()
  await disk.fill(4 * mib)
  await untilHealthIs(service, 'storage_full')
  const atOnce = await service.admin.post('/repos/import', { source })
  await assertRefused(service, atOnce, /too little space left to write; nothing was changed/)
  await disk.empty()
  gate.open()
  await assertImports(service, source)
})

test('an import ends when the disk is filled by another process', { skip }, async () => {
  await using disk = await smallDisk('48m')
  await using service = await start(disk.path, '0')
  using gate = await startGate(daemon.port, 2 * mib)
  const source = `git://127.0.0.1:${gate.port}/large.git`
  const waited = requestImport(service.url, service.admin, { source })
  await gate.untilHeld()
  await disk.fill(0)
  gate.open()
  await assertRefused(service, await waited, /no space left; nothing was changed/)
  await disk.empty()
  await assertImports(service, source)
})

test('on a full disk a new import is rejected, and a running one is reported as failed', {
  skip,
}, async () => {
  await using disk = await smallDisk('48m')
  await using service = await start(disk.path, '0')
  using gate = await startGate(daemon.port, 2 * mib)
  const source = `git://127.0.0.1:${gate.port}/large.git`
  await importAsync(service.admin, { source, name: 'unwatched' })
  await gate.untilHeld()
  await disk.fill(0)
  for (let times = 0; times < 3; times++) {
    const refused = await service.admin.post('/repos/import', { source, name: `x-${times}` })
    assert.deepEqual([refused.status, refused.body.code], [507, 'storage_full'], refused.text)
  }
  gate.open()
  const failed = await until('the import has failed', async () => {
    const { body } = await service.admin.get('/repos/unwatched')
    return body.state === 'failed' && body
  })
  assert.equal(failed.import.fault.code, 'storage_full')
  await disk.empty()
  assert.deepEqual((await service.admin.get('/repos')).body, [])
  assert.equal(await service.end('SIGKILL'), null)
  await using again = await start(disk.path, '0', service.adminToken)
  assert.deepEqual((await again.admin.get('/repos')).body, [])
  await assertImports(again, source)
})

function start(path: string, least: string, token?: string): Promise<Service> {
  const env = { SVC_FREE_SPACE_MIN: least, ...(token && { SVC_ADMIN_TOKEN: token }) }
  return startService({ dataDir: join(path, 'data'), env })
}

function untilHealthIs({ admin }: Service, status: string): Promise<boolean> {
  return until(
    `health is ${status}`,
    async () => (await admin.get('/health')).body.status === status,
  )
}

async function assertRefused(service: Service, answer: Answer, detail: RegExp): Promise<void> {
  assert.deepEqual([answer.status, answer.body.code], [507, 'storage_full'], answer.text)
  assert.match(answer.body.detail, detail)
  assert.deepEqual(importingGits(service.dataDir), [])
  await untilTidy(service.dataDir)
  assert.deepEqual((await service.admin.get('/repos')).body, [])
}

async function assertImports({ admin }: Service, source: string): Promise<void> {
  const { status, body, text } = await admin.post('/repos/import', { source })
  assert.equal(status, 201, text)
  await assertSameContent(body.path, join(folder.path, 'large.git'))
  assert.equal((await admin.delete('/repos/large')).status, 204)
}
