import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject, type Project } from '../support/git.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let service: Service
let project: Project
let owner: Client
let member: Client

before(async () => {
  service = await startService({ env: { SVC_RUNNER: 'on' } })
  project = await createProject()
  const permissions = ['repo:read', 'repo:write', 'collaborator:write', 'workflow:read']
  owner = await service.client({ username: 'ada', permissions })
  member = await service.client({ username: 'grace', permissions })
  await owner.post('/repos', { name: 'site' })
  await owner.post('/repos/site/collaborators', { username: 'grace' })
  await project.git('push', '--quiet', owner.remote('site'), 'HEAD:main')
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

/** Pushes, and returns what git says when it is refused. */
async function push(client: Client, ...refs: string[]): Promise<string> {
  return project.git('push', '--quiet', client.remote('site'), ...refs).then(
    () => 'pushed',
    ({ stderr }) => stderr,
  )
}

async function commit(message: string): Promise<void> {
  await project.git('commit', '--quiet', '--allow-empty', '--message', message)
}

test('tags are protected like branches, independently of them', async () => {
  const { body } = await owner.put('/repos/site/protections/tags/v*')
  assert.deepEqual(body, {
    tags: ['v*'],
    rules: [
      { pattern: 'v*', owners: 'any', requires: [], approvals: 0, codeOwners: false, queue: false },
    ],
  })
  const branches = await owner.get('/repos/site/protections/branches')
  assert.deepEqual(branches.body, { branches: [], rules: [] })
  assert.deepEqual((await owner.get('/repos/site')).body.protectedBranches, [])
  assert.match(
    await push(member, 'HEAD:refs/tags/v1'),
    /The tag "v1" is protected by the rule "v\*": only the owner/,
  )
  assert.equal(await push(member, 'HEAD:refs/heads/v1'), 'pushed')
  assert.equal(await push(member, 'HEAD:refs/tags/nightly'), 'pushed')
  assert.equal(await push(owner, 'HEAD:refs/tags/v1'), 'pushed')
  assert.match(await push(member, ':refs/tags/v1'), /protected/)
  assert.deepEqual((await owner.delete('/repos/site/protections/tags/v*')).body.tags, [])
  assert.equal((await owner.delete('/repos/site/protections/tags/v*')).status, 404)
  assert.equal(await push(member, ':refs/tags/v1'), 'pushed')
})

test('owners may be limited to fast-forwards', async () => {
  await owner.put('/repos/site/protections/branches/steady', { owners: 'fast-forward' })
  assert.equal(await push(owner, 'HEAD:refs/heads/steady'), 'pushed')
  await commit('forward')
  assert.equal(await push(owner, 'HEAD:refs/heads/steady'), 'pushed')
  assert.match(await push(owner, '+HEAD~1:refs/heads/steady'), /cannot be forced/)
  assert.match(await push(owner, ':refs/heads/steady'), /cannot be deleted/)
  assert.match(await push(service.admin, '+HEAD~1:refs/heads/steady'), /cannot be forced/)
  const [last] = (await owner.get('/repos/site/pushes?ref=refs/heads/steady')).body
  const undo = await owner.post(`/repos/site/pushes/${last.id}/undo`)
  assert.deepEqual([undo.status, undo.body.code], [403, 'branch_protected'])
  await owner.put('/repos/site/protections/branches/steady', { owners: 'any' })
  assert.equal(await push(owner, '+HEAD~1:refs/heads/steady'), 'pushed')
})

test('a tag that may only be fast-forwarded is never replaced by another annotated one', async () => {
  await owner.put('/repos/site/protections/tags/release-*', { owners: 'fast-forward' })
  await project.git('tag', '--annotate', '--message', 'one', 'release-1')
  assert.equal(await push(owner, 'release-1'), 'pushed')
  await project.git('tag', '--annotate', '--force', '--message', 'two', 'release-1')
  assert.match(await push(owner, '+release-1'), /cannot be forced/)
})

test('with none, not even an admin changes it until the rule is changed', async () => {
  await owner.put('/repos/site/protections/branches/frozen*', { owners: 'none' })
  for (const client of [owner, service.admin])
    assert.match(await push(client, 'HEAD:frozen-1'), /not even its owner/)
  assert.match(await push(member, 'HEAD:frozen-1'), /only the owner/)
  assert.match(await push(owner, 'HEAD:elsewhere', 'HEAD:frozen-1'), /not even its owner/)
  await owner.put('/repos/site/protections/branches/frozen*', { owners: 'any' })
  assert.equal(await push(owner, 'HEAD:frozen-1'), 'pushed')
})

test('a commit without a successful run of the required workflow is refused', async () => {
  await owner.put('/repos/site/protections/branches/gated', { requires: ['ci.yml'] })
  await mkdir(join(project.path, '.svc/workflows'), { recursive: true })
  await project.commit('.svc/workflows/ci.yml', 'on: push\nsteps:\n  - run: test -e good\n')
  assert.equal(await push(owner, 'HEAD:try'), 'pushed')
  const completed = () =>
    until('the run has completed', async () => {
      const [run] = (await owner.get('/repos/site/workflows')).body
      return run?.status === 'completed' && run
    })
  assert.equal((await completed()).conclusion, 'failure')
  assert.match(
    await push(owner, 'HEAD:gated'),
    /needs a successful run of \.svc\/workflows\/ci\.yml/,
  )
  await project.commit('good')
  assert.match(await push(owner, 'HEAD:gated'), /needs a successful run/)
  assert.equal(await push(owner, 'HEAD:try'), 'pushed')
  await until('the second run has succeeded', async () => {
    const [run] = (await owner.get('/repos/site/workflows')).body
    return run.conclusion === 'success'
  })
  assert.match(await push(member, 'HEAD:gated'), /only the owner/)
  assert.equal(await push(owner, 'HEAD:gated'), 'pushed')
  assert.equal(await push(owner, ':gated'), 'pushed')
})

test('a commit with another workflow file than that of a ref is refused, although its run succeeds', async () => {
  const rule = { workflow: '.svc/workflows/ci.yml', from: 'refs/heads/rules' }
  const path = '/repos/site/protections/branches/judged'
  const { body: early } = await owner.put(path, { requires: [{ ...rule, workflow: 'ci.yml' }] })
  assert.deepEqual(early.rules.at(-1).requires, [rule])
  const warning = 'The rule "judged": refs/heads/rules'
  assert.ok(
    early.warnings.includes(`${warning} has no .svc/workflows/ci.yml, so no push can succeed.`),
  )
  await project.git('push', '--quiet', owner.remote('site'), 'HEAD:rules')
  assert.match(
    (await owner.get('/repos/site/protections/branches?warnings=true')).body.warnings.join(),
    /"judged": refs\/heads\/rules is not protected, so all/,
  )
  const strict = await project.git('rev-parse', 'HEAD')
  await project.commit('.svc/workflows/ci.yml', 'on: push\nsteps:\n  - run: "true"\n')
  assert.equal(await push(owner, 'HEAD:try'), 'pushed')
  const lax = await project.git('rev-parse', 'HEAD')
  await until('the lax run has succeeded', async () => {
    const [run] = (await owner.get('/repos/site/workflows')).body
    return run.commit === lax && run.conclusion === 'success'
  })
  const differs = /ci\.yml as it is at refs\/heads\/rules first\. Its \S+ differs/
  assert.match(await push(owner, 'HEAD:judged'), differs)
  assert.match(await push(owner, '-o', 'wait', 'HEAD:judged'), differs)
  const refs = [{ ref: 'judged', commit: lax }]
  const { body: checked } = await owner.post('/repos/site/check', { action: 'push', refs })
  assert.deepEqual([checked.code, differs.test(checked.detail)], ['run_required', true])
  await project.git('checkout', '--quiet', strict, '--', '.svc')
  await commit('Restored')
  assert.match(
    await push(owner, 'HEAD:judged'),
    /as it is at refs\/heads\/rules first\. Push it with/,
  )
  assert.equal(await push(owner, '-o', 'wait', 'HEAD:judged'), 'pushed')
})

test('rules that are not given stay, and those that make no sense are refused', async () => {
  const path = '/repos/site/protections/branches/kept'
  await owner.put(path, { owners: 'none', requires: ['ci.yml', '.svc/workflows/ci.yml'] })
  await owner.put(path)
  const { body } = await owner.put(path, { owners: 'fast-forward' })
  assert.deepEqual(body.rules.at(-1), {
    pattern: 'kept',
    owners: 'fast-forward',
    requires: ['.svc/workflows/ci.yml'],
    ...{ approvals: 0, codeOwners: false, queue: false },
  })
  const { body: events } = await owner.get('/events?kind=protection.added,protection.changed')
  assert.deepEqual(
    events
      .filter(({ data }: { data: { branch: string } }) => data.branch === 'kept')
      .map(({ kind, data }: { kind: string; data: { owners: string } }) => [kind, data.owners]),
    [
      ['protection.added', 'none'],
      ['protection.changed', 'fast-forward'],
    ],
  )
  for (const [wanted, pointer] of [
    [{ owners: 'some' }, '/owners'],
    [{ requires: ['../ci.yml'] }, '/requires/0'],
    [{ requires: ['ci.yml', 'README'] }, '/requires/1'],
    [{ requires: 'ci.yml' }, '/requires'],
    [{ requires: ['ci.yml', { workflow: '../ci.yml' }] }, '/requires/1/workflow'],
    [{ requires: [{ workflow: 'ci.yml', from: 'main' }] }, '/requires/0/from'],
    [{ requires: [{ workflow: 'ci.yml', from: 'refs/heads/a..b' }] }, '/requires/0/from'],
    [{ requires: [{ status: '' }] }, '/requires/0'],
    [{ requires: [{ status: 'a\nb' }] }, '/requires/0'],
    [{ requires: [{ status: 'a', by: [] }] }, '/requires/0'],
    [{ requires: [{ status: 'a', by: ['run-1[bot]'] }] }, '/requires/0'],
    [{ requires: [{ status: 'a', from: 'refs/heads/main' }] }, '/requires/0'],
  ] as const) {
    const answer = await owner.put(path, wanted)
    assert.deepEqual([answer.status, answer.body.errors[0].pointer], [400, pointer], answer.text)
  }
  for (const tag of ['a..b', 'refs/heads/main'])
    assert.equal((await owner.put(`/repos/site/protections/tags/${tag}`)).status, 400, tag)
  assert.equal((await member.put(path)).status, 403)
})
