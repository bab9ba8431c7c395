// Tags: exhaustive

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { createBackupSite } from '../support/backup-site.ts'
import { assertWhole } from '../support/backups.ts'
import { runInProcess } from '../support/command-in-process.ts'

const idOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

test('a backup has LFS objects, copies each once, and finds damaged ones', async () => {
  await using site = await createBackupSite()
  const { service } = site
  const { admin } = service
  const addressOf = (bytes: Buffer) => `/repos/site.git/info/lfs/objects/${idOf(bytes)}`
  const headersOf = (token: string) => ({ authorization: `Bearer ${token}` })
  const upload = async (bytes: Buffer) => {
    const headers = headersOf(admin.token)
    const options = { method: 'PUT', headers, body: bytes }
    assert.equal((await fetch(service.url + addressOf(bytes), options)).status, 200)
  }
  const [one, two, three] = [randomBytes(100_000), randomBytes(1000), randomBytes(1000)]
  const placeOf = (bytes: Buffer, folder: string) =>
    join(folder, idOf(bytes).slice(0, 2), idOf(bytes).slice(2, 4), idOf(bytes))
  const id = await site.idOf('site')
  const stored = join(site.dataDir, 'repositories', id.slice(-2), `${id}.git`, 'lfs/objects')

  await upload(one)
  const first = await site.backUp()
  assert.ok(first.bytesCopied > 100_000)
  await assertWhole(site.backup)
  await upload(two)
  // Another file would be copied again.
  await writeFile(placeOf(one, stored), 'damaged')
  const { out: report } = await runInProcess(['doctor', '--json'], site.env)
  assert.match(report, new RegExp(`${idOf(one)} of site has 7 bytes instead of 100000`))
  const second = await site.backUp()
  assert.ok(second.bytesCopied < 100_000)
  assert.deepEqual(second.damaged, [])
  await assertWhole(site.backup)
  await site.restored(async (again) => {
    for (const bytes of [one, two]) {
      const headers = headersOf(again.admin.token)
      const sent = await fetch(again.url + addressOf(bytes), { headers })
      assert.deepEqual(Buffer.from(await sent.arrayBuffer()), bytes)
    }
  })

  await upload(three)
  await rm(placeOf(three, stored))
  const third = await runInProcess(['backup', site.backup], site.env)
  assert.equal(third.code, 1)
  assert.match(third.err, new RegExp(`site lacks the Git LFS object ${idOf(three)}`))
  const { code, out } = await runInProcess(['backup', 'verify', site.backup])
  assert.equal(code, 1)
  assert.match(out, new RegExp(`lacks the Git LFS object ${idOf(three)}`))
  // An upload repairs it.
  await upload(three)
  await site.backUp()
  await assertWhole(site.backup)
})
