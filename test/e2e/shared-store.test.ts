import assert from 'node:assert/strict'
import { hash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { newId } from '#base/ids.ts'
import { createLog } from '#base/log.ts'
import { newTokenString } from '#base/token-string.ts'
import { openDatabase } from '#database/database.ts'
import { deleteUnneeded } from '#repositories/store/collector.ts'
import { withUploads } from '#repositories/store/uploads.ts'
import { runSvc } from '../support/command.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { type ObjectStore, openObjectStore, withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'
import { withClockAhead } from '../support/shifted-clock.ts'

const skip = withoutObjectStore || without('postgres')
// More than what is stored in the database.
const largeBytes = 300_000
const [lostId, keptId] = [newId(), newId()]
const log = createLog({ level: 'silent', output: process.stderr })

type Transfer = { actions: { upload: { href: string } } }

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
      SVC_SSH_PORT: 'off',
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
    for await (const { key } of client.list('')) if (key !== 'instance') keys.push(key)
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

  /** Uploads an object of Git LFS through the server; returns its id. */
  async function uploadLfs(name: string): Promise<string> {
    const bytes = randomBytes(largeBytes)
    const oid = hash('sha256', bytes)
    const response = await fetch(`${service.url}/repos/${name}.git/info/lfs/objects/${oid}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${service.adminToken}` },
      body: bytes,
    })
    assert.equal(response.status, 200)
    return oid
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

  test('objects of Git LFS that S3 does not store in one request pass the server', async () => {
    await service.admin.post('/repos', { name: 'large-files' })
    const sizes = [5 * 1024 ** 3, 5 * 1024 ** 3 + 1]
    const objects = sizes.map((size, index) => ({ oid: String(index).repeat(64), size }))
    const address = '/repos/large-files.git/info/lfs/objects/batch'
    const { body } = await service.admin.post(address, { operation: 'upload', objects })
    const origins = body.objects.map(({ actions }: Transfer) => new URL(actions.upload.href).origin)
    assert.deepEqual(origins, [store.address.endpoint, service.url])
  })

  test('clients of a repository with many announced uploads upload through the server', async () => {
    const { id } = (await service.admin.post('/repos', { name: 'announced' })).body
    const announce = `insert into uploads (key, node, begun_at, state, repository_id)
      select 'announced-' || number, '', extract(epoch from now()) * 1000, 'open', $1
      from generate_series(1, 9999) as number`
    await query(announce, [id])
    const objects = [{ oid: 'a'.repeat(64), size: 1 }]
    const address = '/repos/announced.git/info/lfs/objects/batch'
    const upload = { operation: 'upload', objects }
    const origins: string[] = []
    for (const _ of [1, 2]) {
      const { body } = await service.admin.post(address, upload)
      origins.push(new URL(body.objects[0].actions.upload.href).origin)
    }
    assert.deepEqual(origins, [store.address.endpoint, service.url])
    await query(`delete from uploads where key like 'announced-%'`, [])
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

  test(
    'maintenance replaces many packs by one, and what it replaced is deleted an hour later',
    exhaustive,
    async () => {
      await service.admin.post('/repos', { name: 'busy' })
      const remote = service.admin.remote('busy')
      for (let number = 0; number < 5; number++) {
        await commitLarge(`busy-${number}`)
        await project.git('push', '--quiet', remote, 'HEAD:main')
      }
      const before = await refsOf('busy')
      const { id } = (await service.admin.get('/repos/busy')).body
      const ownKeys = async () => (await keysInStore()).filter((key) => key.startsWith(id))
      assert.equal((await ownKeys()).length, 2 * 5)
      const command = { ...env, SVC_DATA_DIR: service.dataDir }
      const { code, err } = await runSvc(['repos', 'maintain', 'busy'], command)
      assert.equal(code, 0, err)
      const live = `select key from packs where repository_id = $1 and retired_at is null`
      assert.equal((await query(live, [id])).length, 1)
      assert.equal((await ownKeys()).length, 2 * 6)
      await replaceNode()
      assert.equal(await refsOf('busy'), before)
      await assertClones('busy')

      await query(`update packs set retired_at = retired_at - 3600001 where repository_id = $1`, [
        id,
      ])
      await collectNow()
      assert.equal((await ownKeys()).length, 2)
      await assertClones('busy')
    },
  )

  test('a deleted repository keeps its files, and another node restores it', async () => {
    await service.admin.post('/repos', { name: 'away' })
    await commitLarge('away')
    await project.git('push', '--quiet', service.admin.remote('away'), 'HEAD:main')
    const { id, path } = (await service.admin.get('/repos/away')).body
    await service.admin.delete('/repos/away')
    assert.ok(!existsSync(path))
    await collectNow()
    await replaceNode()
    await assert.rejects(git('/', ['ls-remote', service.admin.remote('away')]))
    assert.equal((await service.admin.post(`/deleted-repos/${id}/restore`)).status, 200)
    await assertClones('away')
  })

  test('files of purged repositories and of uploads that were never committed are deleted', async () => {
    await service.admin.post('/repos', { name: 'dropped' })
    await commitLarge('dropped')
    await project.git('push', '--quiet', service.admin.remote('dropped'), 'HEAD:main')
    const { id } = (await service.admin.get('/repos/dropped')).body
    const ownKeys = async () => (await keysInStore()).filter((key) => key.startsWith(id))
    assert.equal((await ownKeys()).length, 2)
    await service.admin.delete('/repos/dropped')
    await collectNow()
    assert.equal((await ownKeys()).length, 2)
    assert.equal((await service.admin.delete(`/deleted-repos/${id}`)).status, 204)
    {
      await using client = store.connect()
      await client.put(`${id}/left.pack`, Buffer.from('left'))
    }
    const opened = 'extract(epoch from now()) * 1000'
    await query(`insert into uploads values ($1, '', ${opened}, 'open')`, [`${id}/left`])
    await collectNow()
    assert.deepEqual(await ownKeys(), [`${id}/left.pack`])
    await query(`update uploads set begun_at = begun_at - 3600001`, [])
    await collectNow()
    assert.deepEqual(await ownKeys(), [])
  })

  test('LFS objects that no pointer has named for two weeks are deleted from the bucket', async () => {
    await service.admin.post('/repos', { name: 'pictures' })
    const [named, unnamed] = [await uploadLfs('pictures'), await uploadLfs('pictures')]
    const size = largeBytes
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${named}\nsize ${size}\n`
    await project.commit('picture.png', pointer)
    await project.git('push', '--quiet', service.admin.remote('pictures'), 'HEAD:main')
    await query('update lfs_objects set renewed_at = 0', [])
    const command = { ...env, SVC_DATA_DIR: service.dataDir }
    const { code, err } = await runSvc(['repos', 'maintain', 'pictures', '--full'], command)
    assert.equal(code, 0, err)
    await collectNow()
    const keys = (await keysInStore()).filter((key) => key.startsWith('lfs/'))
    assert.deepEqual(
      keys.map((key) => key.split('/')[2]),
      [named],
    )
    const objects = [named, unnamed].map((oid) => ({ oid, size }))
    const batch = { operation: 'download', objects }
    const path = '/repos/pictures.git/info/lfs/objects/batch'
    const { body } = await service.admin.post(path, batch)
    assert.ok(body.objects[0].actions.download)
    assert.equal(body.objects[1].error.code, 404)
  })

  test(
    'an upload is renewed while it runs, and fails once it was taken back',
    exhaustive,
    async () => {
      const db = await openDatabase({ dataDir: '', url: database.url, log })
      const key = 'renewed'
      const uploads = async () => query('select begun_at, state from uploads where key = $1', [key])
      const uploading = withUploads({ db, node: 'test' }, async ({ open, signal }) => {
        await open(key)
        const [opened] = await uploads()
        await until('it is renewed', async () => (await uploads())[0].begun_at > opened.begun_at)
        await query(`update uploads set state = 'dead' where key = $1`, [key])
        await until('it is aborted', () => signal.aborted)
        signal.throwIfAborted()
      })
      await assert.rejects(uploading, /another server took back the upload/)
      await db.destroy()
    },
  )

  test(
    'a server that is killed while it imports leaves nothing, and the next one says so',
    exhaustive,
    async () => {
      await query(
        `insert into repositories (id, name, name_key, owner_token_id, owner_username, created_at, state)
        values ($1, 'lost', 'lost', '', 'admin', 1, 'importing'), ($2, 'kept', 'kept', '', 'admin', 1, 'importing')`,
        [lostId, keptId],
      )
      const values = `'', 'admin', 'x', 'counting', 0, 1`
      await query(
        `insert into imports (repository_id, name, name_key, owner_token_id, owner_username, source, phase, progress, started_at, node)
        values ($1, 'lost', 'lost', ${values}, 'lost node'), ($2, 'kept', 'kept', ${values}, 'other node')`,
        [lostId, keptId],
      )
      const now = 'extract(epoch from now()) * 1000'
      await query(
        `insert into nodes values ('lost node', 1, ${now} - 11000), ('other node', 1, ${now} + 60000)`,
        [],
      )
      await replaceNode()
      assert.equal((await service.admin.get('/repos/lost')).body.state, 'failed')
      assert.equal((await service.admin.get('/repos/kept')).body.state, 'importing')
      await query(`delete from nodes where id = 'other node'`, [])
      await replaceNode()
      assert.equal((await service.admin.get('/repos/kept')).body.state, 'failed')
    },
  )

  test('a node whose clock is an hour ahead stores large packs, and has the time of the others', {
    ...exhaustive,
    skip: without('faketime'),
  }, async () => {
    await using fast = await startService({ env: { ...env, ...withClockAhead(60) } })
    await fast.admin.post('/repos', { name: 'fast' })
    await commitLarge('fast')
    await project.git('push', '--quiet', fast.admin.remote('fast'), 'HEAD:main')
    await assertClones('fast')
    const { body: pushes } = await service.admin.get('/repos/fast/pushes')
    const minutesAhead = (pushes[0].pushedAt - Date.now()) / 60_000
    assert.ok(Math.abs(minutesAhead) < 30, `${minutesAhead} minutes ahead`)
  })

  test('the doctor compares the packs with the bucket', exhaustive, async () => {
    const examine = async () => {
      const command = { ...env, SVC_DATA_DIR: service.dataDir }
      const { out } = await runSvc(['doctor', '--json'], command)
      const all: { check: string; level: string; found: string; fix: string }[] = JSON.parse(out)
      assert.deepEqual(
        all.filter(({ check, level }) => level === 'fault' && !/port|store/.test(check)),
        [],
      )
      return all.filter(({ check }) => check === 'store')
    }
    await service.admin.post('/repos', { name: 'lossy' })
    await commitLarge('lossy')
    await project.git('push', '--quiet', service.admin.remote('lossy'), 'HEAD:main')
    assert.deepEqual(
      (await examine()).map(({ level }) => level),
      ['ok'],
    )
    const { id } = (await service.admin.get('/repos/lossy')).body
    await using client = store.connect()
    for (const key of await keysInStore()) {
      if (key.startsWith(id) && key.endsWith('.pack')) await client.delete(key)
    }
    const oid = await uploadLfs('lossy')
    const lostKey = (await keysInStore()).find((key) => key.startsWith(`lfs/${id}/${oid}/`)) ?? ''
    await client.delete(lostKey)
    const [lostPack, lostObject, ...others] = await examine()
    assert.deepEqual(others, [])
    assert.match(
      `${lostPack?.level}: ${lostPack?.found}`,
      /^fault: .*\.pack of lossy is missing in the bucket\.$/,
    )
    assert.match(lostPack?.fix ?? '', /maintain --full lossy/)
    assert.equal(lostObject?.found, `${lostKey} of lossy is missing in the bucket.`)
    assert.ok(lostObject?.fix.endsWith(`: aws s3 cp FILE s3://BUCKET/PREFIX/${lostKey}`))
  })

  async function query(text: string, values: string[]) {
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    try {
      return (await client.query(text, values)).rows
    } finally {
      await client.end()
    }
  }

  /** Runs what a server does each minute. */
  async function collectNow(): Promise<void> {
    const db = await openDatabase({ dataDir: '', url: database.url, log })
    await using storage = store.connect()
    await deleteUnneeded({ db, storage, log })
    await db.destroy()
  }
})
