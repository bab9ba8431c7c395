import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git } from '../support/git.ts'
import { startService } from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

test('a push with an invalid file creates a failed run, whose log lists every fault', async () => {
  await using service = await startService()
  const { admin } = service
  const text = 'on: push\nsteps:\n  - rnu: true\n  - run: true\n    shel: bash\n'
  await pushFiles(admin, 'site', { '.svc/workflows/bad.yml': text })
  const listed = await until('the push has made a run', async () => {
    const { body } = await admin.get('/repos/site/workflows')
    return body[0]
  })
  const path = `/repos/site/workflows/${listed.id}`
  const { body: run } = await admin.get(path)
  assert.deepEqual([run.status, run.conclusion, run.event], ['completed', 'failure', 'push'])
  const [first, second, ...others] = run.fault.split('\n')
  assert.match(first, /^\.svc\/workflows\/bad\.yml:3:5: Unexpected key "rnu" in a step\. Instead: /)
  assert.match(
    second,
    /^\.svc\/workflows\/bad\.yml:5:5: Unexpected key "shel" in a step\. Instead: /,
  )
  assert.deepEqual(others, [])
  assert.deepEqual([run.failure.reason, run.failure.lastLines], [run.fault, []])
  assert.equal((await admin.get(`${path}/logs`)).text, `✗ failure: ${run.fault}\n`)
})

test('pushes that cannot be handled do not block runs of others', exhaustive, async () => {
  await using service = await startService()
  const { admin } = service
  await admin.post('/repos', { name: 'evil' })
  await using project = await createProject()
  const first = await project.git('rev-parse', 'HEAD')
  await writeFile(join(project.path, 'message'), 'x'.repeat(17 * 1024 * 1024))
  await project.git('commit', '--quiet', '--allow-empty', '--file=message')
  // Those that ask for nothing are in between, and all are one push.
  const refs = ['a', 'c', 'e'].flatMap((name) => [
    `HEAD:refs/heads/${name}`,
    `${first}:refs/heads/${name}0`,
  ])
  await git(project.path, ['push', '--quiet', admin.remote('evil'), ...refs])
  await pushFiles(admin, 'site', { '.svc/workflows/ci.yml': 'on: push\nsteps:\n  - run: true\n' })
  await until('the next push has made a run', async () => {
    const { body } = await admin.get('/repos/site/workflows')
    return body.length === 1
  })
})
