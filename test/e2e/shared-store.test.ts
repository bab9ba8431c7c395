import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { newTokenString } from '../../src/base/token-string.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { type ObjectStore, openObjectStore, withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'

const skip = withoutObjectStore || without('postgres')
// More than what is stored in the database.
const largeBytes = 300_000

describe('a service with a shared store', { skip }, () => {
  let database: Awaited<ReturnType<typeof createPostgresDatabase>>
  let store: ObjectStore
  let project: Project
  let service: Service
  let env: Record<string, string>

  before(async () => {
    database = await createPostgresDatabase()
    store = await openObjectStore()
    project = await createProject()
    const key = randomBytes(32).toString('base64')
    env = {
      ...store.env,
      SVC_DATABASE_URL: database.url,
      SVC_ADMIN_TOKEN: newTokenString(),
      SVC_ENCRYPTION_KEY: key,
    }
    service = await startService({ env })
  })

  after(async () => {
    await service[Symbol.asyncDispose]()
    await project[Symbol.asyncDispose]()
    await store[Symbol.asyncDispose]()
    await database.drop()
  })

  /** Ends the server and starts one on an empty data directory. */
  async function replaceNode(): Promise<void> {
    await service[Symbol.asyncDispose]()
    service = await startService({ env })
  }

  async function keysInStore(): Promise<string[]> {
    await using client = store.connect()
    const keys: string[] = []
    for await (const { key } of client.list('')) keys.push(key)
    return keys
  }

  async function refsOf(name: string): Promise<string> {
    const { stdout } = await git('/', ['ls-remote', service.admin.remote(name)])
    return stdout
  }

  async function commitLarge(name: string): Promise<void> {
    await writeFile(join(project.path, name), randomBytes(largeBytes))
    await project.git('add', name)
    await project.git('commit', '--quiet', '-m', name)
  }

  async function assertClones(name: string): Promise<void> {
    await using folder = await temporaryFolder()
    const clone = join(folder.path, 'clone')
    await git('/', ['clone', '--quiet', '--mirror', service.admin.remote(name), clone])
    await git(clone, ['fsck', '--strict'])
  }

  test('small and large pushes, tags and deletions are on a server that starts empty', async () => {
    await service.admin.post('/repos', { name: 'site' })
    const remote = service.admin.remote('site')
    await project.git('push', '--quiet', remote, 'HEAD:main')
    assert.deepEqual(await keysInStore(), [])
    await commitLarge('large')
    await project.git('tag', '-a', '-m', 'First', 'v1')
    await project.git('push', '--quiet', remote, 'HEAD:main', 'v1', 'HEAD:refs/heads/topic')
    assert.equal((await keysInStore()).length, 2)
    await project.git('push', '--quiet', remote, ':topic')
    const before = await refsOf('site')
    assert.match(before, /refs\/tags\/v1\^\{\}/)
    assert.doesNotMatch(before, /topic/)

    await replaceNode()
    assert.equal(await refsOf('site'), before)
    await assertClones('site')
  })

  test('an undone push restores what it overwrote, on a server that starts empty', async () => {
    await service.admin.post('/repos', { name: 'undone' })
    await project.git('push', '--quiet', service.admin.remote('undone'), 'HEAD:main')
    const before = await refsOf('undone')
    await project.git('push', '--quiet', service.admin.remote('undone'), '+HEAD~1:main')
    await replaceNode()
    const { body: pushes } = await service.admin.get('/repos/undone/pushes')
    const { status, text } = await service.admin.post(`/repos/undone/pushes/${pushes[0].id}/undo`)
    assert.equal(status, 200, text)
    assert.equal(await refsOf('undone'), before)
    await replaceNode()
    assert.equal(await refsOf('undone'), before)
    await assertClones('undone')
  })

  test('the default branch follows the branches, and changes on request', async () => {
    await service.admin.post('/repos', { name: 'heads' })
    const remote = service.admin.remote('heads')
    await project.git('push', '--quiet', remote, 'HEAD:trunk', 'HEAD:other')
    assert.equal((await service.admin.get('/repos/heads')).body.defaultBranch, 'trunk')
    const changed = await service.admin.patch('/repos/heads', { defaultBranch: 'other' })
    assert.equal(changed.body.defaultBranch, 'other', changed.text)
    assert.equal((await service.admin.patch('/repos/heads', { defaultBranch: 'no' })).status, 422)
    await assert.rejects(
      project.git('push', '--quiet', remote, ':other'),
      /"other" is the default branch/,
    )
    await replaceNode()
    const { body } = await service.admin.get('/repos/heads')
    assert.equal(body.defaultBranch, 'other')
    const { body: events } = await service.admin.get('/events')
    const kinds = events.map(({ kind }: { kind: string }) => kind)
    assert.ok(kinds.includes('repository.default_branch'))
  })

  test('an import is on a server that starts empty', async () => {
    await service.admin.post('/repos', { name: 'source' })
    await project.git('push', '--quiet', service.admin.remote('source'), 'HEAD:main', 'v1')
    const source = service.admin.remote('source')
    const imported = await service.admin.post('/repos/import', { source, name: 'imported' })
    assert.equal(imported.body.state, 'ready', imported.text)
    const before = await refsOf('source')
    await replaceNode()
    assert.equal(await refsOf('imported'), before)
    await assertClones('imported')
  })

  test('a deleted repository is gone, and its name is free', async () => {
    await service.admin.post('/repos', { name: 'gone' })
    await project.git('push', '--quiet', service.admin.remote('gone'), 'HEAD:main')
    const { path } = (await service.admin.get('/repos/gone')).body
    assert.equal((await service.admin.delete('/repos/gone')).status, 204)
    assert.ok(!existsSync(path))
    assert.equal((await service.admin.get('/repos/gone')).status, 404)
    assert.equal((await service.admin.post('/repos', { name: 'gone' })).status, 201)
    assert.equal(await refsOf('gone'), '')
  })

  test('concurrent pushes to a ref have one winner, and a push that lost leaves no objects', async () => {
    await service.admin.post('/repos', { name: 'race' })
    const remote = service.admin.remote('race')
    const commits: string[] = []
    for (let number = 0; number < 6; number++) {
      const tree = await project.git('rev-parse', 'HEAD^{tree}')
      commits.push(await project.git('commit-tree', '-m', `${number}`, tree))
    }
    const pushes = commits.map((commit) =>
      project.git('push', '--quiet', remote, `${commit}:refs/heads/main`),
    )
    const ends = await Promise.allSettled(pushes)
    assert.equal(ends.filter(({ status }) => status === 'fulfilled').length, 1)
    const winner = commits[ends.findIndex(({ status }) => status === 'fulfilled')]
    assert.ok((await refsOf('race')).includes(`${winner}\trefs/heads/main`))
    const { path } = (await service.admin.get('/repos/race')).body
    for (const commit of commits.filter((one) => one !== winner)) {
      await assert.rejects(git(path, ['cat-file', '-e', commit]))
    }
  })
})
