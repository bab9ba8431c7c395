import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createChecker } from '#actions/workflow-parser/checker.ts'
import { newId } from '#base/ids.ts'
import { openObjects } from '#git/objects/object-reader.ts'
import { createGit } from '#git/process/git-process.ts'
import { firstRules, toRuleColumns } from '#repositories/protection-rules.ts'
import { insertProtection } from '#repositories/protection-store.ts'
import { insertRepository } from '#repositories/repository-store.ts'
import { onEachDatabase } from '../../../test/support/databases.ts'
import { createProject } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { createRun } from './create-run.ts'
import { createPlanCandidate } from './plan-candidate.ts'
import type { PlannedRun } from './planned-runs.ts'

const git = createGit({ settings: gitLimits, owner: 'test', path: process.env.PATH ?? '' })
const checker = createChecker()
after(() => checker[Symbol.asyncDispose]())

const files: Record<string, string> = {
  proposed: 'on: { pull_request: { branches: [main], paths: [a.txt] } }',
  elsewhere: 'on: { pull_request: { branches: [other] } }',
  unchanged: 'on: { pull_request: { paths-ignore: [a.txt, .svc/**] } }',
  first: 'on: { pull_request: { types: [opened] } }',
  queued: 'on: merge_group',
  required: 'on: workflow_dispatch\nrun-name: ${{ github.head_ref }} for ${{ github.base_ref }}',
  pushed: 'on: push',
  invalid: 'on: nothing',
}

onEachDatabase((fresh) => {
  test('a candidate runs the files that are for its event, and those that rules of the branch require', async () => {
    await using database = await fresh()
    const db = await database.open()
    const id = newId()
    const owner = { ownerTokenId: 't', ownerUsername: 'ada' }
    const row = {
      id,
      name: 'site',
      nameKey: 'site',
      ...owner,
      createdAt: 1,
      state: 'ready',
    } as const
    assert.ok(await insertRepository(db, row))
    const requires = ['required', 'absent'].map((name) => ({
      workflow: `.svc/workflows/${name}.yml`,
    }))
    for (const [branch, rules] of [
      ['main', { ...firstRules, requires: [...requires, { status: 'outside' }] }],
      ['other', { ...firstRules, requires: [{ workflow: '.svc/workflows/pushed.yml' }] }],
    ] as const) {
      const columns = toRuleColumns({ ...rules, requires: [...rules.requires] })
      await insertProtection(db, { scopeId: id, branch, createdAt: 1, ...columns })
    }
    await using project = await createProject()
    await mkdir(join(project.path, '.svc/workflows'), { recursive: true })
    const base = await project.git('rev-parse', 'HEAD')
    for (const [name, on] of Object.entries(files))
      await project.commit(`.svc/workflows/${name}.yml`, `${on}\nsteps: [{ run: x }]\n`)
    const commit = await project.commit('a.txt')

    const directory = join(project.path, '.git')
    await using objects = await openObjects(git, directory)
    const plan = createPlanCandidate({
      db,
      checker,
      openSecrets: async () => ({}),
      baseUrl: () => 'http://svc',
    })
    const candidate = {
      repository: { id, name: 'site', ownerUsername: 'ada', createdAt: 1, visibility: 'private' },
      ...{ directory, git, objects, target: 'refs/heads/main', base },
      actor: { id: 'token', username: 'ada' },
    } as const
    const change = {
      number: 7,
      title: 'Do it',
      description: '',
      username: 'eve',
      source: '',
      createdAt: 0,
    }
    const proposed = (action: 'opened' | 'synchronize', to = commit) =>
      plan({
        ...candidate,
        commit: to,
        ref: 'refs/changes/7/2',
        event: 'pull_request',
        action,
        change,
      })

    const planned = await proposed('synchronize')
    assert.deepEqual(namesOf(planned), ['invalid: failed', 'proposed', 'required'])
    assert.deepEqual(namesOf(await proposed('opened')), [
      'first',
      'invalid: failed',
      'proposed',
      'required',
    ])
    const [, , last] = planned
    assert.ok(last && 'start' in last)
    const { run } = await createRun(last.start, 0, 1)
    assert.deepEqual(
      [run.name, run.branch, run.ref, run.event],
      ['refs/changes/7/2 for main', 'refs/changes/7/2', 'refs/changes/7/2', 'pull_request'],
    )
    const { action, number, pull_request } = JSON.parse(run.payload)
    assert.deepEqual([action, number, pull_request.user.login], ['synchronize', 7, 'eve'])
    assert.deepEqual([pull_request.head.sha, pull_request.base.sha], [commit, base])

    const queued = await plan({ ...candidate, commit, ref: 'refs/queue/1', event: 'merge_group' })
    assert.deepEqual(namesOf(queued), ['queued', 'required'])
    const [group] = queued
    assert.ok(group && 'start' in group)
    const { merge_group } = JSON.parse((await createRun(group.start, 0, 1)).run.payload)
    assert.deepEqual(
      [merge_group.head_ref, merge_group.base_ref, merge_group.head_commit.id],
      ['refs/queue/1', 'refs/heads/main', commit],
    )

    await project.git('commit', '--quiet', '--allow-empty', '--message', 'Quiet [skip ci]')
    const quiet = await project.git('rev-parse', 'HEAD')
    assert.deepEqual(await proposed('opened', quiet), [])
    const forced = await plan({
      ...{ ...candidate, commit: quiet, ref: 'refs/queue/1', event: 'merge_group' },
    })
    assert.equal(forced.length, 2)
  })
})

function namesOf(planned: PlannedRun[]): string[] {
  return planned.map((one) => {
    const [path = ''] = 'failed' in one ? one.failed.files : one.start.sources.files.map(pathOf)
    const name = path.replace(/^\.svc\/workflows\/(.*)\.yml$/, '$1')
    return 'failed' in one ? `${name}: failed` : name
  })
}

const pathOf = ({ path }: { path: string }) => path
