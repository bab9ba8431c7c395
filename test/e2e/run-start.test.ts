import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { git, temporaryFolder } from '../support/git.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import type { Client } from '../support/service.ts'
import { type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

let service: Service
let ada: Client

before(async () => {
  service = await startService()
  ada = await service.client({
    username: 'ada',
    permissions: ['repo:read', 'repo:write', 'workflow:read', 'workflow:trigger'],
  })
})

after(() => service[Symbol.asyncDispose]())

/** Starts a run and removes it from the queue unclaimed. */
async function started(name: string, body: object) {
  const answer = await ada.post(`/repos/${name}/workflows`, body)
  assert.equal(answer.status, 202, answer.text)
  const path = `/repos/${name}/workflows/${answer.body.id}`
  const run = (await ada.get(path)).body
  await ada.post(`${path}/cancel`)
  return { answer, run }
}

test('a run starts on the given branch, a tag by its full name, or the default branch', async () => {
  const main = await pushFiles(ada, 'refs', oneStep('true'))
  const dev = await pushFiles(ada, 'refs', oneStep('false'), { branch: 'dev' })
  await using folder = await temporaryFolder()
  const remote = ada.remote('refs')
  await git('/', ['clone', '--quiet', remote, folder.path])
  await git(folder.path, ['tag', '-a', '-m', 'One', 'v1', 'origin/dev'])
  const blob = (await git(folder.path, ['rev-parse', 'HEAD:.svc/workflows/ci.yml'])).stdout
  await git(folder.path, ['tag', 'blob', blob])
  await git(folder.path, ['push', '--quiet', remote, 'v1', 'blob'])
  for (const [branch, ref, commit] of [
    [undefined, 'refs/heads/main', main],
    ['dev', 'refs/heads/dev', dev],
    ['refs/heads/dev', 'refs/heads/dev', dev],
    ['refs/tags/v1', 'refs/tags/v1', dev],
  ] as const) {
    const { run } = await started('refs', branch === undefined ? {} : { branch })
    assert.deepEqual([run.ref, run.commit], [ref, commit])
  }
  for (const branch of [
    'v1',
    'none',
    'a..b',
    '-x',
    dev,
    'HEAD',
    'refs/svc/x',
    'refs/tags/blob',
    'x\ny',
  ]) {
    const { status, body } = await ada.post('/repos/refs/workflows', { branch })
    assert.deepEqual([status, body.code], [422, 'ref_not_found'], branch)
  }
  for (const path of ['workflows', 'workflows/validate']) {
    const detailOf = async (branch: string) =>
      (await ada.post(`/repos/refs/${path}`, { branch })).body.detail
    const none = 'There is no branch "none" in this repository.'
    assert.equal(await detailOf('none'), none)
    const tag = ' There is a tag of this name, which is written as refs/tags/v1.'
    assert.equal(await detailOf('v1'), none.replace('none', 'v1') + tag)
  }
})

test('the response has the id, the status queued, and the address of the run', async () => {
  await pushFiles(ada, 'answer', oneStep('true'))
  const { answer } = await started('answer', { branch: 'main' })
  const { id, number, status } = answer.body
  assert.deepEqual([number, status], [1, 'queued'])
  assert.equal(answer.headers.get('location'), `/repos/answer/workflows/${id}`)
  assert.equal((await started('answer', {})).answer.body.number, 2)
})

test('files are named with their folder or without, in their order, each once', async () => {
  const one = oneStep('true')['.svc/workflows/ci.yml']
  await pushFiles(ada, 'files', {
    '.svc/workflows/b.yml': one,
    '.svc/workflows/a.yaml': one,
    '.svc/workflows/deep/c.yml': one,
    '.svc/workflows/notes.txt': 'no workflow',
  })
  const filesOf = async (body: object) => (await started('files', body)).run.files
  const folder = '.svc/workflows'
  assert.deepEqual(await filesOf({}), [`${folder}/a.yaml`, `${folder}/b.yml`])
  assert.deepEqual(await filesOf({ files: ['b.yml', `${folder}/a.yaml`, `${folder}/b.yml`] }), [
    `${folder}/b.yml`,
    `${folder}/a.yaml`,
  ])
  assert.deepEqual(await filesOf({ files: ['deep/c.yml'] }), [`${folder}/deep/c.yml`])
})

test('a file outside the folder is rejected by its pointer', async () => {
  await pushFiles(ada, 'outside', { ...oneStep('true'), 'ci.yml': 'steps: [{ run: true }]' })
  for (const file of [
    '../ci.yml',
    '/etc/passwd.yml',
    '.svc/workflows/../../ci.yml',
    '.svc/workflows/../ci.yml',
    'a//ci.yml',
    './ci.yml',
    'a\\ci.yml',
    'a\nci.yml',
    'ci.yml\0',
    'ci.txt',
    '.svc/workflows/',
  ]) {
    const { status, body } = await ada.post('/repos/outside/workflows', { files: ['ci.yml', file] })
    assert.deepEqual([status, body.code], [400, 'invalid_request'], file)
    assert.deepEqual(
      body.errors.map(({ pointer }: { pointer: string }) => pointer),
      ['/files/1'],
    )
  }
  assert.deepEqual((await ada.get('/repos/outside/workflows')).body, [])
})

test('a missing or invalid workflow is reported with its position, and nothing runs', async () => {
  await pushFiles(ada, 'wrong', {
    '.svc/workflows/bad.yml': 'name: Bad\nsteps:\n  - run: true\n    shel: bash\n',
    '.svc/workflows/worse.yml': 'steps: [{ run: "${{ nothing.here }}" }]\n',
  })
  const ask = async (body: object) => (await ada.post('/repos/wrong/workflows', body)).body
  const absent = await ask({ files: ['none.yml'] })
  assert.deepEqual([absent.status, absent.code], [422, 'workflow_not_found'])
  assert.match(absent.detail, /\.svc\/workflows\/none\.yml/)
  const bad = await ask({})
  assert.deepEqual([bad.status, bad.code], [422, 'workflow_invalid'])
  assert.match(bad.detail, /^\.svc\/workflows\/bad\.yml:4:5: .*shel.* \(and \d more\)$/)
  assert.equal(bad.errors[0].pointer, '.svc/workflows/bad.yml:4:5')
  assert.match(bad.errors[1].pointer, /^\.svc\/workflows\/worse\.yml:1:\d+$/)
  // The push itself made runs that say the same.
  const events = (await ada.get('/repos/wrong/workflows')).body.map(
    ({ event }: { event: string }) => event,
  )
  assert.ok(!events.includes('workflow_dispatch'))
  await pushFiles(ada, 'bare', { 'readme.txt': 'nothing to run' })
  const none = (await ada.post('/repos/bare/workflows', {})).body
  assert.deepEqual([none.status, none.code], [422, 'workflow_not_found'])
  await ada.post('/repos', { name: 'empty' })
  const empty = (await ada.post('/repos/empty/workflows', {})).body
  assert.deepEqual([empty.status, empty.code], [422, 'ref_not_found'])
})

test('a run uses the commit at the time of its request', async () => {
  const before = await pushFiles(ada, 'moving', { ...oneStep('echo before'), 'a.txt': 'before' })
  const { body } = await ada.post('/repos/moving/workflows', {})
  await pushFiles(ada, 'moving', { ...oneStep('echo after'), 'a.txt': 'after' })
  const held = await mustClaim(service.admin)
  assert.equal(held.plan.runId, body.id)
  assert.equal(held.plan.commit, before)
  assert.match(held.plan.files[0]?.text ?? '', /echo before/)
  await held.report(...wholeRun())
})

test('inputs have types and defaults, and invalid ones are reported', async () => {
  await pushFiles(ada, 'inputs', {
    '.svc/workflows/ci.yml': `
on:
  workflow_dispatch:
    inputs:
      level: { type: choice, options: [low, high], default: high }
      count: { type: number }
      dry: { type: boolean, default: true }
      note: { required: true }
jobs:
  one:
    runs-on: ubuntu-latest
    steps: [{ run: true }]
`,
  })
  const { run } = await started('inputs', { inputs: { note: 'x', count: '3' } })
  assert.deepEqual(run.inputs, { level: 'high', count: 3, dry: true, note: 'x' })
  const { status, body } = await ada.post('/repos/inputs/workflows', {
    inputs: { level: 'middle', dry: 'perhaps', other: 1 },
  })
  assert.deepEqual([status, body.code], [400, 'invalid_request'])
  assert.deepEqual(body.errors.map(({ pointer }: { pointer: string }) => pointer).sort(), [
    '/inputs/dry',
    '/inputs/level',
    '/inputs/note',
    '/inputs/other',
  ])
})

test('reading and starting runs needs permissions and access', async () => {
  await pushFiles(ada, 'rights', oneStep('true'))
  const path = '/repos/rights/workflows'
  const { answer } = await started('rights', {})
  const one = `${path}/${answer.body.id}`
  const rights = ['workflow:read', 'workflow:trigger']
  const grace = await service.client({ username: 'grace', permissions: rights })
  const reader = await service.client({ username: 'grace', permissions: ['workflow:read'] })
  const starter = await service.client({ username: 'grace', permissions: ['workflow:trigger'] })
  const calls = [
    (who: Client) => who.get(path),
    (who: Client) => who.get(one),
    (who: Client) => who.get(`${one}/logs`),
    (who: Client) => who.post(`${path}/validate`, {}),
    (who: Client) => who.post(path, {}),
    (who: Client) => who.post(`${one}/rerun`, {}),
    (who: Client) => who.post(`${one}/cancel`),
  ]
  const statuses = async (who: Client) => {
    const all: number[] = []
    for (const call of calls) all.push((await call(who)).status)
    return all
  }
  assert.deepEqual(await statuses(grace), [404, 404, 404, 404, 404, 404, 404])
  await service.admin.post('/repos/rights/collaborators', { username: 'grace' })
  assert.deepEqual(await statuses(grace), [200, 200, 200, 200, 202, 202, 202])
  assert.deepEqual(await statuses(reader), [200, 200, 200, 200, 403, 403, 403])
  assert.deepEqual(await statuses(starter), [403, 403, 403, 403, 202, 202, 202])
  const [newest] = (await ada.get(path)).body
  await pushFiles(ada, 'other', oneStep('true'))
  for (const id of [newest.id, 'nonsense', '0'.repeat(26)])
    assert.equal((await ada.get(`/repos/other/workflows/${id}`)).body.code, 'run_not_found', id)
})
