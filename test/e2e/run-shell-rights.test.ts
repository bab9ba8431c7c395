// Tags: exhaustive
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Permission } from '#access/permissions.ts'
import { until } from '../support/condition.ts'
import { processesNaming } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { type Client, createClient, toAnswer } from '../support/service.ts'
import { failRun, openShell, type ShellSite, startShellSite } from '../support/shell-site.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const options = { skip: without('bubblewrap'), timeout: 300_000 }

const needed: Permission[] = ['secrets:write', 'workflow:trigger']
const ofOwner: Permission[] = [...needed, 'repo:read', 'repo:write', 'repo:delete']

let site: ShellSite
let owner: Client

before(async () => {
  if (options.skip) return
  site = await startShellSite()
  owner = await site.service.client({
    username: 'ada',
    permissions: [...ofOwner, 'collaborator:write', 'workflow:read'],
  })
})

after(() => site?.[Symbol.asyncDispose]())

const refusalOf = async (client: Client, path = '/repos/site/workflows/1/shells') => {
  const { status, body } = await client.post(path, {})
  return [status, body.code]
}

test('only an owner with both permissions opens a shell', options, async () => {
  const { service } = site
  await failRun(owner, 'site')
  for (const role of ['read', 'write', 'maintain', 'admin'])
    await owner.post('/repos/site/collaborators', { username: `a-${role}`, role })
  const as = (username: string, permissions: Permission[] = needed) =>
    service.client({ username, permissions })
  assert.deepEqual(await refusalOf(await as('a-read')), [403, 'role_insufficient'])
  for (const role of ['write', 'maintain'])
    assert.deepEqual(await refusalOf(await as(`a-${role}`)), [403, 'owner_required'], role)
  for (const permission of needed)
    assert.deepEqual(await refusalOf(await as('ada', [permission])), [403, 'permission_missing'])
  assert.deepEqual(await refusalOf(await as('eve')), [404, 'repository_not_found'])
  const token = await toAnswer(
    await fetch(`${service.url}/repos/site/workflows/1/shells`, { method: 'POST' }),
  )
  assert.equal(token.status, 401)
  const agent = await service.admin.post('/tokens', {
    ...{ name: 'agent', username: 'ada', permissions: ofOwner.slice(0, -1) },
    refs: ['refs/heads/agents/*'],
  })
  const limited = createClient(service.url, agent.body.token)
  assert.deepEqual(await refusalOf(limited), [403, 'token_limited'])
  for (const client of [await as('ada'), await as('a-admin'), service.admin]) {
    const shell = await openShell(client, 'site')
    await shell.write('exit 1\n')
    assert.deepEqual(await shell.ended(), { exitCode: 1, reason: '' })
  }
})

test(
  'another token of the owner, or an admin, cannot use a shell that is open',
  options,
  async () => {
    await failRun(owner, 'own')
    const shell = await openShell(owner, 'own')
    const others = [
      await site.service.client({ username: 'ada', permissions: needed }),
      site.service.admin,
    ]
    for (const other of others) {
      for (const answer of [
        await other.get(`${shell.path}/output`),
        await other.post(`${shell.path}/input`, { start: 0, data: 'bHMK' }),
        await other.delete(shell.path),
      ])
        assert.deepEqual([answer.status, answer.body.code], [404, 'shell_not_found'])
    }
    const elsewhere = shell.path.replace('/own/', '/site/')
    assert.equal((await owner.get(`${elsewhere}/output`)).status, 404)
    await shell.write('exit 0\n')
    await shell.ended()
  },
)

test('the tokens of a job and of a run cannot open shells', options, async () => {
  const { admin } = site.service
  await failRun(admin, 'attacked')
  await admin.patch('/repos/attacked', { runTokens: 'write' })
  // The network of the runner is off, so the step leaves its token for this test.
  const token = await tokenOfJob()
  const job = createClient(site.service.url, token)
  const { status, body } = await job.post('/repos/attacked/workflows/1/shells', {})
  assert.deepEqual([status, body.code], [403, 'permission_missing'])
  await admin.post('/repos/attacked/workflows/2/cancel')
})

/** The token of a job that runs, which its step prints without the mask. */
async function tokenOfJob(): Promise<string> {
  const { admin } = site.service
  const [text] = Object.values(
    oneStep('echo "${{ github.token }}" | sed "s/./&./g"; sleep 4714201'),
  )
  await pushFiles(admin, 'attacked', {
    '.svc/workflows/ci.yml': `permissions: write-all\n${text}`,
  })
  await admin.post('/repos/attacked/workflows', {})
  const token = await until('the step has printed', async () => {
    const { text: log } = await admin.get('/repos/attacked/workflows/2/logs')
    return /s\.v\.c\.r\.u\.n\._\.\S+/.exec(log)?.[0]
  })
  return token.replaceAll('.', '')
}

for (const [what, lose] of Object.entries({
  'its token is deleted': (client: Client) => site.service.admin.delete(`/tokens/${client.id}`),
  'its user loses the role': (client: Client) =>
    owner.post('/repos/lost/collaborators', { username: client.username, role: 'maintain' }),
  'its user is removed': (client: Client) =>
    owner.delete(`/repos/lost/collaborators/${client.username}`),
})) {
  test(`a shell ends when ${what}`, options, async () => {
    await failRun(owner, 'lost')
    const username = 'friend'
    await owner.post('/repos/lost/collaborators', { username, role: 'admin' })
    const client = await site.service.client({ username, permissions: needed })
    const shell = await openShell(client, 'lost', { run: await newestRun('lost') })
    await shell.write('echo ready; sleep 4714202\n')
    await shell.shows(/ready/)
    await until('its command runs', () => processesNaming('4714202').length > 0)
    assert.ok((await lose(client)).status < 300)
    await until('the shell has ended', () => processesNaming('4714202').length === 0)
    assert.ok([401, 403, 404].includes((await client.get(`${shell.path}/output`)).status))
    const [entry] = (await site.service.admin.get('/audit?action=run_shell.closed&limit=1')).body
    assert.match(entry.data.reason, /was deleted|Only the owner|not yours to see|no repository/)
  })
}

async function newestRun(name: string): Promise<string> {
  const [{ number }] = (await owner.get(`/repos/${name}/workflows`)).body
  return String(number)
}

test(
  'a shell ends, and its workspace is removed, when the repository is deleted',
  options,
  async () => {
    await failRun(owner, 'deleted')
    const shell = await openShell(owner, 'deleted')
    await shell.write('echo ready; sleep 4714203\n')
    await shell.shows(/ready/)
    assert.equal((await owner.delete('/repos/deleted')).status, 204)
    await until('the shell has ended', () => processesNaming('4714203').length === 0)
    assert.equal((await owner.get(`${shell.path}/output`)).status, 404)
  },
)
