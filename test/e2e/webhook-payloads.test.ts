// Tags: each-store

import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { test } from 'node:test'
import { type EmitterWebhookEvent, Webhooks } from '@octokit/webhooks'
import { startComposingSite } from '../support/composing.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject } from '../support/git.ts'
import { importHistory } from '../support/history.ts'
import { startInProcess } from '../support/in-process.ts'
import { startReceiver } from '../support/receiver.ts'
import { begun, jobEnded, mustClaim, runEnded, wholeRun, wrote } from '../support/run-by-hand.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

type PushEvent = EmitterWebhookEvent<'push'>['payload']
type RunSummary = EmitterWebhookEvent<'workflow_run'>['payload']['workflow_run']
// Of each of several actions.
type KeysOf<T> = T extends unknown ? keyof T : never

const zero = '0'.repeat(40)
const idsOf = (commits: { id: string }[]) => commits.map(({ id }) => id)

test('a push has its commits with their files, the oldest first', async () => {
  await using site = await startComposingSite()
  const { project, push } = site
  const first = await project.git('rev-parse', 'HEAD')
  await push(['main'])
  const second = await project.commit('second.txt')
  await project.git('mv', 'second.txt', 'third.txt')
  const third = await project.commit('readme.txt', 'changed')
  const [body] = await push(['main'])
  assert.deepEqual(
    [body.ref, body.before, body.after, body.created, body.deleted, body.forced, body.base_ref],
    ['refs/heads/main', first, third, false, false, false, null],
  )
  assert.deepEqual(idsOf(body.commits), [second, third])
  const [, last] = body.commits
  assert.deepEqual(
    [last.added, last.removed, last.modified],
    [['third.txt'], ['second.txt'], ['readme.txt']],
  )
  assert.deepEqual([body.head_commit, body.truncated], [last, false])
  assert.deepEqual([body.pusher.name, body.sender.login], ['admin', 'admin'])
})

test("every documented field of GitHub's push event is there, except unsupported ones", async () => {
  await using site = await startComposingSite()
  const [body] = await site.push(['main'])
  const fields = ['ref', 'before', 'after', 'created', 'deleted', 'forced', 'base_ref'] as const
  const others = ['compare', 'commits', 'head_commit', 'repository', 'pusher', 'sender'] as const
  type SentField = (typeof fields)[number] | (typeof others)[number]
  type Missing = Exclude<
    keyof PushEvent,
    SentField | 'organization' | 'installation' | 'enterprise'
  >
  const none: Missing[] = []
  assert.deepEqual(
    Object.keys(body).sort(),
    [...fields, ...others, ...none, 'svc', 'truncated'].sort(),
  )
  type Commit = PushEvent['commits'][number]
  const ofCommit = ['id', 'tree_id', 'distinct', 'message', 'timestamp', 'url', 'author'] as const
  const moreOfCommit = ['committer', 'added', 'removed', 'modified'] as const
  const rest: Exclude<keyof Commit, (typeof ofCommit | typeof moreOfCommit)[number]>[] = []
  assert.deepEqual(
    Object.keys(body.commits[0]).sort(),
    [...ofCommit, ...moreOfCommit, ...rest].sort(),
  )
})

test('a receiver for GitHub accepts a push', async () => {
  await using site = await startComposingSite()
  await site.push(['main'])
  const [event] = await site.events('push')
  const { text } = await site.compose(event?.seq ?? 0)
  const webhooks = new Webhooks({ secret: 'whsec' })
  const heard: string[] = []
  webhooks.on('push', ({ payload }) => {
    heard.push(`${payload.repository.full_name} ${payload.head_commit?.message}`)
  })
  const signature = await webhooks.sign(text)
  await webhooks.verifyAndReceive({ id: 'd1', name: 'push', payload: text, signature })
  assert.deepEqual(heard, ['admin/site Add readme.txt'])
})

test('a deleted ref has no commits, and needs no git', async () => {
  await using site = await startComposingSite()
  await site.push(['main', 'main:old'])
  const gits = site.countGits()
  const [body] = await site.push([':old'])
  assert.deepEqual(
    [body.after, body.deleted, body.head_commit, body.commits, body.truncated],
    [zero, true, null, [], false],
  )
  assert.equal(site.countGits(), gits)
})

test('a new branch and a new tag have their base branch', exhaustive, async () => {
  await using site = await startComposingSite()
  const { project, push } = site
  await push(['main'])
  const tip = await project.git('rev-parse', 'HEAD')
  const [same] = await push(['main:refs/heads/a-copy'])
  assert.deepEqual(
    [same.created, same.base_ref, same.commits, same.head_commit.id],
    [true, 'refs/heads/main', [], tip],
  )
  await project.git('tag', '--annotate', '-m', 'one', 'v1')
  const [tag] = await push(['v1'])
  assert.equal(tag.after, await project.git('rev-parse', 'v1'))
  assert.deepEqual([tag.base_ref, tag.commits, tag.head_commit.id], ['refs/heads/main', [], tip])
  const next = await project.commit('next')
  const [branch] = await push(['main:refs/heads/next'])
  assert.deepEqual([branch.base_ref, idsOf(branch.commits)], [null, [next]])
})

test('forced is that of the journal', async () => {
  await using site = await startComposingSite()
  await site.push(['main'])
  const first = await site.project.git('rev-parse', 'HEAD')
  for (const forced of [true, false]) {
    const ref = 'refs/heads/main'
    const seq = await site.publishPush({ ref, before: first, after: first, forced })
    assert.equal((await site.compose(seq)).body.forced, forced)
  }
})

test('deliveries of one event differ only in svc, and share the computation', async () => {
  await using site = await startComposingSite()
  await site.push(['main'])
  await site.project.commit('b')
  await site.push(['main'])
  const [, event] = await site.events('push', { count: 2 })
  const gits = site.countGits()
  const seq = event?.seq ?? 0
  const about = { repositoryId: site.repositoryId, event: 'push', seq }
  const texts = await Promise.all(
    ['1', '2', '3'].map((number) =>
      site.composer.compose({
        ...about,
        id: `d${number}`,
        webhookId: `w${number}`,
        previousSeq: 1,
      }),
    ),
  )
  const bodies = texts.map((text) => JSON.parse(text ?? ''))
  assert.deepEqual(bodies[2].svc, {
    delivery: 'd3',
    webhook: 'w3',
    event: 'push',
    seq,
    previousSeq: 1,
    pushId: JSON.parse(event?.data ?? '').pushId,
    repositoryId: site.repositoryId,
    createdAt: event?.createdAt,
  })
  const [first, , third] = bodies.map(({ svc: _, ...rest }) => rest)
  assert.deepEqual(first, third)
  assert.equal(site.countGits(), gits)
})

test('many refs of one push with the same change are read once', exhaustive, async () => {
  await using site = await startComposingSite()
  await site.push(['main'])
  await site.project.commit('b')
  const gits = site.countGits()
  const tags = Array.from({ length: 30 }, (_, number) => `main:refs/tags/t${number}`)
  const bodies = await site.push(tags)
  assert.equal(bodies.length, 30)
  assert.ok(bodies.every(({ commits }) => commits.length === 1))
  assert.equal(site.countGits(), gits + 2)
})

test('a body has at most 1 MiB, with the newest commits', exhaustive, async () => {
  await using site = await startComposingSite()
  const { project } = site
  await project.git('checkout', '--quiet', '--orphan', 'other')
  await project.git('branch', '--delete', '--force', 'main')
  await importHistory(project.path, { commits: 3000 })
  await site.push(['main'])
  const [event] = await site.events('push')
  const { text, body } = await site.compose(event?.seq ?? 0)
  assert.ok(Buffer.byteLength(text) <= 1024 * 1024)
  assert.equal(body.truncated, true)
  assert.ok(body.commits.length > 1000, `${body.commits.length} commits`)
  assert.equal(body.commits.at(-1).message, 'Commit 3000')
  assert.deepEqual(body.head_commit, body.commits.at(-1))
})

test('secrets are masked in texts of users, and not in refs and ids', async () => {
  await using site = await startComposingSite()
  const { project, service } = site
  // The first branch becomes the default one, which payloads name.
  await site.push(['main'])
  await service.admin.put('/repos/site/secrets/PASSWORD', { value: 'hunter22' })
  await project.git('config', 'user.name', 'unused')
  await project.commit('of-hunter22.txt')
  await project.git(
    'commit',
    '--quiet',
    '--amend',
    '--author',
    'hunter22 <a@hunter22>',
    '-m',
    'is hunter22',
  )
  const [body] = await site.push(['main:refs/heads/hunter22'])
  assert.equal(body.ref, 'refs/heads/hunter22')
  const { message, author, added } = body.head_commit
  assert.deepEqual(
    [message, author, added],
    ['is ***', { name: '***', email: 'a@***' }, ['of-***.txt']],
  )
  const { ref: _, ...others } = body
  assert.ok(!JSON.stringify(others).includes('hunter22'))
})

test('nothing is sent while the secrets to mask cannot be opened', async () => {
  await using site = await startComposingSite()
  await site.service.admin.put('/repos/site/secrets/PASSWORD', { value: 'hunter22' })
  await site.service.db
    .updateTable('secrets')
    .set({ sealedValue: Buffer.from('x') })
    .execute()
  await assert.rejects(site.push(['main']), { code: 'secret_unreadable' })
  await site.service.admin.delete('/repos/site/secrets/PASSWORD')
  const [event] = await site.events('push')
  assert.equal((await site.compose(event?.seq ?? 0)).body.commits.length, 1)
})

test('missing objects are omitted from the payload', async () => {
  await using site = await startComposingSite()
  await site.push(['main'])
  const after = 'f'.repeat(40)
  const before = await site.project.git('rev-parse', 'HEAD')
  const seq = await site.publishPush({ ref: 'refs/heads/main', before, after, forced: false })
  const { body } = await site.compose(seq)
  assert.deepEqual(
    [body.after, body.commits, body.head_commit, body.truncated],
    [after, [], null, true],
  )
  await rm(site.directory, { recursive: true })
  const next = await site.publishPush({
    ref: 'refs/heads/main',
    before,
    after: before,
    forced: true,
  })
  const damaged = (await site.compose(next)).body
  assert.deepEqual([damaged.head_commit, damaged.truncated], [null, true])
})

test('there is no payload for pruned events, other repositories, or deleted ones', async () => {
  await using site = await startComposingSite()
  await site.push(['main'])
  const [event] = await site.events('push')
  const seq = event?.seq ?? 0
  const own = { id: 'd1', webhookId: 'w1', event: 'push', previousSeq: 0 }
  const of = (repositoryId: string, number: number | null) =>
    site.composer.compose({ ...own, repositoryId, seq: number })
  assert.equal(await of(site.repositoryId, seq + 1000), undefined)
  assert.equal(await of('0'.repeat(26), seq), undefined)
  assert.equal(await of(site.repositoryId, null), undefined)
  const next = await site.publishPush({
    ref: 'refs/heads/x',
    before: zero,
    after: zero,
    forced: true,
  })
  await site.service.admin.delete('/repos/site')
  assert.equal(await of(site.repositoryId, next), undefined)
})

test('a run is described in its state at each event', exhaustive, async () => {
  await using site = await startComposingSite()
  const { admin } = site.service
  const commit = await pushFiles(admin, 'site', oneStep('true'), { message: 'Build it' })
  const started = await admin.post('/repos/site/workflows', { branch: 'main' })
  const held = await mustClaim(admin)
  const isolation = { kind: 'isolation', isolation: 'none', description: 'open' } as const
  await held.report(isolation, ...wholeRun('failure', 'out\n'))
  const listed = (await admin.get('/repos/site/workflows')).body[0]
  await admin.post(`/repos/site/workflows/${started.body.id}/rerun`, {})
  const rows = await site.events('workflow', { count: 4 })
  const bodies = await Promise.all(
    rows.map(async ({ seq }) => (await site.compose(seq, 'workflow')).body),
  )
  assert.deepEqual(
    bodies.map(({ action, svc, run, workflow_run: sent }) => [
      [action, sent.status, sent.conclusion, sent.run_attempt],
      [svc.action, run.status, run.conclusion, run.attempt],
    ]),
    [
      [
        ['requested', 'queued', null, 1],
        ['queued', 'queued', null, 1],
      ],
      [
        ['in_progress', 'in_progress', null, 1],
        ['running', 'running', null, 1],
      ],
      [
        ['completed', 'completed', 'failure', 1],
        ['completed', 'completed', 'failure', 1],
      ],
      [
        ['requested', 'queued', null, 2],
        ['queued', 'queued', null, 2],
      ],
    ],
  )
  const [queued, running, completed, again] = bodies.map(({ run }) => run)
  assert.deepEqual(completed, listed)
  assert.equal(completed.result.steps[0].output, 'out\n')
  const none = { result: null, steps: [], completedAt: null, isolation: null, conclusion: null }
  const before = { ...listed, ...none, status: 'queued', startedAt: null }
  assert.deepEqual(queued, before)
  assert.deepEqual(running, { ...before, status: 'running', startedAt: listed.startedAt })
  assert.deepEqual(again, { ...before, attempt: 2, queuedAt: again.queuedAt })
  const [{ workflow_run: sent, workflow, svc }] = bodies
  assert.deepEqual(
    [sent.node_id, sent.head_sha, sent.head_commit.message, sent.head_branch, sent.path],
    [started.body.id, commit, 'Build it', 'main', '.svc/workflows/ci.yml'],
  )
  assert.deepEqual([workflow.path, svc.createdAt], [sent.path, rows[0]?.createdAt])
})

test("every supported field of a run has GitHub's format", exhaustive, async () => {
  await using site = await startComposingSite()
  const { admin } = site.service
  await pushFiles(admin, 'site', oneStep('true'))
  await admin.post('/repos/site/workflows', { branch: 'main' })
  const [event] = await site.events('workflow')
  const { body } = await site.compose(event?.seq ?? 0, 'workflow')
  // The compiler knows the names, and that none is left out.
  type Unknown =
    | 'artifacts_url'
    | 'check_suite_id'
    | 'check_suite_node_id'
    | 'check_suite_url'
    | 'jobs_url'
    | 'previous_attempt_url'
  const fields: Record<Exclude<KeysOf<RunSummary>, Unknown>, true> = {
    actor: true,
    cancel_url: true,
    conclusion: true,
    created_at: true,
    display_title: true,
    event: true,
    head_branch: true,
    head_commit: true,
    head_repository: true,
    head_sha: true,
    html_url: true,
    id: true,
    logs_url: true,
    name: true,
    node_id: true,
    path: true,
    pull_requests: true,
    referenced_workflows: true,
    repository: true,
    rerun_url: true,
    run_attempt: true,
    run_number: true,
    run_started_at: true,
    status: true,
    triggering_actor: true,
    updated_at: true,
    url: true,
    workflow_id: true,
    workflow_url: true,
  }
  assert.deepEqual(Object.keys(body.workflow_run).sort(), Object.keys(fields).sort())
})

test(
  'steps of a run that do not fit lose their output, and secrets are masked in it',
  exhaustive,
  async () => {
    await using site = await startComposingSite()
    const { admin } = site.service
    await pushFiles(admin, 'site', oneStep('true'))
    await admin.post('/repos/site/workflows', { branch: 'main' })
    const held = await mustClaim(admin)
    await held.report(...begun(), wrote('the word is hunter22\n'))
    for (let step = 1; step <= 4000; step += 500) {
      const steps = Array.from({ length: 500 }, (_, index) => step + index)
      await held.report(
        ...steps.map((number) => ({
          kind: 'step-planned' as const,
          job: 0,
          step: number,
          name: `Step ${number} ${'x'.repeat(100)}`,
        })),
      )
    }
    await held.report(...jobEnded('failure'), runEnded('failure', 'no hunter22 any more'))
    // A secret that is saved later was not masked by the runner.
    await admin.put('/repos/site/secrets/PASSWORD', { value: 'hunter22' })
    const events = await site.events('workflow', { count: 3 })
    const { text, body } = await site.compose(events.at(-1)?.seq ?? 0, 'workflow')
    assert.ok(Buffer.byteLength(text) <= 1024 * 1024)
    assert.deepEqual([body.truncated, body.run.fault], [true, 'no *** any more'])
    const { steps } = body.run.result
    assert.ok(steps.length > 1000 && steps.length < 4001, `${steps.length} steps`)
    assert.match(steps.at(-1).name, /^Step 4000 /)
    assert.ok(!text.includes('hunter22'))
  },
)

test('a ping describes its webhook without the secret', async () => {
  await using site = await startComposingSite()
  const { db } = site.service
  const row = {
    id: 'w1',
    scopeId: site.repositoryId,
    url: 'https://hooks.test/in',
    events: 'push workflow',
    receiver: 'hooks.test:443',
    createdAt: 1000,
    updatedAt: 2000,
  }
  await db.insertInto('webhooks').values(row).execute()
  const own = { id: 'd1', webhookId: 'w1', repositoryId: site.repositoryId, previousSeq: null }
  const text = await site.composer.compose({ ...own, event: 'ping', seq: null })
  const { hook, hook_id: hookId, zen, svc, ...rest } = JSON.parse(text ?? '')
  assert.deepEqual(
    [hook.type, hook.id, hook.node_id, hook.active, hook.events, hook.created_at],
    ['Repository', hookId, 'w1', true, ['push', 'workflow'], '1970-01-01T00:00:01.000Z'],
  )
  const config = { url: row.url, content_type: 'json', insecure_ssl: '0' }
  assert.deepEqual([hook.config, typeof zen], [config, 'string'])
  assert.deepEqual([rest.repository.name, rest.sender.login], ['site', 'admin'])
  assert.deepEqual([svc.event, svc.seq, svc.createdAt], ['ping', null, 1_234])
})

test('receivers get the composed body, for pushes and runs', async () => {
  await using receiver = await startReceiver()
  await using service = await startInProcess()
  const { admin } = service
  await admin.post('/repos', { name: 'site' })
  const hook = await admin.post('/repos/site/webhooks', {
    url: receiver.url,
    events: ['push', 'workflow'],
  })
  assert.equal(hook.status, 201, hook.text)
  const commit = await pushFiles(admin, 'site', oneStep('true'), { message: 'Grüße' })
  const { body: run } = await admin.post('/repos/site/workflows', { branch: 'main' })
  await receiver.untilReceived(2)
  const [push, queued] = ['push', 'workflow'].map((event) =>
    receiver.received.find(({ json }) => json.svc.event === event),
  )
  assert.deepEqual(
    [push?.json.after, push?.json.head_commit.message, push?.json.commits[0].added],
    [commit, 'Grüße', ['.svc/workflows/ci.yml']],
  )
  assert.deepEqual(
    [push?.json.repository.url, push?.json.truncated],
    [`${service.url}/repos/site`, false],
  )
  assert.deepEqual([queued?.json.action, queued?.json.run.id], ['requested', run.id])
  assert.equal(queued?.json.svc.previousSeq, push?.json.svc.seq)
})

test('every URL in a payload exists', exhaustive, async () => {
  await using receiver = await startReceiver()
  await using service = await startInProcess()
  const { admin } = service
  await admin.post('/repos', { name: 'site' })
  const { body: hook } = await admin.post('/repos/site/webhooks', {
    url: receiver.url,
    events: ['push', 'workflow'],
  })
  await pushFiles(admin, 'site', oneStep('true'), { message: 'One' })
  await pushFiles(admin, 'site', { 'a.txt': 'a' }, { message: 'Two' })
  const { body: run } = await admin.post('/repos/site/workflows', { branch: 'main' })
  await admin.post(`/repos/site/workflows/${run.id}/cancel`)
  await admin.post(`/repos/site/webhooks/${hook.id}/ping`)
  await using project = await createProject()
  await project.git('remote', 'add', 'origin', admin.remote('site'))
  await project.git('fetch', '--quiet', 'origin', 'main')
  await project.git('reset', '--quiet', '--hard', 'FETCH_HEAD')
  await project.commit('three.txt')
  await project.git('tag', '-a', '-m', 'One', 'annotated')
  await project.git('tag', 'light')
  await project.git('tag', 'blob', 'HEAD:three.txt')
  await project.git('push', '--quiet', 'origin', 'main', 'main:side', '--tags')
  await project.commit('four.txt')
  // Forced, with a tag that moves from a blob to a commit, and a deletion.
  await project.git('commit', '--quiet', '--amend', '-m', 'Other')
  await project.git('reset', '--quiet', '--hard', 'HEAD~2')
  await project.commit('five.txt')
  await project.git('push', '--quiet', '--force', 'origin', 'main', 'main:refs/tags/blob', ':side')
  await receiver.untilReceived(13)
  const sent = receiver.received.map(({ json }) => json.svc.event)
  assert.deepEqual([...new Set(sent)].sort(), ['ping', 'push', 'workflow'])
  const addresses = new Map(receiver.received.flatMap(({ json }) => addressesIn(json)))
  addresses.delete(receiver.url)
  const headers = { authorization: `Bearer ${service.adminToken}` }
  for (const [address, field] of addresses) {
    const { status } = await fetch(address, { headers })
    // Addresses that something is asked of have no other method.
    const expected = /^(cancel|rerun|ping)_url$/.test(field) ? 405 : 200
    assert.equal(status, expected, `${field}: ${address}`)
    if (field !== 'clone_url') continue
    const refs = await fetch(`${address}/info/refs?service=git-upload-pack`, { headers })
    assert.equal(refs.status, 200)
  }
  const compared = [...addresses].filter(([, field]) => field === 'compare').map(([url]) => url)
  for (const [kind, count] of [
    ['/compare?', 3],
    ['/commits?', 2],
    ['/pushes/', 2],
  ] as const)
    assert.equal(compared.filter((url) => url.includes(kind)).length, count, compared.join('\n'))
  const fields = ['compare', 'url', 'html_url', 'clone_url', 'logs_url', 'deliveries_url']
  for (const field of fields) assert.ok([...addresses.values()].includes(field), field)
})

/** The addresses in a value, each with the name of its field. */
function addressesIn(value: unknown, field = ''): [address: string, field: string][] {
  if (typeof value === 'string') return /^\w+:\/\//.test(value) ? [[value, field]] : []
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, one]) => addressesIn(one, name))
}
