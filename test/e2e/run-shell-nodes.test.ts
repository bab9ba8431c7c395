// Tags: exhaustive
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loggedIn } from '../support/client-home.ts'
import { until } from '../support/condition.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { processesNaming } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { startService } from '../support/service.ts'
import { failRun, openShell } from '../support/shell-site.ts'
import { startStoreSite } from '../support/store-site.ts'

const options = {
  skip: withoutObjectStore || without('postgres') || without('bubblewrap'),
  timeout: 300_000,
}

test('a shell works between a client and a runner of different nodes', options, async () => {
  await using site = await startStoreSite()
  const { admin } = site.service
  const env = { ...site.env, SVC_RUNNER: 'on', SVC_FAILED_WORKSPACE_SECONDS: '600' }
  await using other = await startService({ env })
  await admin.post('/repos', { name: 'site' })
  await admin.put('/repos/site/secrets/TOKEN', { value: 'hunter2-hunter2' })
  await failRun(admin, 'site')
  await using home = await loggedIn(site.service)
  const input = `echo "$TOKEN"; head -c 500000 /dev/zero | tr '\\0' y | wc -c; cat | wc -c\n${'z'.repeat(300_000)}`
  const { code, out, err } = await home.run(['runs', 'shell', 'site', '1'], { input })
  assert.deepEqual([code, out], [0, 'hunter2-hunter2\n500000\n300000\n'], err)
  const shell = await openShell(admin, 'site')
  await shell.write('echo ready; sleep 4714401\n')
  await shell.shows(/ready/)
  await other.end('SIGKILL')
  await until('the shell has ended', () => processesNaming('4714401').length === 0)
})
