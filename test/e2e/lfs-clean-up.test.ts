// Tags: exhaustive

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject, temporaryFolder } from '../support/git.ts'
import { openRows } from '../support/rows.ts'
import { type Service, startService } from '../support/service.ts'
import { withClockAhead } from '../support/shifted-clock.ts'

const minutesOf = (days: number) => days * 24 * 60
const idOf = (text: string) => createHash('sha256').update(text).digest('hex')
const objects = '/repos/site.git/info/lfs/objects'

const addressOf = (service: Service, text: string): [string, RequestInit] => [
  `${service.url}${objects}/${idOf(text)}`,
  { headers: { authorization: `Bearer ${service.adminToken}` } },
]

async function upload(service: Service, text: string): Promise<void> {
  const [url, options] = addressOf(service, text)
  assert.equal((await fetch(url, { ...options, method: 'PUT', body: text })).status, 200)
}

async function has(service: Service, text: string): Promise<boolean> {
  const { status } = await fetch(...addressOf(service, text))
  assert.ok([200, 404].includes(status))
  return status === 200
}

test('maintenance deletes LFS objects that no pointer has named for two weeks', async () => {
  await using folder = await temporaryFolder()
  await using project = await createProject()
  const dataDir = join(folder.path, 'data')
  const point = async (text: string) => {
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${idOf(text)}\nsize ${text.length}\n`
    await writeFile(join(project.path, 'large.bin'), pointer)
    await project.git('add', '.')
    await project.git('commit', '--quiet', '-m', text)
  }
  let env: Record<string, string>
  {
    await using service = await startService({ dataDir })
    env = { SVC_ADMIN_TOKEN: service.adminToken, SVC_PORT: new URL(service.url).port }
    await service.admin.post('/repos', { name: 'site' })
    for (const text of ['old', 'present', 'overwritten', 'never']) await upload(service, text)
    for (const text of ['old', 'present']) await point(text)
    await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main')
    await point('overwritten')
    await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main')
    await project.git('push', '--quiet', '--force', service.admin.remote('site'), 'HEAD~:main')
    await service.end('SIGTERM')
  }
  const inClock = (days: number) => ({
    ...env,
    ...withClockAhead(minutesOf(days)),
  })
  {
    await using service = await startService({ dataDir, env: inClock(13) })
    for (const text of ['old', 'present', 'overwritten', 'never'])
      assert.ok(await has(service, text), text)
    // A client that is going to push a pointer to it has two weeks for that.
    const pointer = { oid: idOf('overwritten'), size: 'overwritten'.length }
    await service.admin.post(`${objects}/batch`, { operation: 'upload', objects: [pointer] })
    await service.end('SIGTERM')
  }
  await using service = await startService({ dataDir, env: inClock(15) })
  await until('objects are deleted', async () => !(await has(service, 'never')))
  for (const text of ['old', 'present', 'overwritten']) assert.ok(await has(service, text), text)
  using rows = openRows(dataDir)
  const left = rows.all('select oid from lfs_objects order by oid').map(({ oid }) => oid)
  assert.deepEqual(left, ['old', 'overwritten', 'present'].map(idOf).sort())
  await upload(service, 'never')
  assert.ok(await has(service, 'never'))
})
