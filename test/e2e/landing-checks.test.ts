import assert from 'node:assert/strict'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { temporaryFolder } from '../support/git.ts'
import { type Client, type Service, startService } from '../support/service.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
/** While it is there, the first git that looks for merge bases waits, once the objects of a push have been received. */
let gate: string
let service: Service
let owner: Client
let ci: Client

before(async () => {
  folder = await temporaryFolder()
  gate = join(folder.path, 'gate')
  const script = `#!/bin/sh
PATH='${process.env.PATH}'
case "$*" in
  *'rev-list --objects'*) [ -e '${gate}' ] && touch '${gate}/received' ;;
  *'merge-base --all'*) mv '${gate}/received' '${gate}/waits' 2>/dev/null && while [ -e '${gate}/waits' ]; do sleep 0.02; done ;;
esac
exec git "$@"
`
  await writeFile(join(folder.path, 'git'), script, { mode: 0o755 })
  service = await startService({ env: { PATH: [folder.path, process.env.PATH].join(delimiter) } })
  owner = await service.client({ username: 'owner', permissions: ['everything'] })
  ci = await service.client({ username: 'ci', permissions: ['everything'] })
  await owner.post('/repos', { name: 'site' })
  await owner.post('/repos/site/collaborators', { username: 'ci', role: 'write' })
  const changes = [{ path: 'a', content: 'a' }]
  await owner.post('/repos/site/commits', { branch: 'main', message: 'Begin', changes })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
})

/** An approved change for a branch of its own, with the users who have approved it and are about to land it. */
type Approved = { branch: string; path: string; rule: object; reviewer: Client; lander: Client }

/** What happens between the check of a request and the landing, and what the landing is refused with. */
type Case = { happens: (of: Approved) => Promise<unknown>; code: string; says: RegExp }

const site = '/repos/site'
const roleOf = ({ username }: Client, role: string) =>
  owner.post(`${site}/collaborators`, { username, role })
const unapproved = { code: 'approval_required', says: /needs the approval of a user.* has 0/ }

const cases: Record<string, Case> = {
  'the reviewer may only read now': {
    happens: ({ reviewer }) => roleOf(reviewer, 'read'),
    ...unapproved,
  },
  'the reviewer is no collaborator any more': {
    happens: ({ reviewer }) => owner.delete(`${site}/collaborators/${reviewer.username}`),
    ...unapproved,
  },
  'the reviewer is disabled': {
    happens: ({ reviewer }) =>
      service.admin.patch(`/users/${reviewer.username}`, { disabled: true }),
    ...unapproved,
  },
  'the reviewer requests changes': {
    happens: ({ reviewer, path }) =>
      reviewer.put(`${path}/verdict`, { verdict: 'request-changes', version: 1 }),
    code: 'approval_required',
    says: /requests changes/,
  },
  'the rule requires another approval': {
    happens: ({ branch, rule }) =>
      owner.put(`${site}/protections/branches/${branch}`, { ...rule, approvals: 2 }),
    code: 'approval_required',
    says: /needs 2 approvals .* has 1/,
  },
  'the rule closes the branch': {
    happens: ({ branch, rule }) =>
      owner.put(`${site}/protections/branches/${branch}`, { ...rule, owners: 'none' }),
    code: 'branch_protected',
    says: /protected/,
  },
  'the user who lands it may only read now': {
    happens: ({ lander }) => roleOf(lander, 'read'),
    code: 'role_insufficient',
    says: /Your role in this repository is read/,
  },
  'the token that lands it is deleted': {
    happens: ({ lander }) => service.admin.delete(`/tokens/${lander.id}`),
    code: 'token_invalid',
    says: /deleted|not valid any more/,
  },
}

async function makeApproved(branch: string, rule: object): Promise<Approved> {
  const users = ['reviewer', 'lander'].map((name) => `${name}-of-${branch}`)
  const clients: Client[] = []
  for (const username of users) {
    const client = await service.client({ username, permissions: ['everything'] })
    await roleOf(client, 'write')
    clients.push(client)
  }
  const [reviewer, lander] = clients
  assert.ok(reviewer && lander)
  await owner.put(`${site}/refs?ref=refs/heads/${branch}`, { target: 'main' })
  await owner.put(`${site}/protections/branches/${branch}`, rule)
  const changes = [{ path: 'b', content: branch }]
  const proposed = { branch, message: 'Change', changes }
  const { body } = await owner.post(`${site}/proposals`, proposed)
  const path = `${site}/changes/${body.number}`
  const { status } = await reviewer.put(`${path}/verdict`, { verdict: 'approve', version: 1 })
  assert.equal(status, 200)
  return { branch, path, rule, reviewer, lander }
}

const tipOf = async (branch: string) =>
  (await owner.get(`${site}/commits?rev=${branch}&limit=1`)).body[0].id

/**
 * Lands a change. Something happens when its approvals have been read for its push, the second time in its request, and the
 * branch is about to move.
 */
async function landWhile({ lander, path }: Approved, happens: () => Promise<unknown>) {
  await mkdir(gate)
  let isAnswered = false
  const landing = lander.post(`${path}/land`, { method: 'squash' }).finally(() => {
    isAnswered = true
  })
  try {
    const isWaiting = async () => (await readdir(gate)).includes('waits')
    await until('git to wait', async () => isAnswered || isWaiting())
    assert.equal(isAnswered, false)
    await happens()
  } finally {
    await rm(gate, { recursive: true })
  }
  return landing
}

test('what lands is checked once more when its branch moves', async () => {
  const main = await tipOf('main')
  const rule = { approvals: 1 }
  for (const [index, [name, { happens, code, says }]] of Object.entries(cases).entries()) {
    const of = await makeApproved(`direct-${index}`, rule)
    const { body } = await landWhile(of, () => happens(of))
    const { state } = (await owner.get(of.path)).body
    assert.deepEqual([body.code, state, await tipOf(of.branch)], [code, 'open', main], name)
    assert.match(body.detail, says, name)
  }
  const of = await makeApproved('undisturbed', rule)
  const { status, body } = await landWhile(of, async () => {})
  assert.deepEqual([status, body.state], [200, 'landed'])
})

test('what lands through the queue is checked once more when its branch moves', async () => {
  const requires = [{ status: 'ci' }]
  const main = await tipOf('main')
  await Promise.all(
    Object.entries(cases).map(async ([name, { happens, says }], index) => {
      const of = await makeApproved(`queued-${index}`, { approvals: 1, queue: true, requires })
      const { body: queued } = await of.lander.post(`${of.path}/land`, { method: 'squash' })
      assert.equal(queued.queued?.position, 1, JSON.stringify(queued))
      const commit = await until('its trial', async () => {
        const { body } = await owner.get(`${site}/queue`)
        const queue = body.find(({ target }: { target: string }) => target === of.branch)
        return queue?.trials[0]?.commit
      })
      await happens(of)
      await ci.post(`${site}/commits/${commit}/statuses`, { context: 'ci', state: 'success' })
      const change = await until('it to leave the queue', async () => {
        const { body } = await owner.get(of.path)
        return body.queued === null ? body : undefined
      })
      assert.deepEqual([change.state, await tipOf(of.branch)], ['open', main], name)
      assert.match(change.queueNote, says, name)
    }),
  )
})
