import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let service: Service
let ada: Client
let bob: Client
let ci: Client
let project: Project

before(async () => {
  service = await startService({ env: { SVC_RUNNER: 'on' } })
  ada = await service.client({ username: 'ada', permissions: ['everything'] })
  bob = await service.client({ username: 'bob', permissions: ['everything'] })
  ci = await service.client({ username: 'ci', permissions: ['everything'] })
  project = await createProject()
  await ada.post('/repos', { name: 'site' })
  await project.git('push', '--quiet', ada.remote('site'), 'HEAD:main')
  for (const username of ['bob', 'ci'])
    await ada.post('/repos/site/collaborators', { username, role: 'write' })
  const requires = [{ status: 'ci', by: ['ci'] }]
  await ada.put('/repos/site/protections/branches/main', { queue: true, requires })
})

after(async () => {
  await project[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

const changeOf = (number: number) => `/repos/site/changes/${number}`

/** Proposes a file for `main`. Returns the number of the change. */
async function propose(client: Client, file: string, content = file): Promise<number> {
  await project.git('checkout', '--quiet', '--force', '--detach', 'main')
  await writeFile(join(project.path, file), `${content}\n`)
  await project.git('add', '.')
  await project.git('commit', '--quiet', '-m', `Add ${file}`)
  const { stderr } = await git(project.path, ['push', client.remote('site'), 'HEAD:refs/for/main'])
  const [, number = ''] = /Change (\d+)/.exec(stderr) ?? []
  return Number(number)
}

type Trial = { commit: string; ref: string; changes: number[]; lands: boolean }

async function queueOf() {
  const { body } = await ada.get('/repos/site/queue')
  const [queue] = body
  return queue as undefined | { changes: { number: number; state: string }[]; trials: Trial[] }
}

const seen = new Set<string>()

/** Waits for another trial of exactly some changes. */
async function trialOf(...numbers: number[]): Promise<Trial> {
  return until(`a trial of ${numbers}`, async () =>
    (await queueOf())?.trials.find(
      ({ changes, ref }) => !seen.has(ref) && `${changes}` === `${numbers}`,
    ),
  )
}

async function report({ commit, ref }: Trial, state: 'success' | 'failure'): Promise<void> {
  seen.add(ref)
  const path = `/repos/site/commits/${commit}/statuses`
  assert.equal((await ci.post(path, { context: 'ci', state })).status, 201)
}

async function stateOf(number: number): Promise<string> {
  return (await ada.get(changeOf(number))).body.state
}

const isLanded = (number: number) =>
  until(`change ${number} to land`, async () => (await stateOf(number)) === 'landed' || undefined)

test('a change lands as the very commit that was tried', async () => {
  const number = await propose(bob, 'one.txt')
  const direct = await git(project.path, ['push', ada.remote('site'), 'HEAD:main']).catch((e) => e)
  assert.match(direct.stderr, /only changes land on it/)
  const merge = { base: 'main', head: `refs/changes/${number}/1`, method: 'merge' }
  assert.equal((await ada.post('/repos/site/merges', merge)).body.code, 'branch_protected')
  const forward = await bob.post(`${changeOf(number)}/land`, { method: 'fast-forward' })
  assert.deepEqual([forward.status, forward.body.errors[0].pointer], [400, '/method'])
  const { body } = await bob.post(`${changeOf(number)}/land`, { method: 'merge' })
  assert.deepEqual([body.hasQueue, body.queued.position, body.queued.username], [true, 1, 'bob'])
  const trial = await trialOf(number)
  await project.git('fetch', '--quiet', ada.remote('site'), trial.ref)
  assert.equal(await project.git('rev-parse', 'FETCH_HEAD'), trial.commit)
  assert.equal(await stateOf(number), 'open')
  await report(trial, 'success')
  await isLanded(number)
  const { body: landed } = await ada.get(changeOf(number))
  assert.deepEqual([landed.landedCommit, landed.queued], [trial.commit, null])
  const { body: push } = await ada.get(`/repos/site/pushes/${landed.pushId}`)
  assert.deepEqual([push.via, push.actor.username], ['queue', 'bob'])
  assert.equal(push.refs[0].after, trial.commit)
})

test('batches double, and the one that breaks a batch is put out', async () => {
  const numbers: number[] = []
  for (const file of ['a.txt', 'b.txt', 'c.txt', 'd.txt', 'e.txt'])
    numbers.push(await propose(bob, file))
  const [a = 0, b = 0, c = 0, d = 0, e = 0] = numbers
  for (const number of numbers)
    assert.equal(
      (await ada.post(`${changeOf(number)}/land`, { method: 'squash' })).status,
      200,
      `${number}`,
    )
  await report(await trialOf(a), 'success')
  const two = await trialOf(b, c)
  assert.equal(two.lands, true)
  await report(two, 'failure')
  const [ofB, ofC, ofD] = [await trialOf(b), await trialOf(c), await trialOf(d, e)]
  assert.deepEqual([ofB.lands, ofC.lands, ofD.lands], [false, false, true])
  await report(ofD, 'failure')
  await report(ofC, 'failure')
  await report(ofB, 'success')
  const again = await trialOf(c)
  await report(again, 'failure')
  await until('the broken one to be put out', async () => {
    const { body } = await ada.get(changeOf(c))
    return body.queued === null || undefined
  })
  const { body } = await ada.get(changeOf(c))
  assert.equal(body.state, 'open')
  assert.match(body.queueNote, /It needs the status "ci" to be success.*ci has reported failure/)
  // Each of the others succeeds now: they have failed together by chance.
  await until('the others to land', async () => {
    for (const trial of (await queueOf())?.trials ?? [])
      if (!seen.has(trial.ref)) await report(trial, 'success')
    return (await stateOf(d)) === 'landed' && (await stateOf(e)) === 'landed' ? true : undefined
  })
  await isLanded(b)
  await until('the queue to be empty', async () => ((await queueOf()) ? undefined : true))
  const notes = await Promise.all(
    [d, e].map(async (one) => (await ada.get(changeOf(one))).body.queueNote),
  )
  assert.ok(
    notes.some((note) => /^It has failed by chance/.test(note)),
    `${notes}`,
  )
  const { body: events } = await ada.get('/events?limit=1000')
  const kinds = events.map(({ kind }: { kind: string }) => kind)
  assert.ok(kinds.includes('change.unqueued') && kinds.includes('queue.trial_started'))
})

test('a change that fails in a run is put out with the failed step and its last lines', async () => {
  await ada.post('/repos', { name: 'flows' })
  const run = '! grep -r broken . --include=*.txt'
  const workflow = `on: merge_group\nsteps: [{ name: Look, run: "echo looking; ${run}" }]\n`
  const changes = [{ path: '.svc/workflows/ci.yml', content: workflow }]
  await ada.post('/repos/flows/commits', { branch: 'main', message: 'Begin', changes })
  const rule = { queue: true, requires: ['ci.yml'] }
  await ada.put('/repos/flows/protections/branches/main', rule)
  const land = async (file: string, content: string) => {
    const commit = {
      branch: file,
      start: 'main',
      message: file,
      changes: [{ path: file, content }],
    }
    await ada.post('/repos/flows/commits', commit)
    const { body } = await ada.post('/repos/flows/changes', { source: file, target: 'main' })
    const path = `/repos/flows/changes/${body.number}`
    assert.equal((await ada.post(`${path}/land`, { method: 'squash' })).status, 200)
    return until(`${file} to leave the queue`, async () => {
      const { body: change } = await ada.get(path)
      return change.queued === null ? change : undefined
    })
  }
  const [broken, good] = await Promise.all([land('b.txt', 'broken'), land('g.txt', 'good')])
  assert.deepEqual([broken.state, good.state], ['open', 'landed'])
  assert.match(broken.queueNote, /^Run \d+ \(.*\) ended with failure; the commit does not land\./)
  assert.match(broken.queueNote, /step "Look": exit code 1\n {2}looking\n {2}\S*b\.txt:broken/)
  const { body: events } = await ada.get('/events?limit=1000')
  const [out] = events.filter(
    ({ kind, repoName }: { kind: string; repoName: string }) =>
      kind === 'change.unqueued' && repoName === 'flows',
  )
  assert.equal(out.data.reason, 'failed')
  const { body: runs } = await ada.get('/repos/flows/workflows')
  assert.ok(
    runs.some(
      (one: { commit: string; conclusion: string }) =>
        one.commit === good.landedCommit && one.conclusion === 'success',
    ),
  )
})
