import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toTime } from '#git/objects/commit-object.ts'
import { pushPayload } from './push-payload.ts'
import { dispatchPayload, schedulePayload } from './started-payloads.ts'
import { workflowRunPayload } from './workflow-run-payload.ts'

const about = {
  repository: {
    id: 'r1',
    name: 'site',
    ownerUsername: 'ada',
    visibility: 'private' as const,
    createdAt: 1_700_000_000_500,
    defaultBranch: 'trunk',
  },
  sender: 'grace',
  baseUrl: 'http://svc.test',
}
const zero = '0'.repeat(40)
const person = { name: 'Ada', email: 'ada@svc.test', at: '2026-01-02T03:04:05.000Z' }
const update = {
  ref: 'refs/heads/main',
  before: zero,
  after: 'a'.repeat(40),
  forced: false,
  pushId: 'p1',
}
const head = {
  id: update.after,
  treeId: 'b'.repeat(40),
  message: 'Add it',
  author: person,
  committer: person,
}
const commit = {
  id: update.after,
  tree_id: head.treeId,
  distinct: true,
  message: 'Add it',
  timestamp: person.at,
  url: `http://svc.test/repos/site/commits/${update.after}`,
  author: { name: 'Ada', email: 'ada@svc.test' },
  committer: { name: 'Ada', email: 'ada@svc.test' },
}

test('the address to compare is that of the commits, or of the push', () => {
  const pushed = { commits: [head], head }
  const before = 'c'.repeat(40)
  const compareOf = (changed: object, commits: Parameters<typeof pushPayload>[1] = pushed) =>
    pushPayload({ ...update, ...changed }, commits, about).compare
  const url = 'http://svc.test/repos/site'
  assert.equal(compareOf({ before }), `${url}/compare?base=${before}&head=${update.after}`)
  const none = { commits: [], head: undefined }
  assert.equal(compareOf({ before, after: zero }, none), `${url}/pushes/p1`)
  assert.equal(compareOf({}, none), `${url}/pushes/p1`)
  assert.equal(compareOf({ ref: 'refs/tags/v1', before }), `${url}/pushes/p1`)
  assert.equal(compareOf({ pushId: undefined }, none), url)
})

test('a push has its commits and head; files only if they are known', () => {
  const files = { added: ['a'], removed: ['r'], modified: ['m'] }
  const payload = pushPayload(update, { commits: [head], head: { ...head, files } }, about)
  assert.deepEqual([payload.commits, payload.head_commit], [[commit], { ...commit, ...files }])
  assert.equal(payload.compare, `http://svc.test/repos/site/commits?rev=${update.after}`)
  assert.deepEqual(payload.pusher, { name: 'grace' })
})

test('a push says whether its ref was created, deleted or forced', () => {
  const payloadOf = (before: string, after: string, forced: boolean) => {
    const change = { ref: update.ref, before, after, forced }
    const payload = pushPayload(change, { commits: [], head: undefined }, about)
    return [payload.created, payload.deleted, payload.forced, payload.head_commit, payload.base_ref]
  }
  const [one, two] = ['1'.repeat(40), '2'.repeat(40)]
  assert.deepEqual(payloadOf(zero, one, false), [true, false, false, null, null])
  assert.deepEqual(payloadOf(one, two, true), [false, false, true, null, null])
  assert.deepEqual(payloadOf(one, zero, false), [false, true, false, null, null])
})

test('a repository has a stable numeric id for clients that require one', () => {
  const push = pushPayload(update, { commits: [], head }, about)
  const { repository } = schedulePayload('0 0 * * *', about)
  const [pushed, other] = [Object(push.repository), Object(repository)]
  assert.ok(Number.isSafeInteger(pushed.id))
  assert.deepEqual([pushed.id, pushed.node_id], [other.id, 'r1'])
  const another = { ...about, repository: { ...about.repository, id: 'r2' } }
  assert.notEqual(Object(schedulePayload('', another).repository).id, pushed.id)
  // GitHub's push event alone has this time in seconds.
  assert.deepEqual(
    [pushed.created_at, other.created_at],
    [1_700_000_000, '2023-11-14T22:13:20.500Z'],
  )
  assert.deepEqual([pushed.full_name, pushed.default_branch], ['ada/site', 'trunk'])
})

test("a run has its state in GitHub's terms", () => {
  const run = {
    id: 'n1',
    number: 7,
    attempt: 2,
    name: 'Build',
    branch: 'main',
    commit: head.id,
    event: 'push',
    files: ['.svc/workflows/ci.yml'],
    conclusion: null,
    createdAt: 1000,
    queuedAt: 2000,
    startedAt: null,
  }
  const payloadOf = (action: 'queued' | 'running' | 'completed', more: object = {}) => {
    const payload = workflowRunPayload({ action, run: { ...run, ...more }, head, at: 4000 }, about)
    return { action: payload.action, ...Object(payload.workflow_run) }
  }
  const queued = payloadOf('queued')
  assert.deepEqual([queued.action, queued.status, queued.conclusion], ['requested', 'queued', null])
  assert.deepEqual([queued.node_id, queued.run_number, queued.run_attempt], ['n1', 7, 2])
  const times = [queued.created_at, queued.run_started_at, queued.updated_at]
  assert.deepEqual(
    times,
    [1, 2, 4].map((second) => `1970-01-01T00:00:0${second}.000Z`),
  )
  assert.deepEqual(queued.head_commit, {
    id: head.id,
    tree_id: head.treeId,
    message: 'Add it',
    timestamp: person.at,
    author: commit.author,
    committer: commit.committer,
  })
  const running = payloadOf('running', { startedAt: 3000 })
  assert.deepEqual([running.action, running.status], ['in_progress', 'in_progress'])
  assert.equal(running.run_started_at, '1970-01-01T00:00:03.000Z')
  const completed = payloadOf('completed', { startedAt: 3000, conclusion: 'timed_out' })
  assert.deepEqual([completed.status, completed.conclusion], ['completed', 'timed_out'])
})

test('the inputs of a dispatch are strings', () => {
  const { inputs } = dispatchPayload('refs/heads/main', { count: 3, dry: false, to: 'x' }, about)
  assert.deepEqual(inputs, { count: '3', dry: 'false', to: 'x' })
})

test('a commit with an invalid time has a valid one', () => {
  assert.equal(toTime('1700000000'), '2023-11-14T22:13:20.000Z')
  for (const odd of ['', 'x', '18446744073709551615']) {
    assert.equal(toTime(odd), '1970-01-01T00:00:00.000Z', odd)
  }
})
