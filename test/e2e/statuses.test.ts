// Tags: each-store
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { until } from '../support/condition.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { logIn } from '../support/page-client.ts'
import { without } from '../support/programs.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { type Client, type Service, startService } from '../support/service.ts'
import { pushFiles } from '../support/workflow-site.ts'

let service: Service
let owner: Client
let commit: string

const statusesOf = (id: string, name = 'site') => `/repos/${name}/commits/${id}/statuses`

before(async () => {
  service = await startService()
  owner = await service.client({ username: 'ada', permissions: ['everything'] })
  commit = await pushFiles(owner, 'site', {
    '.svc/workflows/ci.yml': 'on: push\nsteps:\n  - run: true\n',
  })
})

after(() => service[Symbol.asyncDispose]())

test('the last status of each context and user is listed beside the runs of the commit', async () => {
  const ci = await service.client({ username: 'jenkins', permissions: ['ci'] })
  assert.equal((await ci.post(statusesOf(commit), {})).status, 404)
  await owner.post('/repos/site/collaborators', { username: 'jenkins', role: 'write' })
  const build = { context: 'ci/build', state: 'pending' }
  const { status, body } = await ci.post(statusesOf(commit), build)
  assert.equal(status, 201)
  const { createdAt, ...rest } = body
  assert.equal(typeof createdAt, 'number')
  const nothing = { description: '', targetUrl: null, run: null }
  assert.deepEqual(rest, { ...build, ...nothing, username: 'jenkins' })
  const done = { state: 'failure', description: 'A test fails.', targetUrl: 'https://ci.example/1' }
  await ci.post(statusesOf(commit), { ...build, ...done })
  await owner.post(statusesOf(commit), { ...build, state: 'success' })
  const first = await until('the push has started its run', async () => {
    return (await owner.get('/repos/site/workflows')).body[0]
  })
  const shown = async () =>
    (await owner.get(statusesOf(commit))).body.map(
      ({ createdAt: _, run, targetUrl, ...one }: Record<string, unknown>) => ({
        ...one,
        ...(run === null ? { targetUrl } : { run }),
      }),
    )
  const byOwner = { ...build, state: 'success', description: '', targetUrl: null, username: 'ada' }
  const byCi = { ...build, ...done, username: 'jenkins' }
  const { id, number, name } = first
  const ofRun = { context: '.svc/workflows/ci.yml', description: '', username: 'ada' }
  const run = { id, number, name }
  assert.deepEqual(await shown(), [byOwner, byCi, { ...ofRun, state: 'pending', run }])
  await (await mustClaim(service.admin)).report(...wholeRun())
  assert.deepEqual((await shown()).at(-1), { ...ofRun, state: 'success', run })
  const page = await logIn(service.url, owner.token)
  const { text } = await page.get(`/r/site/commit/${commit}`)
  assert.match(text, /Succeeded.*ci\/build.*by ada.*Failed.*ci\/build.*A test fails\., by jenkins/s)
  assert.match(text, /href="https:\/\/ci\.example\/1"/)
})

const protect = (name: string, requires: unknown[], client = owner) =>
  client.put(`/repos/site/protections/branches/${name}`, { requires })

/** What a push of the commit to a branch gets, in the dry run and with git. */
async function refusalOf(name: string): Promise<string | undefined> {
  const refs = [{ ref: name, commit }]
  const { body } = await owner.post('/repos/site/check', { action: 'push', refs })
  const target = { target: commit, force: true }
  const { status, body: made } = await owner.put(`/repos/site/refs?ref=refs/heads/${name}`, target)
  assert.deepEqual([body.allowed, body.code], [status < 300, made.code ?? null], body.detail)
  if (body.allowed) await owner.delete(`/repos/site/refs?ref=refs/heads/${name}`)
  else assert.deepEqual([made.code, made.detail], ['status_required', body.detail])
  return body.detail ?? undefined
}

test('a protected branch takes only commits of which its users report success', async () => {
  const ci = await service.client({ username: 'jenkins', permissions: ['ci'] })
  const report = (client: Client, context: string, state: string, name = 'site') =>
    client.post(statusesOf(commit, name), { context, state })
  const odd = `"o'dd" $(x) \u{1f4a5}`
  const { body } = await protect('gated', [{ status: 'unit', by: ['jenkins', 'jenkins'] }])
  assert.deepEqual(body.rules.at(-1).requires, [{ status: 'unit', by: ['jenkins'] }])
  assert.deepEqual(body.warnings, [
    'The rule "gated": the status "unit" by jenkins has never been reported in this repository.',
  ])
  const all = await protect('any', [{ status: odd }, { status: 'unit' }])
  assert.equal(all.body.warnings.length, 3)
  const command = `svc statuses report site ${commit} unit success`
  assert.equal(
    await refusalOf('gated'),
    `The branch "gated" is protected by the rule "gated": the commit ${commit} needs the status "unit" to be success, ` +
      `reported by jenkins first. Push it to another branch, where \`${command}\` reports the status, and here then; ` +
      '`git push -o wait` waits for no status.',
  )
  // Of another user, of another repository that has the same commit, and in another context.
  await report(owner, 'unit', 'success')
  await using clone = await temporaryFolder()
  await git(clone.path, ['clone', '--quiet', owner.remote('site'), '.'])
  await owner.post('/repos', { name: 'other' })
  await git(clone.path, ['push', '--quiet', owner.remote('other'), 'HEAD:main'])
  await owner.post('/repos/other/collaborators', { username: 'jenkins', role: 'write' })
  assert.equal((await report(ci, 'unit', 'success', 'other')).status, 201)
  assert.equal((await report(ci, 'Unit', 'success')).status, 201)
  assert.match((await refusalOf('gated')) ?? '', /by jenkins first/)
  assert.match((await refusalOf('any')) ?? '', /"o'dd".*any user first.*'"o'\\''dd" \$\(x\) /)
  await report(owner, odd, 'success')
  assert.equal(await refusalOf('any'), undefined)
  // The newest counts: of all, or of those who may report it.
  await report(ci, 'unit', 'pending')
  assert.match((await refusalOf('any')) ?? '', /any user \(jenkins has reported pending\) first/)
  await report(ci, 'unit', 'success')
  await report(owner, 'unit', 'failure')
  assert.equal(await refusalOf('gated'), undefined)
  assert.match((await refusalOf('any')) ?? '', /\(ada has reported failure\)/)
  await report(ci, 'unit', 'failure')
  assert.match((await refusalOf('gated')) ?? '', /\(jenkins has reported failure\)/)
  // What was reported stays when its user is disabled.
  await report(ci, 'unit', 'success')
  await service.admin.patch('/users/jenkins', { disabled: true })
  assert.equal(await refusalOf('gated'), undefined)
  assert.equal((await report(ci, 'unit', 'failure')).status, 401)
  await service.admin.patch('/users/jenkins', { disabled: false })
  await report(owner, 'unit', 'failure')
  const { body: combined } = await owner.get(`/repos/site/statuses?commits=${commit},${commit}`)
  assert.deepEqual(combined, [{ commit, state: 'failure', contexts: 4, succeeded: 3 }])
  const page = await logIn(service.url, owner.token)
  for (const path of ['branches', 'compare/main...main'])
    assert.match((await page.get(`/r/site/${path}`)).text, /[> ]3 of 4 statuses succeeded</, path)
  const merge = { base: 'gated', head: 'ahead', method: 'fast-forward' }
  await owner.put('/repos/site/refs?ref=refs/heads/gated', { target: commit })
  assert.match((await page.get('/r/site/branches')).text, />requires status: unit by jenkins</)
  const changes = [{ path: 'a', content: 'a' }]
  await owner.post('/repos/site/commits', { branch: 'ahead', start: 'main', message: 'a', changes })
  const merged = await owner.post('/repos/site/merges', merge)
  assert.deepEqual([merged.status, merged.body.code], [403, 'status_required'])
})

test('the lines of the documentation for CI services report statuses', {
  skip: without('curl'),
}, async () => {
  const text = await readFile(new URL('../../docs/ci.md', import.meta.url), 'utf8')
  const lines = [...text.matchAll(/curl -fsS[^}]*\}'/g)].map(([line]) => line)
  const commits = ['GIT_COMMIT', 'BUILDKITE_COMMIT', 'CI_COMMIT_SHA']
  const urls = ['BUILD_URL', 'BUILDKITE_BUILD_URL', 'CI_PIPELINE_URL', 'CI_JOB_URL']
  const env = {
    ...{ PATH: process.env.PATH, SVC_URL: service.url, SVC_TOKEN: owner.token, STATE: 'failure' },
    ...Object.fromEntries(commits.map((name) => [name, commit])),
    ...Object.fromEntries(urls.map((name) => [name, `https://builds.example/${name}`])),
  }
  for (const line of lines) await promisify(execFile)('sh', ['-euc', line], { env })
  const reported: { context: string; state: string; targetUrl: string }[] = (
    await owner.get(statusesOf(commit))
  ).body
  assert.deepEqual(
    reported
      .filter(({ targetUrl }) => targetUrl?.startsWith('https://builds.example/'))
      .map(({ context, state, targetUrl }) => [context, state, targetUrl.split('/').at(-1)])
      .sort(),
    [
      ['buildkite', 'failure', 'BUILDKITE_BUILD_URL'],
      ['gitlab', 'failure', 'CI_JOB_URL'],
      ['jenkins', 'failure', 'BUILD_URL'],
      ['woodpecker', 'failure', 'CI_PIPELINE_URL'],
    ],
  )
})

test('a status is refused for what is no commit of the repository, and in another form', async () => {
  const { id: tree } = (await owner.get('/repos/site/tree')).body
  const good = { context: 'x', state: 'success' }
  for (const id of ['main', commit.slice(0, 7), tree, 'f'.repeat(40), '-h']) {
    const { status, body } = await owner.post(statusesOf(id), good)
    assert.deepEqual([status, body.code], [404, 'revision_not_found'], id)
    assert.deepEqual((await owner.get(statusesOf(id))).status, id.length < 40 ? 404 : 200, id)
  }
  for (const wrong of [
    {},
    { context: '' },
    { context: 'a\nb' },
    { context: 'x'.repeat(201) },
    { state: 'done' },
    { targetUrl: 'javascript:alert(1)' },
    { description: 'x'.repeat(501) },
    { by: 'admin' },
  ]) {
    const sent = Object.keys(wrong).length === 0 ? wrong : { ...good, ...wrong }
    const { status, body } = await owner.post(statusesOf(commit), sent)
    assert.deepEqual([status, body.code], [400, 'invalid_request'], JSON.stringify(wrong))
  }
})
