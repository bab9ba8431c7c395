import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { runFileContentType } from '#actions/runner-api/transfer-limits.ts'
import { until } from '../support/condition.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { logIn } from '../support/page-client.ts'
import { claim, type HeldRun, mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { type Client, createClient } from '../support/service.ts'

let service: InProcess
let wanda: Client
let eve: Client
let project: Project
let proposals = 0

const secret = 'hunter2-of-the-site'
const permissions = 'permissions: { contents: write, actions: write, id-token: write }'
const check = (more = '') =>
  `name: check\non: pull_request\n${more}\n${permissions}\nsteps: [{ run: echo $DEPLOY_KEY }]\n`
const required = 'name: required\non: push\nsteps: [{ run: x }]\n'

before(async () => {
  service = await startInProcess()
  project = await createProject()
  wanda = await service.client({ username: 'wanda', permissions: ['everything'] })
  eve = await service.client({ username: 'eve', permissions: ['everything'] })
  await service.admin.post('/repos', { name: 'site', visibility: 'public' })
  await service.admin.patch('/repos/site', { runTokens: 'write' })
  await service.admin.post('/repos/site/collaborators', { username: 'wanda' })
  await service.admin.put('/repos/site/secrets/DEPLOY_KEY', { value: secret })
  await commit({ 'check.yml': check(), 'required.yml': required }, 'Begin [skip ci]')
  await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main')
  await project.git('branch', '--force', 'start')
  const rule = { requires: ['required.yml'], owners: 'any' }
  const protection = await service.admin.put('/repos/site/protections/branches/main', rule)
  assert.ok(protection.status < 300, protection.text)
})

after(async () => {
  await project[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

async function commit(workflows: Record<string, string>, message: string): Promise<string> {
  const folder = join(project.path, '.svc/workflows')
  await mkdir(folder, { recursive: true })
  for (const [name, text] of Object.entries(workflows)) await writeFile(join(folder, name), text)
  await project.git('add', '.')
  await project.git('commit', '--quiet', '--allow-empty', '-m', message)
  return project.git('rev-parse', 'HEAD')
}

/** Proposes a commit on the first one; the number of the change. */
async function propose(
  client: Client,
  { topic, workflows = {} }: { topic: string; workflows?: Record<string, string> },
): Promise<number> {
  await project.git('checkout', '--quiet', '--force', '--detach', 'start')
  // Commits of one second must differ.
  proposals += 1
  await commit(workflows, `Propose ${topic} ${proposals}`)
  const target = [client.remote('site'), 'HEAD:refs/for/main']
  const { stderr } = await git(project.path, ['push', '-o', `topic=${topic}`, ...target])
  return Number(/Change (\d+)/.exec(stderr)?.[1])
}

/** The runs of a version, by name. */
async function runsOf(number: number, version: number) {
  const ref = encodeURIComponent(`refs/changes/${number}/${version}`)
  const { body } = await service.admin.get(`/repos/site/workflows?branch=${ref}`)
  return body.toSorted((a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1))
}

const statesOf = async (number: number, version: number) =>
  (await runsOf(number, version)).map(
    (run: { name: string; status: string; conclusion: string; needsApproval: boolean }) =>
      `${run.name} ${run.needsApproval ? 'waits' : (run.conclusion ?? run.status)}`,
  )

/** Claims the queued runs; by name. */
async function claimAll(count: number): Promise<Record<string, HeldRun>> {
  const runs: [string, HeldRun][] = []
  for (let index = 0; index < count; index++) {
    const run = await mustClaim(service.admin)
    const { body } = await service.admin.get(`/repos/site/workflows/${run.plan.runId}`)
    runs.push([body.name, run])
  }
  return Object.fromEntries(runs)
}

function of(runs: Record<string, HeldRun>, name: string): HeldRun {
  const run = runs[name]
  assert.ok(run, `${name} is not among ${Object.keys(runs).join(', ')}`)
  return run
}

const jobOf = ({ plan }: HeldRun) => createClient(service.url, plan.identities[0]?.token ?? '')
const close = (number: number, state: string) =>
  service.admin.patch(`/repos/site/changes/${number}`, { state })

test('each version of a change starts its runs once, with what a push by its user would have', async () => {
  const number = await propose(wanda, { topic: 'paint' })
  assert.deepEqual(await statesOf(number, 1), ['check queued', 'required queued'])
  const first = await mustClaim(service.admin)
  const { plan } = first
  assert.deepEqual(
    [plan.event, plan.ref, plan.actor, plan.secrets.DEPLOY_KEY],
    ['pull_request', `refs/changes/${number}/1`, 'wanda', secret],
  )
  const { pull_request } = JSON.parse(JSON.stringify(plan.payload))
  assert.deepEqual([pull_request.number, pull_request.base.ref], [number, 'main'])
  assert.notEqual(plan.identities[0]?.idTokens, null)
  const source = await first.own.get(`${first.path}/source?ref=${encodeURIComponent(plan.ref)}`)
  assert.equal(source.status, 200, source.text)
  assert.ok(source.text.startsWith(`{"commit":"${plan.commit}","ref":"${plan.ref}"`))
  const history = await first.own.get(`${first.path}/source?depth=0`)
  assert.ok(history.text.startsWith(`{"commit":"${plan.commit}","ref":"${plan.ref}"`), history.text)

  await propose(wanda, { topic: 'paint' })
  assert.deepEqual(await statesOf(number, 2), ['check queued', 'required queued'])
  const [running, cancelled] = (await runsOf(number, 1)).toSorted(
    (a: { status: string }, b: { status: string }) => (a.status > b.status ? -1 : 1),
  )
  assert.deepEqual(
    [running.id, running.status, cancelled.fault],
    [plan.runId, 'running', `Change ${number} has version 2.`],
  )
  await first.report(...wholeRun())

  await close(number, 'abandoned')
  assert.deepEqual(await statesOf(number, 2), ['check cancelled', 'required cancelled'])
  await close(number, 'open')
  const reopened = await claimAll(2)
  assert.equal(of(reopened, 'check').plan.payload.action, 'reopened')
  for (const run of Object.values(reopened)) await run.report(...wholeRun())
})

test('a required run of the push of a branch is that of the change that follows it', async () => {
  await project.git('checkout', '--quiet', '--force', '--detach', 'start')
  await commit({}, 'Follow')
  await project.git('push', '--quiet', wanda.remote('site'), 'HEAD:refs/heads/follow')
  await (await mustClaim(service.admin)).report(...wholeRun())
  const opened = await wanda.post('/repos/site/changes', { source: 'follow', target: 'main' })
  assert.equal(opened.status, 201, opened.text)
  const { check: run, ...others } = await claimAll(1)
  assert.deepEqual(Object.keys(others), [])
  assert.equal(JSON.parse(JSON.stringify(run?.plan.payload)).pull_request.head.ref, 'follow')
  await run?.report(...wholeRun())
  assert.deepEqual(await statesOf(opened.body.number, 1), ['check success'])
  await close(opened.body.number, 'abandoned')
  const stranger = await eve.post('/repos/site/changes', { source: 'follow', target: 'main' })
  assert.deepEqual(await statesOf(stranger.body.number, 1), ['check waits'])
  const anonymous = await fetch(`${service.url}/r/site/changes/${stranger.body.number}`)
  assert.equal(anonymous.status, 200)
  assert.doesNotMatch(await anonymous.text(), /waiting for an approval/)
  // It is the change of a stranger, although another user has made its version.
  await commit({}, 'Follow on')
  await project.git('push', '--quiet', wanda.remote('site'), 'HEAD:refs/heads/follow')
  await (await mustClaim(service.admin)).report(...wholeRun())
  const states = await until('its version has a run', async () => {
    const found = await statesOf(stranger.body.number, 2)
    return found.length > 0 && found
  })
  assert.deepEqual(states, ['check waits'])
  await close(stranger.body.number, 'abandoned')
})

test('a stranger has runs without rights, the first ones when a user who may push approves them', async () => {
  const group = 'concurrency: { group: deploy, cancel-in-progress: true }'
  const trusted = await propose(wanda, {
    topic: 'deploy',
    workflows: { 'check.yml': check(group) },
  })
  const deploying = await claimAll(2)
  const guess = `run-name: "is it ${secret} \${{ github.event_name }}"\n${group}`
  const workflows = { 'check.yml': check(guess) }
  const number = await propose(eve, { topic: 'gift', workflows })
  const named = `is it ${secret} pull_request`
  assert.deepEqual(await statesOf(number, 1), [`${named} waits`, 'required waits'])
  assert.equal(await claim(service.admin, { waitSeconds: 0 }), undefined)
  const [waiting] = await runsOf(number, 1)
  const at = `/repos/site/workflows/${waiting.id}`
  assert.equal((await eve.post(`${at}/approve`)).body.code, 'role_insufficient')
  assert.equal((await eve.post(`${at}/rerun`, {})).body.code, 'role_insufficient')
  const form = `action="/r/site/runs/${waiting.number}/approve"`
  for (const [client, isShown] of [
    [wanda, true],
    [eve, false],
  ] as const) {
    const pages = await logIn(service.url, client.token)
    const ofChange = (await pages.get(`/r/site/changes/${number}`)).text
    const ofRun = (await pages.get(`/r/site/runs/${waiting.number}`)).text
    assert.match(ofChange, /2 runs waiting for an approval/)
    assert.match(ofRun, new RegExp(`href="/r/site/changes/${number}">Change ${number}, version 1<`))
    assert.deepEqual([ofChange.includes(form), ofRun.includes(form)], [isShown, isShown])
  }
  const approved = await wanda.post(`${at}/approve`)
  assert.deepEqual([approved.status, approved.body.status], [202, 'queued'])
  assert.equal((await wanda.post(`${at}/approve`)).status, 202)
  const { body: audit } = await service.admin.get('/audit?action=run.approved')
  assert.deepEqual(
    audit.map((entry: { actor: { username: string } }) => entry.actor.username),
    ['wanda'],
  )

  const run = await mustClaim(service.admin)
  await assertPowerless(run)
  assert.deepEqual(await statesOf(trusted, 1), ['check running', 'required running'])
  for (const one of Object.values(deploying)) await one.report(...wholeRun())
  await run.report(...wholeRun('failure'))
  assert.equal((await wanda.post(`${at}/rerun`, {})).status, 202)
  const again = await mustClaim(service.admin)
  assert.equal(again.plan.runId, run.plan.runId)
  await assertPowerless(again)

  await propose(eve, { topic: 'gift', workflows })
  assert.deepEqual(await statesOf(number, 2), [`${named} waits`, 'required waits'])
  assert.deepEqual(await statesOf(number, 1), [`${named} running`, 'required cancelled'])
  assert.match((await again.own.get(`${again.path}/orders`)).body.cancel, /^Superseded/)
  await again.report(...wholeRun('failure'))
  await close(number, 'abandoned')
  assert.deepEqual(await statesOf(number, 2), [`${named} cancelled`, 'required cancelled'])

  const many = Array.from({ length: 50 }, (_, index) => [`${index}.yml`, check()])
  const flood = await propose(eve, { topic: 'flood', workflows: Object.fromEntries(many) })
  const [refused, ...others] = await runsOf(flood, 1)
  assert.match(refused.fault, /starts at most 50 workflow files; this one has 52\.$/)
  assert.deepEqual(others, [])
})

test('a user whose change has landed needs no approval, and one who may push has all rights', async () => {
  await service.db
    .updateTable('changes')
    .set({ state: 'landed', pushId: 'by another user' })
    .where('username', '=', 'eve')
    .execute()
  await propose(eve, { topic: 'next' })
  for (const run of Object.values(await claimAll(2))) {
    await assertPowerless(run)
    await run.report(...wholeRun())
  }
  const { body } = await service.admin.post('/tokens', {
    name: 'agent',
    username: 'wanda',
    permissions: ['repo:read', 'repo:write', 'change:write'],
    refs: ['refs/for/*'],
  })
  const agent = createClient(service.url, body.token, { id: body.id, username: 'wanda' })
  await propose(agent, { topic: 'agent' })
  for (const run of Object.values(await claimAll(2))) {
    assert.deepEqual(run.plan.secrets, {})
    await run.report(...wholeRun())
  }
  await service.admin.post('/repos/site/collaborators', { username: 'eve' })
  await propose(eve, { topic: 'last' })
  const runs = await claimAll(2)
  assert.deepEqual(of(runs, 'check').plan.secrets, { DEPLOY_KEY: secret })
  for (const run of Object.values(runs)) await run.report(...wholeRun())
})

/** Asserts that a run has no secrets and changes nothing, but reads what the public can. */
async function assertPowerless(run: HeldRun): Promise<void> {
  const { plan, own, path } = run
  assert.deepEqual(plan.secrets, {})
  assert.ok(plan.identities.every(({ idTokens }) => idTokens === null))
  assert.ok(!JSON.stringify(plan).replaceAll(`is it ${secret}`, '').includes(secret))
  const job = jobOf(run)
  const isWide = (plan.files[0]?.path ?? '').endsWith('check.yml')
  const read = {
    branches: '/repos/site/branches',
    ...(isWide && { runs: '/repos/site/workflows' }),
  }
  for (const [name, at] of Object.entries(read)) assert.equal((await job.get(at)).status, 200, name)
  for (const at of ['secrets', 'collaborators', 'webhooks'])
    assert.equal((await job.get(`/repos/site/${at}`)).status, 403, at)
  const refs = '/repos/site/refs?ref=refs/heads/stolen'
  assert.equal((await job.put(refs, { target: plan.commit })).status, 403)
  const cache = new URLSearchParams({ key: 'poison', version: 'a'.repeat(64) })
  const saved = await fetch(`${service.url}${path}/caches?${cache}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${own.token}`, 'content-type': runFileContentType },
    body: 'poison',
  })
  assert.equal(saved.status, 403)
  const lookup = new URLSearchParams({ keys: 'poison', version: 'a'.repeat(64), lookup: 'true' })
  assert.equal((await own.get(`${path}/caches?${lookup}`)).status, 204)
}
