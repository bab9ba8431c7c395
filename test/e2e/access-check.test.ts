// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { permissions } from '#access/permissions.ts'
import { createProject, type Project } from '../support/git.ts'
import { type Client, createClient, type Service, startService } from '../support/service.ts'

let service: Service
let project: Project
let owner: Client
let member: Client
let agent: Client

const everything = permissions.filter((one) => one !== 'admin')

before(async () => {
  service = await startService()
  project = await createProject()
  owner = await service.client({ username: 'ada', permissions: everything })
  member = await service.client({ username: 'grace', permissions: everything })
  await owner.post('/repos', { name: 'site' })
  await owner.post('/repos/site/collaborators', { username: 'grace' })
  const { body } = await service.admin.post('/tokens', {
    name: 'agent',
    username: 'ada',
    permissions: ['repo:read', 'repo:write'],
    refs: ['refs/heads/agents/*'],
  })
  agent = createClient(service.url, body.token, { id: body.id, username: 'ada' })
  await project.git('commit', '--quiet', '--allow-empty', '--message', 'Second')
  for (const branch of ['main', 'free', 'strict', 'closed', 'tested', 'agents/one'])
    await project.git('push', '--quiet', owner.remote('site'), `HEAD:refs/heads/${branch}`)
  await project.git('push', '--quiet', owner.remote('site'), 'HEAD:refs/tags/v1')
  const protect = (path: string, rule: object) => owner.put(`/repos/site/protections/${path}`, rule)
  await protect('branches/main', {})
  await protect('branches/strict', { owners: 'fast-forward' })
  await protect('branches/closed', { owners: 'none' })
  await protect('branches/tested', { requires: ['ci.yml'] })
  await protect('tags/v*', {})
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

/** Pushes with git, and returns the words of the refusal. */
async function push(client: Client, ...refs: string[]): Promise<string> {
  return project.git('push', '--quiet', client.remote('site'), ...refs).then(
    () => '',
    ({ stderr }) => stderr,
  )
}

type Decision = { allowed: boolean; code: string | null; detail: string | null }

async function check(client: Client, body: object): Promise<Decision & { refs: Decision[] }> {
  const { status, body: answer, text } = await client.post('/repos/site/check', body)
  assert.equal(status, 200, text)
  return answer
}

const branches = ['main', 'free', 'strict', 'closed', 'agents/one', 'new']
const refs = [...branches.map((branch) => `refs/heads/${branch}`), 'refs/tags/v1']

test('what the check says of each push, git experiences', async () => {
  for (const [who, client] of Object.entries({ owner, member, agent })) {
    for (const ref of refs) {
      for (const change of ['update', 'force', 'delete'] as const) {
        const [tip = ''] = (await project.git('ls-remote', owner.remote('site'), ref)).split('\t')
        if (change !== 'update' && tip === '') continue
        const decision = await check(client, { action: 'push', refs: [{ ref, change }] })
        const parents = change === 'update' && tip !== '' ? ['-p', tip] : []
        const commit = (
          await project.git('commit-tree', 'HEAD^{tree}', ...parents, '-m', ref)
        ).trim()
        const stderr = await push(client, change === 'delete' ? `:${ref}` : `+${commit}:${ref}`)
        const message = `${who} ${change} ${ref}: ${decision.code} ${decision.detail}; ${stderr}`
        assert.equal(decision.allowed, stderr === '', message)
        const [first] = decision.refs
        assert.deepEqual([first?.allowed, first?.code], [decision.allowed, decision.code])
        if (decision.detail !== null && decision.code !== 'run_required')
          assert.ok(stderr.replaceAll(/\s+(remote: )?/g, ' ').includes(decision.detail), message)
        // There, or not there, as before; a rule may refuse that.
        const former = tip === '' ? `:${ref}` : `${tip}:${ref}`
        if (decision.allowed && (tip === '' || change === 'delete')) await push(owner, former)
      }
    }
  }
})

test('with a commit, history and runs count', async () => {
  await project.git('fetch', '--quiet', owner.remote('site'), 'strict')
  const [old, next] = (await project.git('rev-list', '--max-count=2', 'FETCH_HEAD')).split('\n')
  const of = (ref: string, commit: string | undefined) =>
    check(owner, { action: 'push', refs: [{ ref, commit }] })
  const forced = await of('strict', next)
  assert.deepEqual([forced.allowed, forced.code], [false, 'branch_protected'])
  assert.match(forced.detail ?? '', /the rule "strict": it cannot be forced/)
  assert.equal((await of('strict', old)).allowed, true)
  await push(owner, `${next}:refs/heads/behind`)
  await owner.put('/repos/site/protections/branches/behind', { owners: 'fast-forward' })
  const ahead = { ref: 'behind', change: 'force', commit: old }
  assert.equal((await check(owner, { action: 'push', refs: [ahead] })).allowed, true)
  assert.equal(await push(owner, `+${old}:refs/heads/behind`), '')
  const back = { ...ahead, commit: next }
  assert.equal((await check(owner, { action: 'push', refs: [back] })).allowed, false)
  const untested = await of('tested', old)
  assert.equal(untested.code, 'run_required')
  assert.match(untested.detail ?? '', new RegExp(`the commit ${old} needs a successful run of`))
  assert.match((await of('tested', undefined)).detail ?? '', /the commit that is pushed needs/)
  assert.match((await of('tested', 'a'.repeat(40))).detail ?? '', /the commit a{40} needs/)
})

test('a push of several refs is refused with the first, and each has its decision', async () => {
  const wanted = ['free', 'closed', 'refs/tags/v1'].map((ref) => ({ ref }))
  const { allowed, code, refs: each } = await check(member, { action: 'push', refs: wanted })
  assert.deepEqual([allowed, code], [false, 'branch_protected'])
  assert.deepEqual(
    each.map((one) => one.code),
    [null, 'branch_protected', 'tag_protected'],
  )
})

test('owners and admins ask for others, and nothing is changed', async () => {
  const { body: events } = await service.admin.get('/events?after=latest')
  assert.deepEqual(events, [])
  const before = (await service.admin.get('/audit?limit=1')).body
  const ask = (wanted: object) =>
    check(owner, { action: 'push', refs: [{ ref: 'main' }], ...wanted })
  assert.equal((await ask({ username: 'grace' })).code, 'branch_protected')
  assert.equal((await ask({ username: 'eve' })).code, 'repository_not_found')
  assert.equal((await ask({ tokenId: agent.id })).code, 'token_limited')
  assert.equal((await ask({ username: 'ada' })).allowed, true)
  const remove = await check(owner, { action: 'deleteRepository', tokenId: agent.id })
  assert.deepEqual([remove.allowed, remove.code], [false, 'permission_missing'])
  assert.deepEqual((await service.admin.get('/audit?limit=1')).body, before)
})

test('the check of a token without a role says what that of an unknown one says', async () => {
  const one = await service.client({ username: 'eve', permissions: ['repo:delete'] })
  await owner.post('/repos', { name: 'open', visibility: 'public' })
  const ask = async (action: string, tokenId: string) =>
    (await owner.post('/repos/open/check', { action, tokenId })).text
  for (const action of ['fetch', 'push', 'deleteRepository', 'checkAccess'])
    for (const tokenId of [one.id, service.admin.id])
      assert.equal(await ask(action, tokenId), await ask(action, 'unknown'), action)
  await owner.post('/repos/open/collaborators', { username: 'eve' })
  assert.match(await ask('fetch', one.id), /permission_missing/)
})

test('what cannot be checked is refused', async () => {
  const post = (client: Client, body: object) => client.post('/repos/site/check', body)
  const action = 'push'
  for (const [body, status, pattern] of [
    [{ action: 'dance' }, 400, /one of fetch, push, .*deleteRepository/],
    [{ action: 'fetch', refs: [{ ref: 'main' }] }, 400, /only to the action/],
    [{ action, refs: [{ ref: 'a..b' }] }, 400, /\/refs\/0\/ref/],
    [{ action, refs: [{ ref: 'main', commit: 'main' }] }, 400, /commit/],
    [{ action, refs: Array(101).fill({ ref: 'main' }) }, 400, /refs/],
    [{ action, username: 'grace', tokenId: agent.id }, 400, /tokenId/],
  ] as const) {
    const answer = await post(owner, body)
    assert.equal(answer.status, status, answer.text)
    assert.match(answer.text, pattern)
  }
  const missing = await post(service.admin, { action, tokenId: 'none' })
  assert.deepEqual([missing.status, missing.body.code], [404, 'token_not_found'])
  const refused = await post(member, { action, username: 'ada' })
  assert.deepEqual([refused.status, refused.body.code], [403, 'owner_required'])
  const stranger = await service.client({ username: 'eve', permissions: everything })
  assert.equal((await post(stranger, { action })).status, 404)
})
