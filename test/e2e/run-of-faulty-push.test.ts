import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { startInProcess } from '../support/in-process.ts'
import { pushFiles } from '../support/workflow-site.ts'

test('a push with a faulty file makes a failed run, whose log tells of every fault', async () => {
  await using service = await startInProcess()
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
  assert.match(first, /^\.svc\/workflows\/bad\.yml:3:5: "rnu" is no key of a step\. Instead: /)
  assert.match(second, /^\.svc\/workflows\/bad\.yml:5:5: "shel" is no key of a step\. Instead: /)
  assert.deepEqual(others, [])
  assert.deepEqual([run.failure.reason, run.failure.lastLines], [run.fault, []])
  assert.equal((await admin.get(`${path}/logs`)).text, `✗ failure: ${run.fault}\n`)
})
