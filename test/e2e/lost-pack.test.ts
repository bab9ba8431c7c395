// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { runSvc } from '../support/command.ts'
import { examine } from '../support/doctor.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { startService } from '../support/service.ts'
import { type StoreSite, startStoreSite } from '../support/store-site.ts'

/** How a pack is harmed in the bucket. */
const harms = ['lost', 'cut', 'changed'] as const

describe('a repository with a pack that the bucket has lost', {
  skip: without('postgres') || withoutObjectStore,
}, () => {
  const resources = new AsyncDisposableStack()
  let site: StoreSite
  let folder: string

  before(async () => {
    folder = resources.use(await temporaryFolder()).path
    site = resources.use(await startStoreSite())
    for (const name of ['whole', ...harms]) await pushLarge(name)
  })

  after(() => resources.disposeAsync())

  async function pushLarge(name: string): Promise<void> {
    await using project = await createProject()
    await writeFile(join(project.path, 'large'), randomBytes(200 * 1024))
    await project.git('add', '.')
    await project.git('commit', '--quiet', '-m', 'large')
    await site.service.admin.post('/repos', { name })
    await project.git('push', '--quiet', site.service.admin.remote(name), 'HEAD:main')
  }

  /** Harms a pack of a repository in the bucket. */
  async function harm(name: string, how: (typeof harms)[number]): Promise<void> {
    const { id } = (await site.service.admin.get(`/repos/${name}`)).body
    await using bucket = site.connectBucket()
    for await (const { key } of bucket.list(`${id}/`)) {
      if (!key.endsWith('.pack')) continue
      const bytes = await bucket.get(key)
      await bucket.delete(key)
      if (how === 'cut') await bucket.put(key, bytes.subarray(1))
      if (how === 'changed') await bucket.put(key, Buffer.from(bytes).fill(0, 100, 101))
    }
  }

  const nodeEnv = () => ({ ...site.env, SVC_PORT: '0' })

  /** Backs up on a node that has nothing in its cache. */
  async function backUp(to: string) {
    const dataDir = join(folder, `cold-${randomBytes(4).toString('hex')}`)
    await using node = await startService({ env: site.env, dataDir })
    await node.end('SIGTERM')
    const ran = await runSvc(['backup', '--json', to], { ...nodeEnv(), SVC_DATA_DIR: dataDir })
    const verified = await runSvc(['backup', 'verify', to])
    assert.equal(verified.code, 0, verified.out)
    return { ...ran, damaged: JSON.parse(ran.out).damaged }
  }

  test('is named by a backup, which has all others, and itself as the previous backup had it', async () => {
    const [first, second] = [join(folder, 'first'), join(folder, 'second')]
    assert.equal((await backUp(first)).code, 0)
    for (const how of harms) await harm(how, how)
    for (const [to, isKept] of [
      [first, true],
      [second, false],
    ] as const) {
      const { code, err, damaged } = await backUp(to)
      assert.equal(code, 1)
      for (const name of harms) assert.match(err, new RegExp(`the repository ${name} is damaged: `))
      assert.match(err, /3 repositories could not be backed up; everything else was/)
      const names = damaged.map(({ name }: { name: string }) => name)
      assert.deepEqual(names.sort(), [...harms].sort())
      for (const one of damaged) assert.equal(one.isKept, isKept)
      const dataDir = `${to}-restored`
      assert.equal((await runSvc(['restore', to], { SVC_DATA_DIR: dataDir })).code, 0)
      const { SVC_ADMIN_TOKEN = '', SVC_ENCRYPTION_KEY = '' } = site.env
      await using restored = await startService({
        dataDir,
        env: { SVC_ADMIN_TOKEN, SVC_ENCRYPTION_KEY },
      })
      const target = join(folder, `${isKept}`)
      for (const name of isKept ? ['whole', ...harms] : ['whole'])
        await git('/', ['clone', '--quiet', restored.admin.remote(name), join(target, name)])
    }
  })

  test('is repaired from a cache by the command that the doctor names', async () => {
    const options = { dataDir: site.service.dataDir, env: nodeEnv(), args: ['--no-fsck'] }
    const found = (await examine(options)).of('store')
    for (const name of ['lost', 'cut']) {
      const { fix = '' } = found.find((one) => one.found.includes(` of ${name} `)) ?? {}
      const [, command = ''] = /: svc (repos maintain --full \S+)\. If none/.exec(fix ?? '') ?? []
      assert.equal(command, `repos maintain --full ${name}`)
      const env = { ...nodeEnv(), SVC_DATA_DIR: site.service.dataDir }
      const { code, err } = await runSvc(command.split(' '), env)
      assert.equal(code, 0, err)
      await using cold = await startService({ env: site.env })
      await git('/', ['clone', '--quiet', cold.admin.remote(name), join(folder, `clone-${name}`)])
    }
    const after = (await examine(options)).of('store')
    assert.ok(!after.some(({ level }) => level === 'fault'), JSON.stringify(after))
  })
})
