// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createProject, git, type Project } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { mustClaim } from '../support/run-by-hand.ts'
import { type Answer, type Client, createClient } from '../support/service.ts'

/** The states of a change. Each is of a branch of its own, so that their tests can run together. */
const states = ['open', 'later', 'unapproved', 'approved', 'landed', 'abandoned', 'queued'] as const
type State = (typeof states)[number]

/** What a request may lead to, by a letter. */
const outcomes: Record<string, string> = {
  '+': 'success',
  '1': '401 token_required',
  n: '404 repository_not_found',
  p: '403 permission_missing',
  r: '403 role_insufficient',
  t: '403 token_limited',
  v: '403 verdict_refused',
  a: '403 approval_required',
  c: '409 change_closed',
  i: '400 invalid_request',
}

/**
 * Letters of the table whose outcome depends on the state: one outcome a state, in the order of `states`. The branch of
 * `unapproved` and `approved` requires an approval; `later` has two versions.
 */
const byState: Record<string, string> = {
  // What is open can be reviewed; what has landed cannot be closed or opened.
  o: '++++cc+',
  e: '++++c++',
  // The user who has proposed a change does not approve it.
  V: 'vvvvccv',
  // Limited tokens neither review nor land what is for another branch than theirs.
  T: 'ttttcct',
  // Landing: by users; by a run, which may push, but puts nothing into a queue; before the others, by role.
  l: '++a+cc+',
  J: '++a+cct',
  U: 'iiaiccr',
  M: 'iiaicc+',
  A: 'iiaicct',
  // To take out what is not in the queue changes nothing.
  w: '++++++r',
  W: '++++++t',
}

/**
 * Who: `none` without a token, and `anon` without one in the public repository; a `strang`er, and the `visit`or whom only
 * the visibility lets in; collaborators by role; `propos`er, a reader; `former`, who had the role write, and has approved
 * them all. Tokens: of the owner with only `repo:read`, `repo:write` or `change:write`, or for another
 * repository (`elsew`); of the writer for `refs/for/*` (`agent`) or `refs/heads/agents/*` (`branch`); of a `job`.
 */
const table = `
           none anon strang visit reader propos former writer mainta owner admin reads writes change elsew agent branch job
list       1    1    n      +     +      +      n      +      +      +     +     +     p      p      n     +     +      +
get        1    1    n      +     +      +      n      +      +      +     +     +     p      p      n     +     +      +
diff       1    1    n      +     +      +      n      +      +      +     +     +     p      p      n     +     +      +
comments   1    1    n      +     +      +      n      +      +      +     +     +     p      p      n     +     +      +
queue      1    1    n      +     +      +      n      +      +      +     +     +     p      p      n     +     +      +
fetch      1    +    n      +     +      +      n      +      +      +     +     +     p      p      n     +     +      +
push       1    1    n      +     +      +      n      +      +      +     +     p     +      p      n     +     t      +
propose    1    1    n      +     +      +      n      +      +      +     +     p     p      p      n     +     +      p
commit     1    1    n      +     +      +      n      +      +      +     +     p     p      p      n     +     t      +
retitle    1    1    n      r     r      +      n      +      +      +     +     p     p      p      n     t     t      p
abandon    1    1    n      r     r      e      n      e      e      e     e     p     p      p      n     t     t      p
reopen     1    1    n      r     r      e      n      e      e      e     e     p     p      p      n     t     t      p
comment    1    1    n      +     +      +      n      +      +      +     +     p     p      p      n     +     +      p
amend      1    1    n      r     +      r      n      r      r      r     r     p     p      p      n     r     r      p
resolve    1    1    n      r     +      +      n      +      +      +     +     p     p      p      n     +     +      p
approve    1    1    n      o     o      V      n      o      o      o     o     p     p      p      n     t     t      p
retract    1    1    n      o     o      o      n      o      o      o     o     p     p      p      n     t     t      p
land       1    1    n      r     r      r      n      l      l      l     l     p     p      p      n     T     T      J
urgent     1    1    n      r     r      r      n      U      M      M     M     p     p      p      n     T     T      A
withdraw   1    1    n      w     w      +      n      +      +      +     +     p     p      p      n     W     W      p
start      1    1    n      r     r      r      n      +      +      +     +     p     p      p      n     +     +      t
`

/** Actions that are not about a change in a state. */
const withoutState = [
  'list',
  'diff',
  'comments',
  'queue',
  'fetch',
  'push',
  'propose',
  'commit',
  'amend',
  'start',
]

type Cell = { who: string; action: string; expected: string }

function cellsOf(text: string): Cell[] {
  const [head = '', ...rows] = text.trim().split('\n')
  const callers = head.trim().split(/ +/)
  return rows.flatMap((row) => {
    const [action = '', ...letters] = row.split(/ +/)
    assert.equal(letters.length, callers.length, action)
    return letters.map((letter, index) => ({
      ...{ who: callers[index] ?? '', action },
      expected: byState[letter] ?? letter.repeat(states.length),
    }))
  })
}

let service: InProcess
let project: Project
let owner: Client
let judge: Client
const callers = new Map<string, Client>()
/** What the requests are about. `site` is private, `open` is public. */
type Target = { name: 'site' | 'open'; state: State; at: string; path: string; number: number } & {
  /** A comment of the reader. */
  comment: string
  /** A run that waits for an approval. */
  runId: string
}
const targets: Target[] = []

function callerOf(who: string): Client {
  const client = callers.get(who)
  assert.ok(client, who)
  return client
}

const repositoryOf = (who: string) => (who === 'anon' || who === 'visit' ? 'open' : 'site')
const ok = (answer: Answer): Answer => {
  assert.ok(answer.status < 300, answer.text)
  return answer
}

before(async () => {
  service = await startInProcess()
  project = await createProject()
  const { admin } = service
  const client = (username: string) => service.client({ username, permissions: ['everything'] })
  owner = await client('owner')
  judge = await client('judge')
  const names = ['reader', 'propos', 'former', 'writer', 'mainta', 'strang', 'visit']
  for (const name of names) callers.set(name, await client(name))
  const roles = { reader: 'read', propos: 'read', former: 'write', writer: 'write' }
  for (const name of ['site', 'open'] as const) {
    ok(await owner.post('/repos', { name, visibility: name === 'open' ? 'public' : 'private' }))
    for (const [username, role] of Object.entries({ ...roles, mainta: 'maintain', judge: 'write' }))
      ok(await owner.post(`/repos/${name}/collaborators`, { username, role }))
    targets.push(...(await makeChanges(name)))
    ok(await owner.delete(`/repos/${name}/collaborators/former`))
  }
  ok(await owner.post('/repos', { name: 'elsewhere' }))
  const limited = async (name: string, wanted: object) => {
    const { body } = ok(await admin.post('/tokens', { name, ...wanted }))
    callers.set(name, createClient(service.url, body.token, { id: body.id, username: name }))
  }
  const pushing = ['repo:read', 'repo:write', 'change:write', 'workflow:trigger']
  await limited('reads', { username: 'owner', permissions: ['repo:read'] })
  await limited('writes', { username: 'owner', permissions: ['repo:write'] })
  await limited('change', { username: 'owner', permissions: ['change:write'] })
  await limited('elsew', { username: 'owner', permissions: pushing, repositories: ['elsewhere'] })
  await limited('agent', { username: 'writer', permissions: pushing, refs: ['refs/for/*'] })
  const refs = ['refs/heads/agents/*']
  await limited('branch', { username: 'writer', permissions: pushing, refs })
  for (const name of ['none', 'anon']) callers.set(name, createClient(service.url, ''))
  const others = { owner, admin, job: await startJob() }
  for (const [name, one] of Object.entries(others)) callers.set(name, one)
})

after(async () => {
  await project[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
})

/** The token of a job that has all rights that a job can have. */
async function startJob(): Promise<Client> {
  ok(await owner.patch('/repos/site', { runTokens: 'write' }))
  const text = 'on: push\npermissions: { contents: write, actions: write }\nsteps: [{ run: x }]\n'
  await commit('/repos/site', 'jobs', '.svc/workflows/job.yml', text)
  const { plan } = await mustClaim(service.admin)
  return createClient(service.url, plan.identities[0]?.token ?? '')
}

async function commit(at: string, branch: string, path: string, content: string): Promise<void> {
  const start = branch === 'main' ? undefined : 'main'
  const made = { branch, start, message: 'Add a file', changes: [{ path, content }] }
  ok(await owner.post(`${at}/commits`, made))
}

/** Makes a change in each state. */
async function makeChanges(name: Target['name']): Promise<Target[]> {
  const at = `/repos/${name}`
  const [propos, reader, former] = ['propos', 'reader', 'former'].map(callerOf)
  assert.ok(propos && reader && former)
  await commit(at, 'main', 'a', 'a')
  await commit(at, 'topic', 'b', 'b')
  const workflow = 'on: pull_request\nsteps: [{ run: x }]\n'
  await commit(at, 'runs', '.svc/workflows/check.yml', workflow)
  const propose = async (branch: string) => {
    const changes = [{ path: branch, content: 'x' }]
    const proposed = await propos.post(`${at}/proposals`, { branch, message: 'Change', changes })
    return ok(proposed).body.number
  }
  const runs = await propose('runs')
  const [{ id: runId }] = (await owner.get(`${at}/workflows?branch=refs/changes/${runs}/1`)).body
  const all: Target[] = []
  for (const state of states) {
    ok(await owner.put(`${at}/refs?ref=refs/heads/${state}`, { target: 'main' }))
    const number = await propose(state)
    const path = `${at}/changes/${number}`
    const { body } = ok(await reader.post(`${path}/comments`, { text: 'Why?' }))
    ok(await former.put(`${path}/verdict`, { verdict: 'approve', version: 1 }))
    const target = { name, state, at, path, number, comment: body.id, runId }
    await bringTo[state]?.(target)
    all.push(target)
  }
  return all
}

const protect = ({ at, state }: Target, rule: object) =>
  owner.put(`${at}/protections/branches/${state}`, rule)
const land = ({ path }: Target) => owner.post(`${path}/land`, { method: 'merge' })

/** Makes of an open change one in another state. */
const bringTo: Partial<Record<State, (target: Target) => Promise<void>>> = {
  async later({ name, number }) {
    const remote = callerOf('propos').remote(name)
    await project.git('fetch', '--quiet', remote, `main:${name}-main`, `refs/changes/${number}/1`)
    const base = `${name}-main`
    const next = await project.git('commit-tree', '-p', base, '-m', 'Again', 'FETCH_HEAD^{tree}')
    const topic = ['-o', `topic=${number}`]
    await project.git('push', '--quiet', ...topic, remote, `${next}:refs/for/later`)
  },
  async unapproved(target) {
    ok(await protect(target, { approvals: 1 }))
  },
  async approved(target) {
    ok(await protect(target, { approvals: 1 }))
    ok(await judging('approve')(judge, target))
  },
  async landed(target) {
    ok(await land(target))
  },
  async abandoned({ path }) {
    ok(await owner.patch(path, { state: 'abandoned' }))
  },
  async queued(target) {
    ok(await protect(target, { queue: true, requires: [{ status: 'ci' }] }))
    ok(await land(target))
  },
}

/** Brings a change, given by its present details, back into its state. */
async function restore(target: Target, change: Answer['body']): Promise<void> {
  const { at, path, state } = target
  if (change.state === 'landed' && state !== 'landed')
    ok(await owner.post(`${at}/pushes/${change.pushId}/undo`))
  if (state === 'queued') ok(await owner.delete(`${path}/land`))
  if (state === 'abandoned') ok(await owner.patch(path, { state }))
  else if (change.state === 'abandoned') ok(await owner.patch(path, { state: 'open' }))
  if (state === 'queued') ok(await land(target))
}

type Action<T = Answer | string> = (client: Client, target: Target) => Promise<T>

const reading =
  (toPath: (target: Target) => string): Action =>
  (client, target) =>
    client.get(toPath(target))
const editing =
  (body: object): Action =>
  (client, { path }) =>
    client.patch(path, body)
const judging =
  (verdict: string): Action<Answer> =>
  (client, { path, state }) =>
    client.put(`${path}/verdict`, { verdict, version: state === 'later' ? 2 : 1 })

const actions: Record<string, Action> = {
  list: reading(({ at }) => `${at}/changes`),
  get: reading(({ path }) => path),
  diff: reading(({ path }) => `${path}/diff?from=1&to=1`),
  comments: reading(({ path }) => `${path}/comments`),
  queue: reading(({ at }) => `${at}/queue`),
  fetch: (client, { name, number }) =>
    byGit('fetch', '--quiet', client.remote(name), `refs/changes/${number}/1`),
  async push(client, { name }) {
    const base = `${name}-main`
    const { username } = client
    const made = await project.git('commit-tree', '-p', base, '-m', username, `${base}^{tree}`)
    return byGit('push', client.remote(name), `${made}:refs/for/main`)
  },
  propose: (client, { at }) => client.post(`${at}/changes`, { source: 'topic', target: 'main' }),
  commit(client, { at }) {
    const changes = [{ path: 'made', content: client.username }]
    return client.post(`${at}/proposals`, { branch: 'main', message: 'Make', changes })
  },
  retitle: editing({ title: 'Another title' }),
  abandon: editing({ state: 'abandoned' }),
  reopen: editing({ state: 'open' }),
  comment: (client, { path }) => client.post(`${path}/comments`, { text: 'Indeed.' }),
  amend: (client, { path, comment }) =>
    client.patch(`${path}/comments/${comment}`, { text: 'Why not?' }),
  resolve: (client, { path, comment }) =>
    client.patch(`${path}/comments/${comment}`, { resolved: true }),
  approve: judging('approve'),
  retract: judging('none'),
  land: (client, { path }) => client.post(`${path}/land`, { method: 'merge' }),
  urgent: (client, { path }) => client.post(`${path}/land`, { method: 'merge', urgent: true }),
  withdraw: (client, { path }) => client.delete(`${path}/land`),
  start: (client, { at, runId }) => client.post(`${at}/workflows/${runId}/approve`),
}

/** What git, or the service by git, says of a refusal. */
const refusals: Record<string, RegExp> = {
  '1': /could not read Username|Authentication failed/,
  n: /not found/,
  p: /requires the permission|returned error: 403/,
  t: /may not change/,
}

async function byGit(...words: string[]): Promise<string> {
  const { stderr } = await git(project.path, words).then(
    () => ({ stderr: '' }),
    (error) => error,
  )
  if (stderr === '') return '+'
  return Object.keys(refusals).find((letter) => refusals[letter]?.test(stderr)) ?? stderr
}

/** Does an action, and undoes it; its outcome as a letter. */
async function attempt(who: string, action: string, target: Target): Promise<string> {
  const client = callerOf(who)
  const answer = await actions[action]?.(client, target)
  assert.ok(answer !== undefined, action)
  if (typeof answer === 'string') return answer
  if (answer.status >= 300) {
    const outcome = `${answer.status} ${answer.body?.code}`
    return Object.keys(outcomes).find((letter) => outcomes[letter] === outcome) ?? outcome
  }
  if (action === 'approve') await judging('none')(client, target)
  if (action === 'propose' || action === 'commit')
    ok(await owner.patch(`${target.at}/changes/${answer.body.number}`, { state: 'abandoned' }))
  if (['abandon', 'reopen', 'land', 'urgent', 'withdraw'].includes(action))
    await restore(target, answer.body)
  return '+'
}

const cells = cellsOf(table)

describe('the rights of changes', { concurrency: states.length }, () => {
  for (const [index, state] of states.entries())
    test(`each caller may do what the table says with a change that is ${state}`, async () => {
      const wrong: string[] = []
      for (const { who, action, expected } of cells) {
        if (withoutState.includes(action) && index > 0) continue
        const name = repositoryOf(who)
        const target = targets.find((one) => one.name === name && one.state === state)
        assert.ok(target)
        const got = await attempt(who, action, target)
        if (got !== expected[index])
          wrong.push(`${action} by ${who}: ${got}, not ${expected[index]}`)
      }
      assert.deepEqual(wrong, [])
    })
})
