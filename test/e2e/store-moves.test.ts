// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { globSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { openExistingApp } from '#app.ts'
import { faultSteps } from '#base/fault-points.ts'
import { createLog } from '#base/log.ts'
import { newTokenString } from '#base/token-string.ts'
import { readSettings } from '#config/settings.ts'
import { backUp } from '#ops/backup/backup.ts'
import { runSvc } from '../support/command.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { openObjectStore, withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { mustClaim, wholeRun } from '../support/run-by-hand.ts'
import { archiveOf, getBytes, put } from '../support/run-files.ts'
import { type Service, startService } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const names = ['first', 'second', 'empty']

describe('repositories move into a shared store, and out of it', {
  skip: without('postgres') || withoutObjectStore,
}, () => {
  const resources = new AsyncDisposableStack()
  let folder: string
  let common: Record<string, string>
  let stored: Record<string, string>
  let dataDir: string
  let refs: string[]
  let overwritten: string
  /** The address of an artifact. */
  let artifact: string
  let deleted: string
  const large = randomBytes(100_000)

  before(async () => {
    folder = resources.use(await temporaryFolder()).path
    const database = await createPostgresDatabase()
    resources.defer(database.drop)
    const store = resources.use(await openObjectStore())
    common = {
      SVC_DATABASE_URL: database.url,
      SVC_ADMIN_TOKEN: newTokenString(),
      SVC_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      SVC_SSH_PORT: 'off',
    }
    stored = { ...common, ...store.env }
    dataDir = join(folder, 'data')
    await using project = await createProject()
    await using service = await startService({ env: common, dataDir })
    for (const name of names) await service.admin.post('/repos', { name })
    await project.git('tag', '-a', '-m', 'first', 'v1')
    for (const name of ['first', 'second']) {
      await project.git('push', '--quiet', service.admin.remote(name), 'HEAD:trunk', 'v1')
      await service.admin.patch(`/repos/${name}`, { defaultBranch: 'trunk' })
    }
    await pushFiles(service.admin, 'first', oneStep('true'), { branch: 'ci' })
    await service.admin.post('/repos/first/workflows', { branch: 'ci' })
    const run = await mustClaim(service.admin)
    await put(run, 'artifacts?name=a', archiveOf('a', 'kept'))
    await run.report(...wholeRun())
    artifact = `/repos/first/workflows/${run.plan.runId}/artifacts/a?format=tar.zst`
    assert.equal((await transferLarge(service, { method: 'PUT', body: large })).status, 200)
    // The tests restore it wherever it gets.
    await service.admin.post('/repos', { name: 'deleted' })
    await project.git('push', '--quiet', service.admin.remote('deleted'), 'HEAD:trunk', 'v1')
    deleted = (await git('/', ['ls-remote', service.admin.remote('deleted')])).stdout
    await service.admin.delete('/repos/deleted')
    overwritten = (await project.git('rev-parse', 'HEAD')).trim()
    await project.git('commit', '--quiet', '--amend', '-m', 'another')
    await project.git('push', '--quiet', '--force', service.admin.remote('first'), 'HEAD:trunk')
    refs = await refsOf(service)
    await service.end('SIGTERM')
  })

  after(() => resources.disposeAsync())

  async function refsOf(service: Service): Promise<string[]> {
    const all = names.map(async (name) => {
      const { stdout } = await git('/', ['ls-remote', '--symref', service.admin.remote(name)])
      return `${name}\n${stdout}`
    })
    return Promise.all(all)
  }

  /** Uploads an object of Git LFS, or downloads it. */
  function transferLarge({ url, adminToken }: Service, options: RequestInit = {}) {
    const oid = createHash('sha256').update(large).digest('hex')
    const headers = { authorization: `Bearer ${adminToken}` }
    return fetch(`${url}/repos/first.git/info/lfs/objects/${oid}`, { ...options, headers })
  }

  async function assertHasLarge(service: Service): Promise<void> {
    const download = await transferLarge(service)
    assert.deepEqual(Buffer.from(await download.arrayBuffer()), large)
  }

  /** Restores the deleted repository, and deletes it again. */
  async function assertRestorable({ admin }: Service): Promise<void> {
    const [{ id }] = (await admin.get('/deleted-repos')).body
    const answer = await admin.post(`/deleted-repos/${id}/restore`)
    assert.equal(answer.status, 200, answer.text)
    assert.equal((await git('/', ['ls-remote', admin.remote('deleted')])).stdout, deleted)
    assert.equal((await admin.delete('/repos/deleted')).status, 204)
  }

  /** Runs a server that must refuse to start, and returns why. */
  async function startRefused(env: Record<string, string>): Promise<string> {
    const { code, err } = await runSvc(['serve'], { ...env, SVC_PORT: '0', SVC_DATA_DIR: dataDir })
    assert.equal(code, 1)
    return err
  }

  test('a server with the store does not start before they were moved', async () => {
    assert.match(
      await startRefused(stored),
      /The repository first is not in the store of SVC_STORE\. Run svc store adopt/,
    )
  })

  test('svc store adopt needs a store', async () => {
    const { code, err } = await runSvc(['store', 'adopt'], { ...common, SVC_DATA_DIR: dataDir })
    assert.equal(code, 2)
    assert.match(err, /Set SVC_STORE/)
  })

  test('svc store adopt continues after it was killed, and then nodes have everything', async () => {
    const env = { ...stored, SVC_DATA_DIR: dataDir }
    for (const step of faultSteps.filter((name) => name.startsWith('adopt.'))) {
      const killed = await runSvc(['store', 'adopt'], { ...env, SVC_FAULT_POINT: step })
      assert.equal(killed.code, null)
    }
    const { code, out, err } = await runSvc(['store', 'adopt', '--json'], env)
    assert.equal(code, 0, err)
    assert.deepEqual(JSON.parse(out), {
      adopted: ['second', 'empty', 'deleted'],
      refused: [],
      runFiles: 0,
    })
    const again = await runSvc(['store', 'adopt'], env)
    assert.equal(again.out, '0 repositories moved.\n')

    await using node = await startService({ env: stored })
    assert.deepEqual(await refsOf(node), refs)
    assert.deepEqual((await getBytes(node.admin, artifact)).bytes, archiveOf('a', 'kept'))
    await assertHasLarge(node)
    await assertRestorable(node)
    const [last] = (await node.admin.get('/repos/first/pushes')).body
    const undone = await node.admin.post(`/repos/first/pushes/${last.id}/undo`)
    assert.equal(undone.status, 200, undone.text)
    const { stdout } = await git('/', ['ls-remote', node.admin.remote('first'), 'trunk'])
    assert.equal(stdout.slice(0, 40), overwritten)
    refs = await refsOf(node)
  })

  test('a server without the store does not start any more', async () => {
    assert.match(
      await startRefused(common),
      /The repository first is in a shared store: set SVC_STORE/,
    )
  })

  test('a backup of the store can be restored into directories, and into another store', async () => {
    const to = join(folder, 'backup')
    await using node = await startService({ env: stored, dataDir: join(folder, 'node') })
    const backedUp = await runSvc(['backup', to], { ...stored, SVC_DATA_DIR: node.dataDir })
    assert.equal(backedUp.code, 0, backedUp.err)
    const verified = await runSvc(['backup', 'verify', to], {})
    assert.equal(verified.code, 0, verified.err)

    const { SVC_ADMIN_TOKEN = '', SVC_ENCRYPTION_KEY = '' } = common
    const plain = join(folder, 'plain')
    const restored = await runSvc(['restore', to], { SVC_DATA_DIR: plain })
    assert.equal(restored.code, 0, restored.err)
    await using service = await startService({
      env: { SVC_ADMIN_TOKEN, SVC_ENCRYPTION_KEY },
      dataDir: plain,
    })
    assert.deepEqual(await refsOf(service), refs)
    await assertHasLarge(service)
    await assertRestorable(service)

    const database = await createPostgresDatabase({ isEmpty: true })
    resources.defer(database.drop)
    const elsewhere = {
      ...common,
      SVC_DATABASE_URL: database.url,
      SVC_DATA_DIR: join(folder, 'moved'),
    }
    const { env: place } = resources.use(await openObjectStore())
    const moved = await runSvc(['restore', to], elsewhere)
    assert.equal(moved.code, 0, moved.err)
    // One whose refs cannot be read is not taken for empty.
    const [directory = ''] = globSync(join(folder, 'moved/repositories/*/*.git'))
    const head = await readFile(join(directory, 'HEAD'))
    await writeFile(join(directory, 'HEAD'), 'ref: refs/heads/.invalid\n')
    const hindered = await runSvc(['store', 'adopt', '--json'], { ...elsewhere, ...place })
    const [refusal] = JSON.parse(hindered.out).refused
    assert.match(refusal.reason, /^its refs cannot be read; svc doctor says why/)
    await writeFile(join(directory, 'HEAD'), head)
    const adopted = await runSvc(['store', 'adopt'], { ...elsewhere, ...place })
    assert.equal(adopted.code, 0, adopted.err)
    await using other = await startService({
      env: { ...common, ...place, SVC_DATABASE_URL: database.url },
    })
    assert.deepEqual(await refsOf(other), refs)
    await assertHasLarge(other)
    await assertRestorable(other)
  })

  test('a backup has what was deleted after its rows were read', async () => {
    await using node = await startService({ env: stored, dataDir: join(folder, 'empty-node') })
    const settings = readSettings({ ...stored, SVC_DATA_DIR: node.dataDir })
    const log = createLog({ level: 'silent', output: process.stderr })
    const path = process.env.PATH ?? ''
    await using app = await openExistingApp({ settings, log, path, version: '0.0.0' })
    const faultPoint = (step: string) => {
      if (step !== 'backup.rows') return
      const authorization = `Authorization: Bearer ${node.adminToken}`
      execFileSync('curl', ['-sS', '-X', 'DELETE', '-H', authorization, `${node.url}/repos/second`])
    }
    const to = join(folder, 'late')
    const { signal } = new AbortController()
    await backUp(
      { ...app, faultPoint },
      { to, withKeys: false, recheck: false, report() {}, signal },
    )
    assert.equal((await node.admin.get('/repos/second')).status, 404)
    const { code, err } = await runSvc(['backup', 'verify', to], {})
    assert.equal(code, 0, err)
    const restored = await runSvc(['restore', to], { SVC_DATA_DIR: join(folder, 'with-all') })
    assert.match(restored.out, /^Restored 4 repositories /)
  })
})
