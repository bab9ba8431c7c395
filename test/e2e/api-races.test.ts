// Tags: exhaustive, each-store
import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { git } from '../support/git.ts'
import { type OwnerServer, startOwnerServer } from '../support/owner-server.ts'
import type { Client } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'

const author = {
  GIT_AUTHOR_DATE: '2026-01-01T00:00:00Z',
  GIT_COMMITTER_DATE: '2026-01-01T00:00:00Z',
}

let server: OwnerServer
let owner: Client

before(async () => {
  server = await startOwnerServer()
  owner = server.owner
})

after(() => server[Symbol.asyncDispose]())

type Writer = { name: string; write: (number: number) => Promise<string | undefined> }

/** Commits through the API with the present head; the commit, or undefined when another one came first. */
function apiWriter(name: string): Writer {
  return {
    name,
    async write(number) {
      const listed = await git('/', ['ls-remote', owner.remote('race'), 'refs/heads/main'])
      const expectedHead = listed.stdout.split('\t')[0]
      const { status, body } = await owner.post('/repos/race/commits', {
        ...{ branch: 'main', expectedHead, message: `${name} ${number}` },
        changes: [{ path: `${name}/${number}`, content: name }],
      })
      if (status === 201) return body.id
      assert.deepEqual([status, body.code], [409, 'ref_moved'])
      return undefined
    },
  }
}

/** Commits in a clone and pushes; the commit, or undefined when another one came first. */
async function gitWriter(name: string, remote: string, env: Record<string, string>) {
  const path = join(server.folder, name)
  await mkdir(path)
  const run = async (...args: string[]) => (await git(path, args, { ...author, ...env })).stdout
  await run('init', '--quiet', '--initial-branch=main')
  await run('remote', 'add', 'origin', remote)
  return {
    name,
    async write(number: number) {
      await run('fetch', '--quiet', 'origin', 'main')
      await run('reset', '--quiet', '--hard', 'FETCH_HEAD')
      await run('commit', '--quiet', '--allow-empty', '-m', `${name} ${number}`)
      const id = await run('rev-parse', 'HEAD')
      const pushed = await run('push', '--quiet', 'origin', 'main').then(
        () => true,
        ({ stderr }) => {
          assert.match(stderr, /rejected|failed to update ref|changed meanwhile/)
          return false
        },
      )
      return pushed ? id : undefined
    },
  }
}

test('8 writers over HTTP, SSH and the API lose no commit, and none is there twice', async () => {
  await owner.post('/repos', { name: 'race' })
  const changes = [{ path: 'start', content: '' }]
  await owner.post('/repos/race/commits', { branch: 'main', message: 'Start', changes })
  const user = await createSshUser(server.service, owner)
  const overSsh = { GIT_SSH_COMMAND: user.command }
  const writers: Writer[] = [
    ...['api-1', 'api-2', 'api-3', 'api-4'].map(apiWriter),
    await gitWriter('http-1', owner.remote('race'), {}),
    await gitWriter('http-2', owner.remote('race'), {}),
    await gitWriter('ssh-1', user.remote('race'), overSsh),
    await gitWriter('ssh-2', user.remote('race'), overSsh),
  ]
  const acknowledged: string[] = []
  const lost: string[] = []
  await Promise.all(
    writers.map(async ({ name, write }) => {
      // Attempts, not time: each round succeeds or is refused for a reason.
      for (let number = 0; number < 12; number++) {
        const id = await write(number)
        if (id !== undefined) acknowledged.push(id)
        else lost.push(`${name} ${number}`)
      }
    }),
  )
  const clone = join(server.folder, 'clone')
  await git('/', ['clone', '--quiet', owner.remote('race'), clone])
  const history = (await git(clone, ['rev-list', 'HEAD'])).stdout.split('\n')
  assert.equal(new Set(acknowledged).size, acknowledged.length)
  assert.deepEqual(
    acknowledged.filter((id) => !history.includes(id)),
    [],
  )
  assert.equal(history.length, acknowledged.length + 1)
  assert.ok(acknowledged.length >= 12, String(acknowledged.length))
  const subjects = (await git(clone, ['log', '--format=%s'])).stdout.split('\n')
  assert.equal(new Set(subjects).size, subjects.length)
  assert.deepEqual(
    subjects.filter((subject) => lost.includes(subject)),
    [],
  )
  assert.equal((await git(clone, ['rev-list', '--count', '--merges', 'HEAD'])).stdout, '0')
})

test('without an expected head, concurrent commits are made one on top of the other', async () => {
  await owner.post('/repos', { name: 'queue' })
  const write = (number: number) =>
    owner.post('/repos/queue/commits', {
      ...{ branch: 'main', message: `Commit ${number}` },
      changes: [{ path: `${number}`, content: '' }],
    })
  assert.equal((await write(0)).status, 201)
  const answers = await Promise.all([1, 2, 3].map(write))
  assert.deepEqual(
    answers.map(({ status }) => status),
    [201, 201, 201],
  )
  const listed = await git('/', ['ls-remote', owner.remote('queue'), 'refs/heads/main'])
  const [tip = ''] = listed.stdout.split('\t')
  assert.ok(answers.some(({ body }) => body.id === tip))
  const { body: pushes } = await owner.get('/repos/queue/pushes')
  assert.equal(pushes.length, 4)
})

test('requests during the deletion of their repository are answered as after it', async () => {
  await owner.post('/repos', { name: 'leaving' })
  const commit = (number: number) =>
    owner.post('/repos/leaving/commits', {
      branch: 'main',
      message: `${number}`,
      changes: [{ path: `${number}`, content: 'x' }],
    })
  await commit(0)
  const writes = Array.from({ length: 12 }, (_, index) => commit(index + 1))
  const reads = Array.from({ length: 24 }, (_, index) => `limit=${index + 1}&path=0`)
  const requests = [
    ...writes,
    ...reads.map((query) => owner.get(`/repos/leaving/commits?${query}`)),
  ]
  await writes[0]
  assert.equal((await server.service.admin.delete('/repos/leaving')).status, 204)
  for (const { status, body, text } of await Promise.all(requests)) {
    if (status === 404) assert.equal(body.code, 'repository_not_found')
    // Of twelve writers at once, one may lose each of its attempts.
    else if (status === 409) assert.equal(body.code, 'ref_moved')
    else assert.ok(status < 300, text)
  }
})
