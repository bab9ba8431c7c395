import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { permissions } from '#access/permissions.ts'
import { mcpTools } from '#api/mcp/mcp-tools.ts'
import { namespaceIn } from '#base/repository-name.ts'
import { newTokenString } from '#base/token-string.ts'
import { loggedIn } from '../support/client-home.ts'
import { runSvc, startSvc } from '../support/command.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { freePort } from '../support/free-port.ts'
import {
  type Agent,
  connectAgent,
  connectStdio,
  type TransportKind,
  transports,
} from '../support/mcp.ts'
import { without } from '../support/programs.ts'
import { mustClaim } from '../support/run-by-hand.ts'
import { archiveOf, put } from '../support/run-files.ts'
import { type Client, createClient, type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const everything = permissions.filter((permission) => permission !== 'admin')

type Scene = { agent: Agent; stranger: Agent; owner: Client; name: string }

/** For each tool a call that succeeds, and one that is refused, with its code over HTTP. */
type Trial = {
  succeed: (scene: Scene) => Promise<unknown>
  refuse: (scene: Scene) => Promise<string>
  code: string
}

/** Makes a run that has an artifact and a cache; its id. */
async function makeFiles(scene: Scene): Promise<string> {
  const id = await startRun(scene)
  const { owner } = scene
  let run = await mustClaim(owner)
  while (run.plan.runId !== id) run = await mustClaim(owner)
  for (const path of ['artifacts?name=build', 'caches?key=deps&version=v1'])
    assert.ok((await put(run, path, archiveOf('a', 'a'))).status < 300)
  return id
}

async function startRun({ agent, name }: Scene): Promise<string> {
  const { id } = await agent.use('start_run', { repository: name, files: ['ci.yml'] })
  return id
}

let proposed = 0

/** Proposes a change of a new branch. */
async function proposeChange({
  agent,
  name,
}: Scene): Promise<{ repository: string; change: string }> {
  const source = `topic-${++proposed}`
  const changes = [{ path: `${source}.txt`, content: source }]
  const commit = { repository: name, branch: source, start: 'main', message: source, changes }
  await agent.use('create_commit', commit)
  const given = { repository: name, source, target: 'main' }
  return { repository: name, change: String((await agent.use('propose_change', given)).number) }
}

const hidden = 'repository_not_found'
const trials: Record<string, Trial> = {
  list_repositories: {
    async succeed({ agent, name }) {
      const listed = await agent.use('list_repositories', { limit: 1000 })
      assert.ok(listed.some((one: { name: string }) => one.name === name))
    },
    refuse: ({ agent }) => agent.refusal('list_repositories', { limit: 0 }),
    code: 'invalid_request',
  },
  get_repository: {
    async succeed({ agent, name }) {
      assert.equal((await agent.use('get_repository', { repository: name })).name, name)
    },
    refuse: ({ stranger, name }) => stranger.refusal('get_repository', { repository: name }),
    code: hidden,
  },
  create_repository: {
    succeed: ({ agent, name }) => agent.use('create_repository', { name: `${name}-new` }),
    refuse: ({ agent, name }) => agent.refusal('create_repository', { name }),
    code: 'repository_name_taken',
  },
  blame: {
    async succeed({ agent, name }) {
      const given = { repository: name, path: '.svc/workflows/ci.yml', start: 2, end: 3 }
      const { ranges, commits } = await agent.use('blame', given)
      assert.deepEqual([ranges[0].start, ranges[0].lines[0]], [2, '  - name: Only'])
      assert.equal(commits[0].summary, 'Files')
    },
    refuse: ({ agent, name }) => agent.refusal('blame', { repository: name, path: '.svc' }),
    code: 'path_not_found',
  },
  search_code: {
    async succeed({ agent, name }) {
      const { matches, isComplete } = await agent.use('search_code', {
        repository: name,
        q: 'Only',
      })
      assert.deepEqual([matches[0].path, isComplete], ['.svc/workflows/ci.yml', true])
    },
    refuse: ({ stranger, name }) => stranger.refusal('search_code', { repository: name, q: 'x' }),
    code: hidden,
  },
  check_access: {
    async succeed({ agent, name }) {
      const given = { repository: name, action: 'push', refs: [{ ref: 'main' }] }
      assert.equal((await agent.use('check_access', given)).allowed, true)
    },
    refuse: ({ stranger, name }) =>
      stranger.refusal('check_access', { repository: name, action: 'push' }),
    code: hidden,
  },
  list_commits: {
    async succeed({ agent, name }) {
      const [newest] = await agent.use('list_commits', { repository: name, rev: 'main' })
      assert.match(newest.id, /^[0-9a-f]{40}$/)
    },
    refuse: ({ agent, name }) => agent.refusal('list_commits', { repository: name, rev: 'none' }),
    code: 'revision_not_found',
  },
  get_commit: {
    async succeed({ agent, name }) {
      const given = { repository: name, commit: 'main', diff: true }
      const { diff } = await agent.use('get_commit', given)
      assert.ok(diff.files.length > 0)
    },
    refuse: ({ stranger, name }) =>
      stranger.refusal('get_commit', { repository: name, commit: 'main' }),
    code: hidden,
  },
  compare: {
    async succeed({ agent, name }) {
      const given = { repository: name, base: 'main', head: 'main' }
      assert.equal((await agent.use('compare', given)).status, 'identical')
    },
    refuse: ({ agent, name }) => agent.refusal('compare', { repository: name, base: 'none' }),
    code: 'revision_not_found',
  },
  create_commit: {
    async succeed({ agent, name }) {
      const changes = [{ path: 'notes.md', content: 'Remember' }]
      const given = { repository: name, branch: 'notes', start: 'main', message: 'Note', changes }
      assert.equal((await agent.use('create_commit', given)).branch, 'notes')
    },
    refuse: ({ agent, name }) =>
      agent.refusal('create_commit', {
        ...{ repository: name, branch: 'notes', message: 'Note' },
        changes: [{ path: 'none', delete: true }],
      }),
    code: 'path_absent',
  },
  create_merge: {
    async succeed({ agent, name }) {
      const given = { repository: name, base: 'notes', head: 'main', method: 'merge' }
      assert.equal((await agent.use('create_merge', given)).merged, false)
    },
    refuse: ({ agent, name }) =>
      agent.refusal('create_merge', {
        ...{ repository: name, base: 'notes', head: 'none', method: 'merge' },
      }),
    code: 'ref_not_found',
  },
  set_ref: {
    async succeed({ agent, name }) {
      const given = { repository: name, ref: 'refs/tags/noted', target: 'notes' }
      assert.equal((await agent.use('set_ref', given)).type, 'commit')
    },
    refuse: ({ agent, name }) =>
      agent.refusal('set_ref', { repository: name, ref: 'refs/tags/noted', target: 'main' }),
    code: 'not_fast_forward',
  },
  delete_ref: {
    succeed: ({ agent, name }) =>
      agent.call('delete_ref', { repository: name, ref: 'refs/tags/noted' }),
    refuse: ({ agent, name }) =>
      agent.refusal('delete_ref', { repository: name, ref: 'refs/tags/noted' }),
    code: 'ref_absent',
  },
  list_branches: {
    async succeed({ agent, name }) {
      const branches = await agent.use('list_branches', { repository: name })
      assert.ok(branches.some((one: { name: string }) => one.name === 'main'))
    },
    refuse: ({ stranger, name }) => stranger.refusal('list_branches', { repository: name }),
    code: hidden,
  },
  list_files: {
    async succeed({ agent, name }) {
      const given = { repository: name, path: '.svc/workflows' }
      assert.equal((await agent.use('list_files', given)).entries[0].name, 'ci.yml')
    },
    refuse: ({ agent, name }) => agent.refusal('list_files', { repository: name, path: 'none' }),
    code: 'path_not_found',
  },
  read_file: {
    async succeed({ agent, name }) {
      const given = { repository: name, path: '.svc/workflows/ci.yml' }
      assert.match((await agent.use('read_file', given)).content, /steps/)
    },
    refuse: ({ agent, name }) =>
      agent.refusal('read_file', { repository: name, path: 'README.md', rev: 'none' }),
    code: 'revision_not_found',
  },
  list_pushes: {
    async succeed({ agent, name }) {
      const pushes = await agent.use('list_pushes', { repository: name })
      assert.equal(pushes.at(-1).refs[0].ref, 'refs/heads/main')
    },
    refuse: ({ stranger, name }) => stranger.refusal('list_pushes', { repository: name }),
    code: hidden,
  },
  undo_push: {
    async succeed({ agent, owner, name }) {
      await pushFiles(owner, name, { mistake: '' }, { branch: 'mistake' })
      const [{ id }] = await agent.use('list_pushes', { repository: name, limit: 1 })
      const undone = await agent.use('undo_push', { repository: name, push: id })
      assert.deepEqual([undone.via, undone.undoes], ['undo', id])
    },
    refuse: ({ agent, name }) => agent.refusal('undo_push', { repository: name, push: 'none' }),
    code: 'push_not_found',
  },
  list_events: {
    async succeed({ agent, name }) {
      const given = { repository: name, kind: 'push' }
      assert.equal((await agent.use('list_events', given))[0].repoName, name)
    },
    refuse: ({ stranger, name }) => stranger.refusal('list_events', { repository: name }),
    code: hidden,
  },
  check_workflows: {
    async succeed({ agent, name }) {
      const contents = [{ path: 'x.yml', text: 'steps: []' }]
      const checked = await agent.use('check_workflows', { repository: name, contents })
      assert.equal(checked.valid, false)
    },
    refuse: ({ stranger, name }) => stranger.refusal('check_workflows', { repository: name }),
    code: hidden,
  },
  start_run: {
    succeed: startRun,
    refuse: ({ agent, name }) =>
      agent.refusal('start_run', { repository: name, files: ['none.yml'] }),
    code: 'workflow_not_found',
  },
  list_runs: {
    async succeed(scene) {
      const id = await startRun(scene)
      const [newest] = await scene.agent.use('list_runs', { repository: scene.name, limit: 1 })
      assert.equal(newest.id, id)
    },
    refuse: ({ stranger, name }) => stranger.refusal('list_runs', { repository: name }),
    code: hidden,
  },
  get_run: {
    async succeed(scene) {
      const given = { repository: scene.name, run: await startRun(scene), wait: 0 }
      assert.equal((await scene.agent.use('get_run', given)).status, 'queued')
    },
    refuse: ({ agent, name }) => agent.refusal('get_run', { repository: name, run: 'none' }),
    code: 'run_not_found',
  },
  get_run_log: {
    async succeed(scene) {
      const given = { repository: scene.name, run: await startRun(scene) }
      assert.equal((await scene.agent.call('get_run_log', given)).isError, false)
      const rest = await scene.agent.call('get_run_log', { ...given, offset: 0 })
      assert.equal(rest.isError, false)
    },
    refuse: ({ agent, name }) =>
      agent.refusal('get_run_log', { repository: name, run: 'none', follow: true }),
    code: 'invalid_request',
  },
  cancel_run: {
    async succeed(scene) {
      const given = { repository: scene.name, run: await startRun(scene) }
      assert.equal((await scene.agent.use('cancel_run', given)).status, 'completed')
      assert.match(await scene.agent.refusal('cancel_run', given), /run_completed|completed/)
    },
    refuse: ({ stranger, name }) =>
      stranger.refusal('cancel_run', { repository: name, run: 'none' }),
    code: hidden,
  },
  rerun_run: {
    async succeed(scene) {
      const given = { repository: scene.name, run: await startRun(scene) }
      await scene.agent.use('cancel_run', given)
      assert.equal((await scene.agent.use('rerun_run', given)).status, 'queued')
    },
    async refuse(scene) {
      const given = { repository: scene.name, run: await startRun(scene) }
      return scene.agent.refusal('rerun_run', given)
    },
    code: 'run_not_completed',
  },
  list_artifacts: {
    async succeed(scene) {
      const run = await makeFiles(scene)
      const [artifact] = await scene.agent.use('list_artifacts', { repository: scene.name, run })
      assert.equal(artifact.name, 'build')
    },
    refuse: ({ agent, name }) => agent.refusal('list_artifacts', { repository: name, run: 'none' }),
    code: 'run_not_found',
  },
  delete_artifact: {
    async succeed(scene) {
      const given = { repository: scene.name, run: await makeFiles(scene) }
      const deleted = await scene.agent.call('delete_artifact', { ...given, artifact: 'build' })
      assert.equal(deleted.text, 'Done.')
      assert.deepEqual(await scene.agent.use('list_artifacts', given), [])
    },
    async refuse(scene) {
      const given = { repository: scene.name, run: await startRun(scene), artifact: 'none' }
      return scene.agent.refusal('delete_artifact', given)
    },
    code: 'artifact_not_found',
  },
  list_statuses: {
    async succeed({ agent, name }) {
      const { id } = await agent.use('get_commit', { repository: name, commit: 'main' })
      await agent.use('list_statuses', { repository: name, commit: id })
    },
    refuse: ({ agent, name }) =>
      agent.refusal('list_statuses', { repository: name, commit: 'main' }),
    code: 'revision_not_found',
  },
  report_status: {
    async succeed({ agent, name }) {
      const { id } = await agent.use('get_commit', { repository: name, commit: 'main' })
      const given = { repository: name, commit: id }
      await agent.use('report_status', { ...given, context: 'lint', state: 'success' })
      const [{ context, state }] = await agent.use('list_statuses', given)
      assert.deepEqual([context, state], ['lint', 'success'])
    },
    refuse: ({ agent, name }) =>
      agent.refusal('report_status', {
        ...{ repository: name, commit: 'main', context: 'lint', state: 'success' },
      }),
    code: 'revision_not_found',
  },
  list_changes: {
    async succeed(scene) {
      const { change } = await proposeChange(scene)
      const [newest] = await scene.agent.use('list_changes', { repository: scene.name })
      assert.equal(String(newest.number), change)
    },
    refuse: ({ stranger, name }) => stranger.refusal('list_changes', { repository: name }),
    code: hidden,
  },
  get_change: {
    async succeed(scene) {
      const given = await proposeChange(scene)
      await scene.agent.use('get_change', { ...given })
    },
    refuse: ({ agent, name }) => agent.refusal('get_change', { repository: name, change: '999' }),
    code: 'change_not_found',
  },
  propose_change: {
    succeed: async (scene) => void (await proposeChange(scene)),
    refuse: ({ agent, name }) =>
      agent.refusal('propose_change', { repository: name, source: 'none', target: 'main' }),
    code: 'ref_not_found',
  },
  update_change: {
    async succeed(scene) {
      const given = await proposeChange(scene)
      await scene.agent.use('update_change', { ...given, title: 'Another' })
    },
    refuse: ({ agent, name }) =>
      agent.refusal('update_change', { repository: name, change: '999', title: 'Another' }),
    code: 'change_not_found',
  },
  list_change_comments: {
    async succeed(scene) {
      const given = await proposeChange(scene)
      await scene.agent.use('list_change_comments', { ...given })
    },
    refuse: ({ agent, name }) =>
      agent.refusal('list_change_comments', { repository: name, change: '999' }),
    code: 'change_not_found',
  },
  comment_on_change: {
    async succeed(scene) {
      const given = await proposeChange(scene)
      await scene.agent.use('comment_on_change', { ...given, text: 'Why?' })
    },
    refuse: ({ agent, name }) =>
      agent.refusal('comment_on_change', { repository: name, change: '999', text: 'Why?' }),
    code: 'change_not_found',
  },
  update_change_comment: {
    async succeed(scene) {
      const given = await proposeChange(scene)
      const { id: comment } = await scene.agent.use('comment_on_change', { ...given, text: 'Why?' })
      await scene.agent.use('update_change_comment', { ...given, comment, resolved: true })
    },
    async refuse(scene) {
      const given = await proposeChange(scene)
      return scene.agent.refusal('update_change_comment', { ...given, comment: 'x', text: 'y' })
    },
    code: 'comment_not_found',
  },
  judge_change: {
    async succeed(scene) {
      const given = await proposeChange(scene)
      await scene.agent.use('judge_change', { ...given, verdict: 'none', version: 1 })
    },
    refuse: ({ agent, name }) =>
      agent.refusal('judge_change', {
        repository: name,
        change: '999',
        verdict: 'none',
        version: 1,
      }),
    code: 'change_not_found',
  },
  land_change: {
    async succeed(scene) {
      const given = await proposeChange(scene)
      await scene.agent.use('land_change', { ...given, method: 'squash' })
    },
    refuse: ({ agent, name }) =>
      agent.refusal('land_change', { repository: name, change: '999', method: 'squash' }),
    code: 'change_not_found',
  },
  list_queue: {
    async succeed(scene) {
      assert.deepEqual(await scene.agent.use('list_queue', { repository: scene.name }), [])
    },
    refuse: ({ agent }) => agent.refusal('list_queue', { repository: 'absent' }),
    code: 'repository_not_found',
  },
  withdraw_change: {
    async succeed(scene) {
      await scene.agent.use('withdraw_change', await proposeChange(scene))
    },
    refuse: ({ agent, name }) =>
      agent.refusal('withdraw_change', { repository: name, change: '999' }),
    code: 'change_not_found',
  },
  list_caches: {
    async succeed(scene) {
      await makeFiles(scene)
      const [cache] = await scene.agent.use('list_caches', { repository: scene.name })
      assert.equal(cache.key, 'deps')
    },
    refuse: ({ stranger, name }) => stranger.refusal('list_caches', { repository: name }),
    code: hidden,
  },
  delete_cache: {
    async succeed(scene) {
      await makeFiles(scene)
      const [{ id }] = await scene.agent.use('list_caches', { repository: scene.name })
      const deleted = await scene.agent.call('delete_cache', { repository: scene.name, cache: id })
      assert.equal(deleted.text, 'Done.')
      assert.deepEqual(await scene.agent.use('list_caches', { repository: scene.name }), [])
    },
    refuse: ({ agent, name }) => agent.refusal('delete_cache', { repository: name, cache: 'none' }),
    code: 'cache_not_found',
  },
  create_delegated_token: {
    async succeed({ agent, name }) {
      const given = { name: 'part', repositories: [name], expiresInSeconds: 60 }
      assert.match((await agent.use('create_delegated_token', given)).token, /^svc_/)
    },
    refuse: ({ agent }) =>
      agent.refusal('create_delegated_token', { name: 'more', permissions: ['admin'] }),
    code: 'permission_missing',
  },
  list_webhooks: {
    async succeed({ agent, owner, name }) {
      const body = { url: 'http://127.0.0.1:9/', events: ['push'] }
      await owner.post(`/repos/${encodeURIComponent(name)}/webhooks`, body)
      const listed = await agent.use('list_webhooks', { repository: name })
      assert.equal(listed[0].url, body.url)
    },
    refuse: ({ stranger, name }) => stranger.refusal('list_webhooks', { repository: name }),
    code: hidden,
  },
  list_webhook_deliveries: {
    async succeed({ agent, owner, name }) {
      const body = { url: 'http://127.0.0.1:9/', events: ['push'] }
      const { id } = (await owner.post(`/repos/${encodeURIComponent(name)}/webhooks`, body)).body
      const given = { repository: name, webhook: id }
      assert.deepEqual(await agent.use('list_webhook_deliveries', given), [])
    },
    refuse: ({ agent, name }) =>
      agent.refusal('list_webhook_deliveries', { repository: name, webhook: 'none' }),
    code: 'webhook_not_found',
  },
  list_namespace_webhooks: {
    async succeed({ agent, name }) {
      const namespace = namespaceIn(name)
      assert.deepEqual(await agent.use('list_namespace_webhooks', { namespace }), [])
    },
    refuse: ({ stranger, name }) =>
      stranger.refusal('list_namespace_webhooks', { namespace: namespaceIn(name) }),
    code: 'namespace_not_found',
  },
  list_namespace_webhook_deliveries: {
    async succeed({ agent, owner, name }) {
      const namespace = namespaceIn(name)
      const body = { url: 'http://127.0.0.1:9/', events: ['push'] }
      const { id } = (await owner.post(`/namespaces/${namespace}/webhooks`, body)).body
      const given = { namespace, webhook: id }
      assert.deepEqual(await agent.use('list_namespace_webhook_deliveries', given), [])
    },
    refuse: ({ agent, name }) =>
      agent.refusal('list_namespace_webhook_deliveries', {
        ...{ namespace: namespaceIn(name), webhook: 'none' },
      }),
    code: 'webhook_not_found',
  },
}

test('every tool is tried here', () => {
  assert.deepEqual(
    Object.keys(trials),
    mcpTools.map(({ name }) => name),
  )
})

test('the documentation has a row for every tool', () => {
  const page = readFileSync(new URL('../../docs/agents.md', import.meta.url), 'utf8')
  const rows = page.split('\n').filter((line) => line.startsWith('| `'))
  assert.deepEqual(
    rows,
    mcpTools.map(
      ({ name, operationId, effect }) => `| \`${name}\` | \`${operationId}\` | ${effect} |`,
    ),
  )
})

for (const database of ['SQLite', 'PostgreSQL'] as const) {
  const skip = database === 'PostgreSQL' && without('postgres')
  const suite = database === 'PostgreSQL' ? exhaustive : {}
  describe(`on ${database}`, { skip, ...suite }, () => {
    let service: Service
    let dropDatabase: (() => Promise<void>) | undefined

    before(async () => {
      const postgres = database === 'PostgreSQL' ? await createPostgresDatabase() : undefined
      dropDatabase = postgres?.drop
      service = await startService(postgres && { env: { SVC_DATABASE_URL: postgres.url } })
    })
    after(async () => {
      await service[Symbol.asyncDispose]()
      await dropDatabase?.()
    })

    // Both transports call the same operations.
    for (const kind of database === 'SQLite' ? transports : (['http'] as const)) {
      describe(`over ${kind}`, kind === 'stdio' ? exhaustive : {}, () => tests(() => service, kind))
    }
  })
}

function tests(running: () => Service, kind: TransportKind): void {
  let scene: Scene

  before(async () => {
    const service = running()
    const owner = await service.client({ username: 'ada', permissions: everything })
    const other = await service.client({ username: 'eve', permissions: everything })
    const namespace = `agents-${kind}`
    await service.admin.post('/namespaces', { name: namespace })
    await service.admin.put(`/namespaces/${namespace}/members/ada`, { role: 'maintain' })
    const name = `${namespace}/site`
    await pushFiles(owner, name, oneStep('true'))
    const [agent, stranger] = await Promise.all([
      connectAgent(kind, owner),
      connectAgent(kind, other),
    ])
    scene = { agent, stranger, owner, name }
  })
  after(async () => {
    await scene.agent.client.close()
    await scene.stranger.client.close()
  })

  for (const [tool, { succeed, refuse, code }] of Object.entries(trials)) {
    test(`${tool} succeeds, and is refused`, async () => {
      await succeed(scene)
      assert.equal(await refuse(scene), code)
    })
  }

  test('tools have schemas and hints', async () => {
    const { tools } = await scene.agent.client.listTools()
    assert.deepEqual(
      tools.map(({ name }) => name),
      Object.keys(trials),
    )
    const { get_run_log: log, undo_push: undo } = Object.fromEntries(
      tools.map((tool) => [tool.name, tool]),
    )
    assert.deepEqual(Object.keys(log?.inputSchema.properties ?? {}), [
      ...['repository', 'run', 'offset', 'attempt', 'step'],
    ])
    assert.deepEqual(log?.inputSchema.required, ['repository', 'run'])
    assert.equal(log?.annotations?.readOnlyHint, true)
    assert.equal(undo?.annotations?.destructiveHint, true)
  })

  test('the list has the tools that the token may use, and no other ones', async () => {
    const limits = [
      { permissions: ['repo:read'] },
      { permissions: ['repo:read', 'repo:write', 'webhook:read'], repositories: [scene.name] },
      { permissions: ['repo:read', 'repo:write'], refs: ['refs/heads/agents/*'] },
      { permissions: ['workflow:read'] },
      { permissions: everything },
    ]
    for (const limit of limits) {
      const wanted = { name: 'limited', ...limit }
      const { body } = await scene.owner.post('/tokens/delegate', wanted)
      const agent = await connectAgent(kind, createClient(scene.owner.url, body.token))
      const { tools } = await agent.client.listTools()
      const listed = tools.map(({ name }) => name)
      for (const { name, pathArguments = {} } of mcpTools) {
        const given = Object.values(pathArguments).map((one) => [one.name, 'absent'])
        const { text } = await agent.call(name, Object.fromEntries(given))
        const isRuledOut = /"code":"(permission_missing|token_limited)"/.test(text)
        assert.equal(listed.includes(name), !isRuledOut, `${name} with ${JSON.stringify(limit)}`)
      }
      await agent.client.close()
    }
  })

  test('clients of earlier revisions are served', async () => {
    const { url, token } = scene.owner
    await using earlier = await connectAgent(kind, { url, token }, 'legacy')
    assert.equal((await earlier.use('get_repository', { repository: scene.name })).name, scene.name)
    assert.match(earlier.client.getInstructions() ?? '', /git/)
    await assert.rejects(earlier.call('no_such_tool'), /There is no tool "no_such_tool"/)
  })

  test('a list has pages', async () => {
    const { agent, name } = scene
    const { texts } = await agent.call('list_events', { repository: name, limit: 1 })
    const [, next = ''] = /call again with after "(\d+)"/.exec(texts[1] ?? '') ?? []
    const [first] = JSON.parse(texts[0] ?? '')
    const [second] = await agent.use('list_events', { repository: name, limit: 1, after: next })
    assert.ok(second.seq > first.seq)
  })

  test('a limited token sees nothing outside its limits', async () => {
    const { owner, name } = scene
    await owner.post('/repos', { name: `${name}-other` })
    const given = { name: 'limited', repositories: [name], permissions: ['repo:read'] }
    const { body } = await owner.post('/tokens/delegate', given)
    await using limited = await connectAgent(kind, { url: owner.url, token: body.token })
    const names = (await limited.use('list_repositories')).map((one: { name: string }) => one.name)
    assert.deepEqual(names, [name])
    for (const { repoName } of await limited.use('list_events')) assert.equal(repoName, name)
    const [there, absent] = await Promise.all(
      [`${name}-other`, 'never-used'].map(async (repository) =>
        (await limited.call('get_repository', { repository })).text.replaceAll(repository, '*'),
      ),
    )
    assert.equal(there, absent)
    assert.equal(await limited.refusal('create_repository', { name: 'x' }), 'permission_missing')
    assert.equal(await limited.refusal('list_runs', { repository: name }), 'permission_missing')
  })

  test('a token that is revoked during a session loses its tools', async () => {
    const service = running()
    const member = await service.client({ username: 'ada', permissions: everything })
    await using agent = await connectAgent(kind, member)
    await agent.use('list_repositories')
    await service.admin.delete(`/tokens/${member.id}`)
    if (kind === 'http') await assert.rejects(agent.call('list_repositories'), /401|token_invalid/)
    else assert.match(await agent.refusal('list_repositories'), /^401: .*unknown, deleted/)
  })
}

test(
  'svc mcp outlives a server that is away, and names an address that is not svc',
  exhaustive,
  async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'svc-mcp-'))
    const port = String(await freePort())
    const env = { SVC_PORT: port, SVC_ADMIN_TOKEN: newTokenString() }
    const server = { url: `http://127.0.0.1:${port}`, token: env.SVC_ADMIN_TOKEN }
    try {
      await using agent = await connectAgent('stdio', server)
      assert.match(await agent.refusal('list_repositories'), /ECONNREFUSED/)
      await assert.rejects(agent.client.listTools(), /ECONNREFUSED/)
      {
        await using _service = await startService({ dataDir, env })
        assert.deepEqual(await agent.use('list_repositories'), [])
      }
      assert.match(await agent.refusal('list_repositories'), /ECONNREFUSED/)
      const other = createServer((_, response) => response.writeHead(404).end('<html>'))
      await new Promise<void>((resolve) => other.listen(Number(port), '127.0.0.1', resolve))
      try {
        assert.match(await agent.refusal('list_repositories'), /There is no MCP server of svc at/)
      } finally {
        other.closeAllConnections()
        other.close()
      }
    } finally {
      await rm(dataDir, { recursive: true, force: true })
    }
  },
)

test('svc mcp ends with its input', async () => {
  const env = { SVC_URL: 'http://127.0.0.1:9', SVC_TOKEN: newTokenString() }
  const initialize = {
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: {
      protocolVersion: '2025-06-18',
      capabilities: {},
      clientInfo: { name: 'x', version: '1' },
    },
  }
  const { child, ended } = startSvc(['mcp'], env, `${JSON.stringify(initialize)}\n`)
  assert.notEqual(child.pid, undefined)
  const { code, out, err } = await ended
  assert.equal(code, 0, err)
  for (const line of out.split('\n').filter(Boolean)) assert.equal(JSON.parse(line).jsonrpc, '2.0')
})

test('svc mcp answers a line that is no message', async () => {
  const env = { SVC_URL: 'http://127.0.0.1:9', SVC_TOKEN: newTokenString() }
  const lines: [line: string, id: unknown, code: number][] = [
    ['not JSON', null, -32_700],
    ['{"jsonrpc":"2.0","id":1,', null, -32_700],
    ['7', null, -32_600],
    ['null', null, -32_600],
    ['[]', null, -32_600],
    ['{}', null, -32_600],
    ['{"id":3,"method":"ping"}', 3, -32_600],
    ['{"jsonrpc":"1.0","id":"a","method":"ping"}', 'a', -32_600],
    ['{"jsonrpc":"2.0","id":{},"method":"ping"}', null, -32_600],
    ['{"jsonrpc":"2.0","id":5}', 5, -32_600],
    ['{"jsonrpc":"2.0","id":6,"method":7}', 6, -32_600],
  ]
  const { ended } = startSvc(['mcp'], env, `${lines.map(([line]) => `${line}\n`).join('')}\n\r\n`)
  const { code, out, err } = await ended
  assert.equal(code, 0, err)
  const answers = out.split('\n').filter(Boolean)
  assert.deepEqual(
    answers.map((line) => {
      const { id, error } = JSON.parse(line)
      return [id, error.code]
    }),
    lines.map(([, ...expected]) => expected),
  )
})

test('svc mcp uses the server of the login', async () => {
  await using service = await startService()
  await using home = await loggedIn(service)
  await service.admin.post('/repos', { name: 'site' })
  const env = { PATH: process.env.PATH ?? '', HOME: home.path }
  await using agent = await connectStdio(env)
  assert.equal((await agent.use('get_repository', { repository: 'site' })).name, 'site')
})

test('svc mcp names what it lacks', async () => {
  const token = `svc_${'x'.repeat(36)}`
  for (const [env, expected] of [
    [{}, /Log in with svc login URL, or set SVC_URL .* and SVC_TOKEN/],
    [{ SVC_URL: 'ftp://x', SVC_TOKEN: token }, /SVC_URL is not an http or https URL/],
    [{ SVC_URL: 'http://127.0.0.1:9', SVC_TOKEN: 'x' }, /The token is mistyped/],
  ] as const) {
    const { code, err, out } = await runSvc(['mcp'], { ...env })
    assert.deepEqual([code, out], [2, ''])
    assert.match(err, expected)
  }
})
