// Tags: exhaustive
import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { without } from '../support/programs.ts'
import type { Client } from '../support/service.ts'
import { failRun, openShell, startShellSite } from '../support/shell-site.ts'
import { smallDisk, withoutMounts } from '../support/small-disk.ts'

const mib = 1024 * 1024
const skip = without('bubblewrap') || (await withoutMounts())

async function isKept(client: Client, name: string): Promise<boolean> {
  return (await client.get(`/repos/${name}/workflows/1`)).body.failure.workspaces.length > 0
}

test('on a nearly full disk kept workspaces go, with the shells in them once steps would be killed', {
  skip,
  timeout: 300_000,
}, async () => {
  await using disk = await smallDisk('96m')
  const dataDir = join(disk.path, 'data')
  await using site = await startShellSite({ SVC_FREE_SPACE_MIN: '16MiB' }, dataDir)
  const { admin } = site.service
  const fail = 'steps: [{ run: head -c 4000000 /dev/zero >large; exit 1 }]'

  await failRun(admin, 'idle', fail)
  assert.equal(await isKept(admin, 'idle'), true)
  await disk.fill(24 * mib)
  await until('the workspace is removed', async () => !(await isKept(admin, 'idle')))
  const refused = await admin.post('/repos/idle/workflows/1/shells', {})
  assert.deepEqual([refused.status, refused.body.code], [410, 'workspace_removed'], refused.text)
  // A job that fails meanwhile has none that stays.
  await failRun(admin, 'late', fail)
  await until('the workspace is removed', async () => !(await isKept(admin, 'late')))
  await disk.empty()

  await failRun(admin, 'used', fail)
  const shell = await openShell(admin, 'used')
  await shell.write('echo ready; cat\n')
  await shell.shows(/ready/)
  await disk.fill(24 * mib)
  // It is still there while the shell is.
  await shell.write('still\n')
  await shell.shows(/still/)
  await disk.empty()
  await disk.fill(8 * mib)
  const { exitCode, reason } = await shell.ended()
  assert.equal(exitCode, null)
  assert.match(reason, /disk/)
  await until('the workspace is removed', async () => !(await isKept(admin, 'used')))
  const folder = join(dataDir, 'runner', 'workspaces')
  await until('its files are removed', async () =>
    (await readdir(folder)).every((name) => !name.startsWith('svc-')),
  )
})
