import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { createPathWithout } from '../support/doctor.ts'
import { without } from '../support/programs.ts'
import { startService } from '../support/service.ts'

test('a starting server logs that steps have a sandbox', {
  skip: without('bubblewrap'),
}, async () => {
  const { level, msg } = await reportedIsolation({})
  assert.equal(level, 'info')
  assert.match(msg, /^Steps run in bubblewrap .* no network and at most 2048 MiB of memory/)
})

test('it warns if bubblewrap is missing, and names the replacement', async () => {
  await using programs = await createPathWithout('bwrap')
  const { level, msg } = await reportedIsolation({ PATH: programs.path })
  assert.equal(level, 'warn')
  assert.match(msg, /^Steps run without a sandbox, .*bubblewrap is not installed/)
})

test('if a sandbox is required, it says that no step will run', async () => {
  await using programs = await createPathWithout('bwrap')
  const { level, msg } = await reportedIsolation({ PATH: programs.path, SVC_SANDBOX: 'require' })
  assert.equal(level, 'warn')
  assert.match(msg, /^Steps do not run here: .*bubblewrap is not installed/)
})

async function reportedIsolation(
  env: Record<string, string>,
): Promise<{ level: string; msg: string }> {
  await using service = await startService({ env: { SVC_RUNNER: 'on', ...env } })
  const line = await until('the log has the isolation', () =>
    service
      .log()
      .split('\n')
      .slice(0, -1)
      .find((one) => one.includes('"isolation"')),
  )
  return JSON.parse(line)
}
