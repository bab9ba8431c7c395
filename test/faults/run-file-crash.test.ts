// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { faultSteps } from '#base/fault-points.ts'
import { until } from '../support/condition.ts'
import { temporaryFolder } from '../support/git.ts'
import { sampleOf } from '../support/rounds.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { archiveOf, getBytes, put } from '../support/run-files.ts'
import { startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

/** The files of contents, by their ids; those that are being received have another place. */
async function filesIn(dataDir: string): Promise<string[]> {
  const root = join(dataDir, 'run-files')
  const found = await readdir(root, { recursive: true, withFileTypes: true })
  return found.filter((entry) => entry.isFile()).map(({ name }) => name)
}

const content = archiveOf('a', randomBytes(20_000).toString('hex'))

const steps = faultSteps.filter((step) => step.startsWith('run-file.'))

for (const step of sampleOf(steps, 2)) {
  test(`a server killed at ${step} has an artifact whole or not at all`, async () => {
    await using folder = await temporaryFolder()
    const dataDir = join(folder.path, 'data')
    let env: Record<string, string>
    let run: Awaited<ReturnType<typeof mustClaim>>
    {
      await using doomed = await startService({ dataDir, env: { SVC_FAULT_POINT: step } })
      env = { SVC_ADMIN_TOKEN: doomed.adminToken, SVC_PORT: new URL(doomed.url).port }
      await pushFiles(doomed.admin, 'site', oneStep('true'))
      await doomed.admin.post('/repos/site/workflows', {})
      run = await mustClaim(doomed.admin)
      await put(run, 'artifacts?name=a', content).catch(() => {})
      await until('it was killed', () => doomed.hasEnded())
    }
    await using service = await startService({ dataDir, env })
    const path = `/repos/site/workflows/${run.plan.runId}/artifacts`
    const isKept = step === 'run-file.kept'
    const kept = (await service.admin.get(path)).body
    assert.equal(kept.length, isKept ? 1 : 0)
    if (isKept) {
      const { bytes } = await getBytes(service.admin, `${path}/a?format=tar.zst`)
      assert.deepEqual(bytes, content)
    }
    await until('nothing else stays', async () => (await filesIn(dataDir)).length === kept.length)
    // The runner goes on where it was.
    const again = await put(run, 'artifacts?name=a', content)
    assert.equal(again.status, isKept ? 409 : 201, again.text)
    await run.report(...wholeRun())
  })
}

test('what is deleted leaves no file, also with its run or repository', async () => {
  await using service = await startService({ env: { SVC_DELETED_RETENTION_DAYS: '0' } })
  const { admin, dataDir } = service
  await pushFiles(admin, 'site', oneStep('true'))
  await admin.post('/repos/site/workflows', {})
  const run = await mustClaim(admin)
  for (const name of ['a', 'b', 'c']) await put(run, `artifacts?name=${name}`, content)
  await put(run, 'artifacts?name=b&overwrite=true', content)
  await put(run, 'caches?key=k&version=v', content)
  await run.report(...wholeRun())
  assert.equal((await filesIn(dataDir)).length, 4)
  await admin.delete(`/repos/site/workflows/${run.plan.runId}/artifacts/a`)
  assert.equal((await filesIn(dataDir)).length, 3)
  await admin.delete('/repos/site/caches?key=k')
  assert.equal((await filesIn(dataDir)).length, 2)
  await admin.delete('/repos/site')
  // A sweep does it, or the next start.
  await service.end('SIGTERM')
  await using next = await startService({ dataDir, env: { SVC_ADMIN_TOKEN: service.adminToken } })
  assert.ok(next.url)
  await until('the files are gone', async () => (await filesIn(dataDir)).length === 0)
})
