import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Service, startService } from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: Service

before(async () => {
  service = await startService()
  await pushFiles(service.admin, 'site', {
    '.svc/workflows/good.yml': 'steps: [{ run: true }, { uses: ./tool }]',
    '.svc/workflows/bad.yml': 'name: Bad\nsteps:\n  - run: true\n    shel: bash\n',
    'tool/action.yml': 'runs: { using: composite, steps: [{ run: true, shell: bash }] }',
  })
})

after(() => service[Symbol.asyncDispose]())

function validate(body: object, name = 'site') {
  return service.admin.post(`/repos/${name}/workflows/validate`, body)
}

const given = (text: string, path = 'ci.yml') => ({ contents: [{ path, text }] })

test('the files of a branch are checked, all or some, and nothing runs', async () => {
  const { status, body } = await validate({})
  assert.equal(status, 200)
  assert.equal(body.valid, false)
  const [fault] = body.faults
  assert.equal(body.faults.length, 1)
  assert.deepEqual([fault.file, fault.line, fault.column], ['.svc/workflows/bad.yml', 4, 5])
  assert.match(fault.message, /shel/)
  assert.match(fault.instead, /shell/)
  const good = await validate({ files: ['good.yml'] })
  assert.deepEqual(good.body, { valid: true, faults: [], notes: [], inputs: [] })
  const events = (await service.admin.get('/repos/site/workflows')).body
  assert.ok(events.every(({ event }: { event: string }) => event === 'push'))
})

test('files of the request are checked, and may use actions of the branch', async () => {
  assert.deepEqual((await validate(given('steps: [{ uses: ./tool }]'))).body.valid, true)
  const { body } = await validate(given('steps:\n  - uses: ./none\n'))
  assert.deepEqual([body.valid, body.faults[0].line], [false, 2])
  assert.match(body.faults[0].message, /no file action\.yml in "\.\/none"/)
  const other = await validate(
    given('steps:\n  - uses: someone/action@v1\n', '.svc/workflows/x.yaml'),
  )
  assert.deepEqual(
    [other.body.faults[0].file, other.body.faults[0].line],
    ['.svc/workflows/x.yaml', 2],
  )
  assert.notEqual(other.body.faults[0].instead, '')
})

test("files of GitHub's folder are checked, unless there are others, and foreign events noted", async () => {
  await pushFiles(service.admin, 'moved', {
    '.github/workflows/ci.yml': 'on: [push, release]\nsteps: [{ run: true }]',
    '.github/workflows/pr.yml': 'on: pull_request_target\nsteps: [{ run: true }]',
  })
  const { body } = await validate({}, 'moved')
  assert.deepEqual([body.valid, body.faults[0].file], [false, '.github/workflows/pr.yml'])
  const note = {
    file: '.github/workflows/ci.yml',
    line: 1,
    column: 12,
    message: '"release" starts no runs: releases are not supported.',
  }
  assert.deepEqual(body.notes, [note])
  const named = await validate({ files: ['.github/workflows/ci.yml'] }, 'moved')
  assert.deepEqual(named.body, { valid: true, faults: [], notes: [note], inputs: [] })
  const text = 'on: [push, fork]\nsteps: [{ run: true }]'
  const contents = await validate(given(text, '.github/workflows/x.yml'))
  assert.equal(contents.body.notes[0].file, '.github/workflows/x.yml')
  assert.equal((await validate({}, 'site')).body.faults[0].file, '.svc/workflows/bad.yml')
})

test('files can be checked in a repository without commits', async () => {
  await service.admin.post('/repos', { name: 'empty' })
  assert.equal((await validate(given('steps: [{ run: true }]'), 'empty')).body.valid, true)
  assert.equal((await validate({}, 'empty')).body.code, 'ref_not_found')
  const named = { ...given('steps: [{ run: true }]'), branch: 'none' }
  assert.equal((await validate(named)).body.code, 'ref_not_found')
})

test('invalid requests are reported by pointer', async () => {
  const good = { path: 'a.yml', text: 'steps: [{ run: true }]' }
  for (const [body, pointer] of [
    [{ contents: [good, { ...good, path: '../b.yml' }] }, '/contents/1/path'],
    [{ contents: [good, { ...good, path: '.svc/workflows/a.yml' }] }, '/contents/1/path'],
    [{ files: ['../x.yml'] }, '/files/0'],
    [{ contents: [{ path: 'a.yml' }] }, '/contents/0/text'],
  ] as const) {
    const answer = await validate(body)
    assert.equal(answer.status, 400, JSON.stringify(body))
    assert.equal(answer.body.errors[0].pointer, pointer)
  }
  assert.equal((await validate({ files: ['none.yml'] })).body.code, 'workflow_not_found')
})

test('hostile texts have faults, and the server keeps running', async () => {
  const deep = `steps: ${'['.repeat(100_000)}`
  const bomb = Array.from(
    { length: 20 },
    (_, n) => `a${n}: &a${n} [${n ? `*a${n - 1}, *a${n - 1}` : 1}]`,
  )
  const texts = [
    deep,
    bomb.join('\n'),
    '\u0000',
    '\uFEFFsteps: 1',
    '{'.repeat(5000),
    '"',
    '!!js/x y',
  ]
  for (const text of texts) assert.equal((await validate(given(text))).body.valid, false)
  const many = Array.from({ length: 20 }, () => validate(given(deep)))
  for (const { status } of await Promise.all(many)) assert.ok(status === 200 || status === 503)
  assert.equal((await validate({ files: ['good.yml'] })).body.valid, true)
})
