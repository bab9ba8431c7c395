// Tags: each-store

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { newTokenString } from '#base/token-string.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, spawnGit, temporaryFolder } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { without } from '../support/programs.ts'
import { untilLookedAt } from '../support/read-pushes.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { startService, startServiceWithSsh } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'
import { type Files, pushFiles } from '../support/workflow-site.ts'

let service: InProcess

before(async () => {
  service = await startInProcess()
})

after(() => service[Symbol.asyncDispose]())

type Listed = { event: string; files: string[]; ref: string; commit: string; number: number }

const on = (trigger: string) => `
on: ${trigger}
jobs: { one: { runs-on: ubuntu-latest, steps: [{ run: true }] } }
`

/** The runs of a repository, oldest first, as `<file> <ref>`. */
async function runsOf(name: string): Promise<string[]> {
  await untilLookedAt(service.db)
  const { body } = await service.admin.get(`/repos/${name}/workflows`)
  return body
    .map(
      ({ files, ref }: Listed) => `${files.map((file) => file.split('/').at(-1))} ${ref.slice(5)}`,
    )
    .reverse()
}

async function push(
  name: string,
  files: Files,
  options: { branch?: string; message?: string } = {},
) {
  const before =
    (await service.admin.get(`/repos/${name}`)).status === 200 ? await runsOf(name) : []
  const commit = await pushFiles(service.admin, name, files, options)
  return { commit, runs: (await runsOf(name)).slice(before.length) }
}

test('a push starts a run of each matching file, at its commit', async () => {
  const { commit, runs } = await push('each', {
    '.svc/workflows/a.yml': on('push'),
    '.svc/workflows/b.yml': on('[push, workflow_dispatch]'),
    '.svc/workflows/c.yml': on('workflow_dispatch'),
    '.svc/workflows/d.yml': 'steps: [{ run: true }]',
  })
  assert.deepEqual(runs, ['a.yml heads/main', 'b.yml heads/main'])
  const held = await mustClaim(service.admin)
  assert.deepEqual([held.plan.event, held.plan.commit], ['push', commit])
  assert.equal(held.plan.payload.after, commit)
  assert.equal(held.plan.payload.created, true)
  await held.report(...wholeRun())
  await (await mustClaim(service.admin)).report(...wholeRun())
})

test('filters of branches and tags apply', async () => {
  const { runs } = await push('filters', {
    '.svc/workflows/main.yml': on('{ push: { branches: [main] } }'),
    '.svc/workflows/not-main.yml': on('{ push: { branches-ignore: [main] } }'),
    '.svc/workflows/release.yml': on("{ push: { branches: ['release/**', '!release/old'] } }"),
    '.svc/workflows/tags.yml': on("{ push: { tags: ['v*'] } }"),
    '.svc/workflows/not-beta.yml': on("{ push: { tags-ignore: ['*-beta'] } }"),
  })
  assert.deepEqual(runs, ['main.yml heads/main'])
  const remote = service.admin.remote('filters')
  await using project = await createProject()
  await project.git('fetch', '--quiet', remote, 'main')
  await project.git('reset', '--quiet', '--hard', 'FETCH_HEAD')
  const runsOfRef = async (ref: string) => {
    const earlier = (await runsOf('filters')).length
    await project.git('push', '--quiet', remote, `HEAD:refs/${ref}`)
    return (await runsOf('filters')).slice(earlier).map((run) => run.split(' ')[0])
  }
  assert.deepEqual(await runsOfRef('heads/release/1/x'), ['not-main.yml', 'release.yml'])
  assert.deepEqual(await runsOfRef('heads/release/old'), ['not-main.yml'])
  assert.deepEqual(await runsOfRef('tags/v1'), ['not-beta.yml', 'tags.yml'])
  assert.deepEqual(await runsOfRef('tags/2-beta'), [])
  assert.deepEqual(await runsOfRef('notes/x'), [])
  const earlier = (await runsOf('filters')).length
  await project.git('push', '--quiet', remote, ':refs/heads/release/old', ':refs/tags/v1')
  assert.equal((await runsOf('filters')).length, earlier)
})

test('filters of paths apply to the changes of all commits of a push', async () => {
  const files = {
    '.svc/workflows/docs.yml': on("{ push: { paths: ['docs/**'] } }"),
    '.svc/workflows/code.yml': on("{ push: { paths-ignore: ['docs/**'] } }"),
  }
  // A new branch always counts.
  assert.deepEqual((await push('paths', files)).runs, [
    'code.yml heads/main',
    'docs.yml heads/main',
  ])
  assert.deepEqual((await push('paths', { 'docs/a.md': 'a' })).runs, ['docs.yml heads/main'])
  assert.deepEqual((await push('paths', { 'src/a.c': 'a' })).runs, ['code.yml heads/main'])
  const both = { 'docs/ä ö.md': 'x', 'src/b.c': 'b' }
  assert.deepEqual((await push('paths', both)).runs, ['code.yml heads/main', 'docs.yml heads/main'])
  assert.deepEqual((await push('paths', {}, { message: 'Empty' })).runs, ['code.yml heads/main'])
})

test('a change of too many paths counts as a change of all', exhaustive, async () => {
  const workflow = { '.svc/workflows/docs.yml': on("{ push: { paths: ['docs/**'] } }") }
  const first = await pushFiles(service.admin, 'bomb', workflow)
  await using clone = await temporaryFolder()
  const run = async (...args: string[]) => (await git(clone.path, args)).stdout
  await run('clone', '--quiet', service.admin.remote('bomb'), '.')
  const makeTree = async (entries: string[]) => {
    const child = spawnGit(clone.path, ['mktree'])
    child.stdin.end(`${entries.join('\n')}\n`)
    return (await text(child.stdout)).trim()
  }
  await writeFile(join(clone.path, 'leaf'), '')
  let entry = `100644 blob ${await run('hash-object', '-w', 'leaf')}`
  for (let depth = 0; depth < 10; depth++) {
    const entries = Array.from({ length: 10 }, (_, name) => `${entry}\t${name}`)
    entry = `040000 tree ${await makeTree(entries)}`
  }
  const root = await makeTree([await run('ls-tree', first), `${entry}\tsrc`])
  const commit = await run('commit-tree', '-p', first, '-m', 'bomb', root)
  await run('push', '--quiet', 'origin', `${commit}:refs/heads/main`)
  assert.deepEqual(await runsOf('bomb'), ['docs.yml heads/main', 'docs.yml heads/main'])
})

test('a push with [skip ci] starts nothing', async () => {
  const files = { '.svc/workflows/ci.yml': on('push') }
  for (const word of ['[skip ci]', '[ci skip]', '[no ci]', '[skip actions]', '[actions skip]']) {
    const { runs } = await push('skips', files, { message: `Change\n\n${word.toUpperCase()}` })
    assert.deepEqual(runs, [], word)
  }
  const broken = { '.svc/workflows/bad.yml': 'steps: 1' }
  for (const trailers of ['skip-checks: true', 'Signed-off-by: A <a@e>\nSkip-Checks:true'])
    assert.deepEqual((await push('skips', files, { message: `Change\n\n${trailers}` })).runs, [])
  assert.deepEqual((await push('skips', broken, { message: '[skip ci]' })).runs, [])
  const usual = 'skip-checks: true is not said here\n\nskip-checks: true\n\nat the end'
  assert.equal((await push('skips', {}, { message: usual })).runs.length, 2)
})

test('an invalid file creates a failed run with the reason; the others run', async () => {
  const { runs } = await push('invalid', {
    '.svc/workflows/bad.yml': 'on: push\njobs:\n  one:\n    step: []\n',
    '.svc/workflows/good.yml': on('push'),
  })
  assert.deepEqual(runs, ['bad.yml heads/main', 'good.yml heads/main'])
  const list = (await service.admin.get('/repos/invalid/workflows')).body
  const bad = (await service.admin.get(`/repos/invalid/workflows/${list[1].id}`)).body
  assert.deepEqual([bad.status, bad.conclusion, bad.event], ['completed', 'failure', 'push'])
  assert.match(bad.fault, /^\.svc\/workflows\/bad\.yml:\d+:\d+: /)
  assert.match(bad.failure.reason, /bad\.yml/)
  assert.deepEqual(bad.failure.commitsSince, [])
})

test('a run has events in order when it is queued, running and completed', async () => {
  await service.db.updateTable('runs').set({ status: 'completed' }).execute()
  const { runs } = await push('published', { '.svc/workflows/ci.yml': on('push') })
  assert.equal(runs.length, 1)
  await (await mustClaim(service.admin)).report(...wholeRun('failure'))
  const events = await service.db
    .selectFrom('events')
    .selectAll()
    .where('kind', '=', 'workflow')
    .orderBy('seq')
    .execute()
  const published = events
    .map(({ data, actorUsername }) => ({ ...JSON.parse(data), actorUsername }))
    .filter(({ repositoryName }) => repositoryName === 'published')
  assert.deepEqual(
    published.map(({ action, conclusion, attempt, branch, event, actorUsername }) =>
      [action, conclusion, attempt, branch, event, actorUsername].join(' '),
    ),
    [
      'queued  1 main push admin',
      'running  1 main push admin',
      'completed failure 1 main push admin',
    ],
  )
})

test('a push over SSH starts runs', { skip: without('openssh') }, async () => {
  await using server = await startServiceWithSsh()
  await using user = await createSshUser(server, server.admin)
  await using project = await createProject()
  await server.admin.post('/repos', { name: 'site' })
  await pushFiles(
    server.admin,
    'site',
    { '.svc/workflows/ci.yml': on('push') },
    { message: '[no ci]' },
  )
  await project.git('fetch', '--quiet', server.admin.remote('site'), 'main')
  await project.git('reset', '--quiet', '--hard', 'FETCH_HEAD')
  const commit = await project.commit('more')
  await user.git(project.path, 'push', '--quiet', user.remote('site'), 'HEAD:main')
  const held = await mustClaim(server.admin)
  assert.deepEqual([held.plan.event, held.plan.commit], ['push', commit])
})

test('a server killed at any moment after a push creates one run', exhaustive, async () => {
  await using folder = await temporaryFolder()
  const kept = { dataDir: join(folder.path, 'data'), env: { SVC_ADMIN_TOKEN: newTokenString() } }
  const commits: string[] = []
  for (let round = 0; round < 5; round++) {
    await using server = await startService(kept)
    const files = { '.svc/workflows/ci.yml': on('push'), 'a.txt': `${round}` }
    commits.unshift(await pushFiles(server.admin, 'site', files))
    // Another moment each time.
    await new Promise((resolve) => setTimeout(resolve, round * 8))
    await server.end('SIGKILL')
  }
  await using server = await startService(kept)
  const list = await until('all runs are there', async () => {
    const { body } = await server.admin.get('/repos/site/workflows')
    return body.length >= commits.length && body
  })
  assert.deepEqual(
    list.map(({ commit }: Listed) => commit),
    commits,
  )
})

test(
  'a push that starts too many runs creates failed ones with the reason',
  exhaustive,
  async () => {
    await push('crowd', { '.svc/workflows/ci.yml': on('push') })
    const [row] = await service.db
      .selectFrom('runs')
      .selectAll()
      .orderBy('id', 'desc')
      .limit(1)
      .execute()
    assert.ok(row)
    const copies = Array.from({ length: 500 }, (_, n) => ({
      ...row,
      id: `${row.id.slice(0, -4)}${String(n).padStart(4, '0')}`,
      number: 1000 + n,
    }))
    for (let at = 0; at < 500; at += 100)
      await service.db
        .insertInto('runs')
        .values(copies.slice(at, at + 100))
        .execute()
    const answer = await service.admin.post('/repos/crowd/workflows', {})
    assert.deepEqual([answer.status, answer.body.code], [422, 'too_many_runs'])
    await pushFiles(service.admin, 'crowd', { 'more.txt': 'x' })
    const failed = await until('the push is looked at', async () => {
      const { body } = await service.admin.get('/repos/crowd/workflows?status=completed')
      return body[0]
    })
    assert.match(failed.fault, /already has 500 queued runs/)
    assert.equal((await service.admin.delete('/repos/crowd')).status, 204)
  },
)
