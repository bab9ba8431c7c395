import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Service, startService } from '../support/service.ts'
import { endOf, logOf, pushFiles, runToEnd } from '../support/workflow-site.ts'

let service: Service

before(async () => {
  service = await startService({ env: { SVC_RUNNER: 'on' } })
})

after(() => service[Symbol.asyncDispose]())

const caller = `
name: CI
on: push
jobs:
  build:
    uses: ./.svc/workflows/build.yml
    with: { level: full }
    secrets: { TOKEN: "\${{ secrets.KEY }}" }
  test:
    needs: build
    uses: ./.github/workflows/test.yml
    with: { built: "\${{ needs.build.outputs.name }}" }
`
const build = `
on:
  workflow_call:
    inputs: { level: { type: string, required: true } }
    outputs: { name: { value: "\${{ jobs.make.outputs.name }}" } }
    secrets: { TOKEN: { required: true } }
jobs:
  make:
    outputs: { name: "\${{ steps.make.outputs.name }}" }
    steps:
      - { id: make, run: 'echo "name=app-\${{ inputs.level }}" >> "$GITHUB_OUTPUT"; echo "\${#TOKEN} [$KEY]"' }
`
const check = `
on: { workflow_call: { inputs: { built: { type: string } } } }
jobs:
  unit: { steps: [{ run: 'echo "testing \${{ inputs.built }}"; test ! -e broken' }] }
`
const files = {
  '.svc/workflows/ci.yml': caller,
  '.svc/workflows/build.yml': build,
  '.github/workflows/test.yml': check,
}

type Job = { name: string; conclusion: string }
const jobsOf = ({ jobs }: { jobs: Job[] }) =>
  Object.fromEntries(jobs.map(({ name, conclusion }) => [name, conclusion]))

test('a push runs the workflows that its workflows call, as jobs of the same run', async () => {
  const { admin } = service
  await admin.post('/repos', { name: 'site' })
  await admin.put('/repos/site/secrets/KEY', { value: 'hunter22' })
  await pushFiles(admin, 'site', files)
  const { body } = await admin.get('/repos/site/workflows')
  assert.deepEqual(
    body.map((run: { files: string[] }) => run.files),
    [['.svc/workflows/ci.yml']],
  )
  const run = await endOf(admin, 'site', body[0].id)
  const log = await logOf(admin, 'site', run.id)
  assert.equal(run.conclusion, 'success', log)
  assert.deepEqual(jobsOf(run), { 'build / make': 'success', 'test / unit': 'success' })
  assert.match(log, /^8 \[\]$/m)
  assert.match(log, /test \/ unit \| testing app-full/)
})

test('a request runs no workflow that is only called, and refuses one that it names', async () => {
  const { admin } = service
  await pushFiles(admin, 'site', files)
  const run = await runToEnd(admin, 'site', {})
  assert.deepEqual(run.files, ['.svc/workflows/ci.yml'])
  const named = await admin.post('/repos/site/workflows', { files: ['build.yml'] })
  assert.equal(named.status, 422)
  assert.match(named.body.detail, /Only a job of another workflow starts this one/)
})

test('a failed call is run again, and a successful one reused with its outputs', async () => {
  const { admin } = service
  await pushFiles(admin, 'again', { ...files, broken: '' })
  await admin.put('/repos/again/secrets/KEY', { value: 'hunter22' })
  const first = await runToEnd(admin, 'again', {})
  assert.deepEqual(jobsOf(first), { 'build / make': 'success', 'test / unit': 'failure' })
  await admin.post(`/repos/again/workflows/${first.id}/rerun`, { jobs: 'failed' })
  const second = await endOf(admin, 'again', first.id)
  assert.deepEqual(jobsOf(second), { 'build / make': 'success', 'test / unit': 'failure' })
  const log = await logOf(admin, 'again', first.id)
  assert.match(log, /testing app-full/)
  assert.doesNotMatch(log, /8 \[\]/)
})

test('faults of a called workflow, and of the call, are those of the run', async () => {
  const { admin } = service
  const wrong = build.replace('steps:', 'stepz:')
  const { '.github/workflows/test.yml': _, ...rest } = files
  await pushFiles(admin, 'wrong', { ...rest, '.svc/workflows/build.yml': wrong })
  const { body } = await admin.post('/repos/wrong/workflows/validate', { files: ['ci.yml'] })
  assert.equal(body.valid, false)
  assert.deepEqual(
    body.faults.map(({ file, line }: { file: string; line: number }) => [file, line]),
    [
      ['.svc/workflows/build.yml', 8],
      ['.svc/workflows/build.yml', 10],
      ['.svc/workflows/ci.yml', 11],
    ],
  )
})
