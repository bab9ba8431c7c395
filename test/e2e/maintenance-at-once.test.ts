// Tags: exhaustive, each-store
import assert from 'node:assert/strict'
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { until } from '../support/condition.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { importHistory } from '../support/history.ts'
import { type Service, startService } from '../support/service.ts'

const garbage = 'not what git wrote'

let service: Service
let project: Project

describe('immediate maintenance', () => {
  before(async () => {
    service = await startService({ env: { SVC_MAINTENANCE_PUSHES: '50' } })
    project = await createProject()
    await project.git('update-ref', '-d', 'refs/heads/main')
    // Each commit has a blob and two trees.
    await importHistory(project.path, { commits: 3500 })
    await project.git('branch', '--move', 'trunk')
  })

  after(async () => {
    await project[Symbol.asyncDispose]()
    await service[Symbol.asyncDispose]()
  })

  test('follows an import, and replaces the packs of the source', async () => {
    await using folder = await temporaryFolder()
    const source = join(folder.path, 'source.git')
    await git('/', ['clone', '--quiet', '--bare', project.path, source])
    await git(source, ['repack', '-a', '-d', '--quiet', '--write-bitmap-index', '--write-midx'])
    await git(source, ['commit-graph', 'write', '--reachable'])
    await spoil(join(source, 'objects'))
    const { body, status } = await service.admin.post('/repos/import', { source, name: 'imported' })
    assert.equal(status, 201)
    assert.equal(body.defaultBranch, 'trunk')
    await untilMaintained('imported')
    const objects = join(body.path, 'objects')
    const written = await shortcutsIn(objects)
    for (const kind of [/\.bitmap$/, /multi-pack-index$/, /commit-graph/]) {
      assert.ok(
        written.some((path) => kind.test(path)),
        `${kind} of ${written}`,
      )
    }
    for (const path of written)
      assert.notEqual(await readFile(join(objects, path), 'latin1'), garbage)
    await git(body.path, ['-c', 'safe.directory=*', 'multi-pack-index', 'verify'])
    await git(body.path, ['-c', 'safe.directory=*', 'commit-graph', 'verify'])
    await assertClones('imported', folder.path)
  })

  test('follows a push of very many objects, but not a small one', async () => {
    await using folder = await temporaryFolder()
    await using small = await createProject()
    for (const name of ['small', 'large']) await service.admin.post('/repos', { name })
    await small.git('push', service.admin.remote('small'), 'HEAD:refs/heads/main')
    await project.git('push', service.admin.remote('large'), 'trunk')
    await untilMaintained('large')
    // Both were counted together.
    const { body } = await service.admin.get('/repos/small')
    assert.deepEqual(body.maintenance, { state: 'idle', finishedAt: null })
    const copy = join(folder.path, 'copy')
    await git('/', ['clone', '--quiet', '--branch=trunk', service.admin.remote('large'), copy])
    assert.equal(
      (await git(copy, ['rev-parse', 'HEAD'])).stdout,
      await project.git('rev-parse', 'trunk'),
    )
  })
})

async function untilMaintained(name: string): Promise<void> {
  await until(`${name} is maintained`, async () => {
    const { body } = await service.admin.get(`/repos/${name}`)
    assert.notEqual(body.maintenance.state, 'failed', service.log())
    return body.maintenance.state === 'idle' && body.maintenance.finishedAt !== null
  })
}

async function assertClones(name: string, folder: string): Promise<void> {
  const copy = join(folder, 'copy')
  await git('/', ['clone', '--quiet', service.admin.remote(name), copy])
  assert.equal((await git(copy, ['symbolic-ref', '--short', 'HEAD'])).stdout, 'trunk')
  assert.equal(
    (await git(copy, ['rev-parse', 'HEAD'])).stdout,
    await project.git('rev-parse', 'trunk'),
  )
  await git(copy, ['fsck', '--connectivity-only'])
}

/** Overwrites all that spares git work, and adds what the source might have besides. */
async function spoil(objects: string): Promise<void> {
  const chain = join(objects, 'info', 'commit-graphs')
  await mkdir(chain, { recursive: true })
  await writeFile(join(chain, 'commit-graph-chain'), garbage)
  for (const path of await shortcutsIn(objects)) {
    await chmod(join(objects, path), 0o600)
    await writeFile(join(objects, path), garbage)
  }
}

/** The files below a folder of objects from which git reads what it would else work out. */
async function shortcutsIn(objects: string): Promise<string[]> {
  const paths = await readdir(objects, { recursive: true })
  return paths.filter((path) =>
    /\.(bitmap|rev|graph|mtimes)$|multi-pack-index|commit-graph(-chain)?$/.test(path),
  )
}
