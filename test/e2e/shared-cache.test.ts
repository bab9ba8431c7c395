// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { newId } from '#base/ids.ts'
import { until } from '../support/condition.ts'
import { createProject, git, type Project, spawnGit, temporaryFolder } from '../support/git.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { startService } from '../support/service.ts'
import { type StoreSite, startStoreSite } from '../support/store-site.ts'

const skip = withoutObjectStore || without('postgres')

describe('the cache of a node with a shared store', { skip }, () => {
  let site: StoreSite
  let project: Project

  before(async () => {
    site = await startStoreSite()
    project = await createProject()
  })

  after(async () => {
    await site[Symbol.asyncDispose]()
    await project[Symbol.asyncDispose]()
  })

  async function createPushed(name: string): Promise<string> {
    const { body } = await site.service.admin.post('/repos', { name })
    await project.git('push', '--quiet', site.service.admin.remote(name), 'HEAD:main')
    return body.id
  }

  test('what was not used for longest goes when it is too large, unless a process uses it', async () => {
    const dataDir = join(site.folder, 'evicting')
    const ids = [await createPushed('idle'), await createPushed('busy'), await createPushed('used')]
    const pathsOf: string[] = []
    {
      await using earlier = await site.openStore(dataDir)
      for (const id of ids) pathsOf.push(await earlier.open(id))
    }
    const [idle = '', busy = '', used = ''] = pathsOf
    await using store = await site.openStore(dataDir, { cacheMaxBytes: 1 })
    await store.open(ids[2] ?? '')
    const reader = spawnGit('/', [`--git-dir=${busy}`, 'cat-file', '--batch'])
    await store.sweep()
    assert.deepEqual([idle, busy, used].map(existsSync), [false, true, true])
    reader.stdin?.end()
    await until('the reader has ended', () => reader.exitCode !== null)
    await store.sweep()
    assert.deepEqual([idle, busy, used].map(existsSync), [false, false, true])
    for (const id of ids) {
      const path = await store.open(id)
      await git('/', [`--git-dir=${path}`, 'fsck', '--strict'])
    }
  })

  test('a read that fails has ended its downloads, and succeeds when repeated', async () => {
    const id = await createPushed('failing')
    await writeFile(join(project.path, 'large'), randomBytes(32 * 1024 ** 2))
    await project.git('add', '.')
    await project.git('commit', '--quiet', '-m', 'large')
    await project.git('push', '--quiet', site.service.admin.remote('failing'), 'HEAD:main')
    const database = new pg.Client(site.env.SVC_DATABASE_URL)
    await database.connect()
    await using _ended = { [Symbol.asyncDispose]: () => database.end() }
    const swap = 'update packs set pack = idx, idx = pack where repository_id = $1'
    await database.query(swap, [id])
    await using store = await site.openStore(join(site.folder, 'failing'))
    await assert.rejects(store.open(id), /is damaged in the store/)
    const packs = join(site.folder, 'failing', 'cache')
    const files = await readdir(packs, { recursive: true })
    assert.deepEqual(
      files.filter((name) => name.includes('tmp_svc_')),
      [],
    )
    await database.query(swap, [id])
    await git('/', [`--git-dir=${await store.open(id)}`, 'fsck', '--strict'])
  })

  test('files that are lost while the node runs are read again with the next request', async () => {
    const { admin, dataDir } = site.service
    await createPushed('lost')
    const { path } = (await admin.get('/repos/lost')).body
    const packs = join(path, 'objects/pack')
    const ofPack = async (ending: string) => {
      const name = (await readdir(packs)).find((found) => found.endsWith(ending))
      return join(packs, name ?? 'none')
    }
    const losses: [string, () => Promise<string>][] = [
      ['the directory', async () => path],
      ['its folder', async () => dirname(path)],
      ['the cache', async () => join(dataDir, 'cache')],
      ['packed-refs', async () => join(path, 'packed-refs')],
      ['HEAD', async () => join(path, 'HEAD')],
      ['config', async () => join(path, 'config')],
      ['refs', async () => join(path, 'refs')],
      ['objects', async () => join(path, 'objects')],
      ['the folder of packs', async () => packs],
      ['a pack', () => ofPack('.pack')],
      ['an index', () => ofPack('.idx')],
    ]
    const reads = {
      refs: async () => {
        await project.git('ls-remote', '--exit-code', admin.remote('lost'), 'main')
      },
      clone: async () => {
        await using target = await temporaryFolder()
        await git(target.path, ['clone', '--quiet', admin.remote('lost'), 'clone'])
        await git(join(target.path, 'clone'), ['fsck', '--strict'])
      },
      file: async () => {
        const { status, text } = await admin.get('/repos/lost/commits?rev=main')
        assert.equal(status, 200, text)
      },
      health: async () => assert.equal((await admin.get('/health')).status, 200),
      push: async () => {
        await project.commit(`more-${newId()}`)
        await project.git('push', '--quiet', admin.remote('lost'), 'HEAD:main')
      },
    }
    for (const [name, find] of losses) {
      for (const [kind, read] of Object.entries(reads)) {
        // It starts what reads objects for requests.
        await admin.get('/repos/lost/commits?rev=main')
        await rm(await find(), { recursive: true })
        await read().catch((error) => assert.fail(`${kind} after ${name}: ${error}`))
        if (kind !== 'health') await git('/', [`--git-dir=${path}`, 'fsck', '--strict'])
      }
    }
  })

  test('a node that starts empty indexes a repository with many packs, and clones by the bitmap', async () => {
    await createPushed('packs')
    for (let number = 0; number < 25; number++) {
      await project.commit(`packs-${number}.txt`)
      await project.git('push', '--quiet', site.service.admin.remote('packs'), 'HEAD:main')
    }
    await using empty = await startService({ env: { ...site.env, SVC_MAINTENANCE_PUSHES: '50' } })
    const { path } = (await empty.admin.get('/repos/packs')).body
    const bitmaps = async () =>
      (await readdir(join(path, 'objects/pack'))).filter((name) => name.endsWith('.bitmap'))
    await until('there is a bitmap', async () => (await bitmaps()).length === 1)
    await using target = await temporaryFolder()
    const clone = join(target.path, 'clone')
    await git('/', ['clone', '--quiet', empty.admin.remote('packs'), clone])
    await git(clone, ['fsck', '--strict'])

    // A push on the other node comes in between, and the index stays valid.
    await project.commit('packs-last.txt')
    await project.git('push', '--quiet', site.service.admin.remote('packs'), 'HEAD:main')
    await git(clone, ['pull', '--quiet'])
    await git('/', [`--git-dir=${path}`, 'fsck', '--strict'])
  })
})
