// Tags: each-store

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { finishedPushes, type ListedPush } from '../support/pushes.ts'
import type { Answer, Client } from '../support/service.ts'

const none = '0'.repeat(40)

let service: InProcess
let project: Project
let owner: Client
let first: string
let second: string
let other: string

before(async () => {
  service = await startInProcess()
  project = await createProject()
  first = await project.git('rev-parse', 'main')
  second = await project.commit('b.txt')
  await project.git('checkout', '--quiet', '-b', 'other', first)
  other = await project.commit('c.txt')
  const permissions = ['repo:read', 'repo:write', 'collaborator:write']
  owner = await service.client({ username: 'ada', permissions })
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await project[Symbol.asyncDispose]()
})

async function push(name: string, ...refs: string[]): Promise<ListedPush> {
  await project.git('push', '--quiet', owner.remote(name), ...refs)
  const [last] = await finishedPushes(service, owner, name)
  return last ?? assert.fail('no push is in the journal')
}

async function refsOf(name: string): Promise<Record<string, string>> {
  const { stdout } = await git('/', ['ls-remote', '--quiet', owner.remote(name), 'refs/*'])
  const lines = stdout.split('\n').filter((line) => line !== '')
  return Object.fromEntries(lines.map((line) => line.split('\t').reverse()))
}

const undo = (name: string, { id }: { id: string }, client = owner): Promise<Answer> =>
  client.post(`/repos/${name}/pushes/${id}/undo`)

test('an undo reverts overwritten, deleted, created and advanced refs, and can be undone itself', async () => {
  await owner.post('/repos', { name: 'all' })
  await push(
    'all',
    `${second}:refs/heads/main`,
    `${second}:refs/heads/gone`,
    `${first}:refs/heads/on`,
  )
  const before = await refsOf('all')
  const changed = await push(
    'all',
    `+${other}:refs/heads/main`,
    ':refs/heads/gone',
    `${second}:refs/heads/on`,
    `${other}:refs/heads/new`,
  )
  const after = await refsOf('all')
  assert.equal(changed.undoable, true)

  const undone = await undo('all', changed)
  assert.equal(undone.status, 200, undone.text)
  assert.deepEqual(await refsOf('all'), before)
  assert.deepEqual([undone.body.via, undone.body.undoes], ['undo', changed.id])
  assert.deepEqual(undone.body.actor, { id: owner.id, username: 'ada' })
  const refs: ListedPush['refs'] = undone.body.refs
  assert.deepEqual(
    refs.map(({ ref, before, after, forced }) => [ref, before, after, forced]).sort(),
    [
      ['refs/heads/gone', none, second, false],
      ['refs/heads/main', other, second, true],
      ['refs/heads/new', other, none, false],
      ['refs/heads/on', second, first, true],
    ],
  )

  const redone = await undo('all', undone.body)
  assert.equal(redone.status, 200, redone.text)
  assert.deepEqual(await refsOf('all'), after)
  const again = await undo('all', redone.body)
  assert.equal(again.status, 200, again.text)
  assert.deepEqual(await refsOf('all'), before)
})

test('an undo changes nothing if a ref has moved since, and names who moved it', async () => {
  await owner.post('/repos', { name: 'moved' })
  await push('moved', `${first}:refs/heads/a`, `${first}:refs/heads/b`, `${first}:refs/heads/c`)
  const changed = await push('moved', `${second}:refs/heads/a`, `${second}:refs/heads/b`)
  const later = await push('moved', `+${other}:refs/heads/b`)
  const before = await refsOf('moved')
  const { status, body } = await undo('moved', changed)
  assert.deepEqual([status, body.code], [409, 'push_not_undoable'])
  assert.match(body.detail, new RegExp(`refs/heads/b \\(by the push ${later.id}\\)`))
  assert.doesNotMatch(body.detail, /refs\/heads\/[ac]/)
  assert.deepEqual(await refsOf('moved'), before)
  assert.equal((await owner.get(`/repos/moved/pushes/${changed.id}`)).body.undoable, false)
  // Once the later one is undone, this one can be.
  assert.equal((await undo('moved', later)).status, 200)
  assert.equal((await undo('moved', changed)).status, 200)
})

test('an undo needs the permission to push, and protected branches the owner', async () => {
  await owner.post('/repos', { name: 'guarded' })
  await owner.post('/repos/guarded/collaborators', { username: 'grace' })
  const permissions = ['repo:read', 'repo:write']
  const member = await service.client({ username: 'grace', permissions })
  const reader = await service.client({ username: 'grace', permissions: ['repo:read'] })
  const stranger = await service.client({ username: 'eve', permissions })
  await push('guarded', `${second}:refs/heads/main`)
  const changed = await push('guarded', `+${other}:refs/heads/main`)
  await owner.put('/repos/guarded/protections/branches/main')
  const refusals = [reader, stranger, member].map(async (client) => {
    const { status, body } = await undo('guarded', changed, client)
    return [status, body.code]
  })
  assert.deepEqual(await Promise.all(refusals), [
    [403, 'permission_missing'],
    [404, 'repository_not_found'],
    [403, 'branch_protected'],
  ])
  assert.equal((await undo('guarded', changed)).status, 200)
})

test('a push of another repository, and an unknown one, are not found', async () => {
  await owner.post('/repos', { name: 'one' })
  await owner.post('/repos', { name: 'two' })
  const made = await push('one', `${first}:refs/heads/main`)
  for (const id of [made.id, '0'.repeat(26), 'x']) {
    for (const answer of [await owner.get(`/repos/two/pushes/${id}`), await undo('two', { id })])
      assert.deepEqual([answer.status, answer.body.code], [404, 'push_not_found'])
  }
})

test('the first push into a repository can be undone, which empties it', async () => {
  await owner.post('/repos', { name: 'fresh' })
  const made = await push('fresh', `${second}:refs/heads/main`)
  const undone = await undo('fresh', made)
  assert.equal(undone.status, 200, undone.text)
  const { body } = await owner.get('/repos/fresh')
  assert.deepEqual([body.empty, body.defaultBranch], [true, 'main'])
  assert.equal((await undo('fresh', undone.body)).status, 200)
  assert.deepEqual(await refsOf('fresh'), { 'refs/heads/main': second })
})

test(
  'of a concurrent push and undo of the same ref one succeeds, as recorded in the journal',
  exhaustive,
  async () => {
    await owner.post('/repos', { name: 'race' })
    for (let round = 0; round < 6; round++) {
      await push('race', `+${second}:refs/heads/main`)
      const changed = await push('race', `+${other}:refs/heads/main`)
      const pushing = project
        .git('push', '--quiet', owner.remote('race'), `+${first}:refs/heads/main`)
        .then(
          () => true,
          () => false,
        )
      const [{ status }, isPushed] = await Promise.all([undo('race', changed), pushing])
      const [last] = await finishedPushes(service, owner, 'race')
      const { 'refs/heads/main': value } = await refsOf('race')
      assert.equal(last?.refs[0]?.after, value)
      assert.ok(status === 200 || status === 409)
      // A push compares with the advertised value, so only one of the two can succeed.
      if (status === 409) assert.deepEqual([isPushed, value], [true, first])
      else assert.equal(value, isPushed ? first : second)
    }
  },
)

test('an undo that comes too late is rejected, even if the ref already has the value', async () => {
  await owner.post('/repos', { name: 'late' })
  await push('late', `${first}:refs/heads/main`)
  const changed = await push('late', `${second}:refs/heads/main`)
  const answers = await Promise.all(Array.from({ length: 5 }, () => undo('late', changed)))
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409, 409, 409, 409])
  const pushes = await finishedPushes(service, owner, 'late')
  assert.deepEqual(
    pushes.map(({ via }) => via),
    ['undo', 'http', 'http'],
  )
})

test('expired commits cannot be restored, additions can be undone', exhaustive, async () => {
  await using forgetful = await startInProcess({ SVC_UNDO_DAYS: '0' })
  const { admin } = forgetful
  await admin.post('/repos', { name: 'site' })
  const send = async (...refs: string[]) => {
    await project.git('push', '--quiet', admin.remote('site'), ...refs)
    const [last] = await finishedPushes(forgetful, admin, 'site')
    return last ?? assert.fail()
  }
  await send(`${first}:refs/heads/main`)
  const added = await send(`${second}:refs/heads/main`)
  assert.equal((await undo('site', added, admin)).status, 200)
  const forced = await send(`+${other}:refs/heads/main`)
  assert.deepEqual([forced.keptUntil, forced.undoable], [null, true])
  const rewritten = await send(`+${second}:refs/heads/main`)
  assert.deepEqual([rewritten.refs[0]?.forced, rewritten.keptUntil], [true, null])
  const { status, body } = await undo('site', rewritten, admin)
  assert.deepEqual([status, body.code], [409, 'push_not_undoable'])
  assert.match(body.detail, /no longer retained/)
})

test('missing objects are reported, and no ref is moved', async () => {
  await owner.post('/repos', { name: 'bare' })
  await push('bare', `${first}:refs/heads/main`)
  await push('bare', `${second}:refs/heads/lost`)
  const changed = await push('bare', ':refs/heads/lost')
  const { body } = await owner.get('/repos/bare')
  await git(body.path, ['update-ref', '-d', `refs/svc/kept/${changed.id}/${second}`])
  await git(body.path, ['-c', 'gc.pruneExpire=now', 'gc', '--quiet', '--prune=now'])
  const answer = await undo('bare', changed)
  assert.deepEqual([answer.status, answer.body.code], [409, 'push_not_undoable'])
  assert.match(answer.body.detail, /no longer exist/)
  const { length } = await finishedPushes(service, owner, 'bare')
  assert.equal(length, 3)
})

test(
  'symbolic refs are restored with their targets, and name conflicts are reported',
  exhaustive,
  async () => {
    await owner.post('/repos', { name: 'odd' })
    const { body } = await owner.get('/repos/odd')
    await push('odd', `${first}:refs/heads/main`, `${second}:refs/heads/x`)
    await writeFile(join(body.path, 'refs/heads/alias'), 'ref: refs/heads/main\n')
    const changed = await push('odd', `${second}:refs/heads/alias`)
    assert.equal((await undo('odd', changed)).status, 200)
    assert.equal((await refsOf('odd'))['refs/heads/main'], first)
    assert.equal(
      (await git(body.path, ['symbolic-ref', 'refs/heads/alias'])).stdout,
      'refs/heads/main',
    )

    const deleted = await push('odd', ':refs/heads/x')
    await push('odd', `${first}:refs/heads/x/y`)
    const answer = await undo('odd', deleted)
    assert.deepEqual([answer.status, answer.body.code], [409, 'push_not_undoable'])
    assert.match(answer.body.detail, /is a directory of another/)
  },
)
