// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { until } from '../support/condition.ts'
import { freePort } from '../support/free-port.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { createClient, type Service, startService } from '../support/service.ts'
import { smallDisk, withoutMounts } from '../support/small-disk.ts'
import { createSshUser } from '../support/ssh-user.ts'
import { type StoreSite, startStoreSite } from '../support/store-site.ts'

const skip =
  withoutObjectStore || without('postgres') || without('openssh') || (await withoutMounts())
const mib = 1024 ** 2
// Two of them fit on the disk.
const repositoryBytes = 24 * mib
const names = ['first', 'second', 'third', 'fourth']

describe('a node with a full cache', { skip }, () => {
  let site: StoreSite
  let project: Project

  before(async () => {
    site = await startStoreSite()
    project = await createProject()
    for (const name of names) {
      await site.service.admin.post('/repos', { name })
      await project.git('checkout', '--quiet', '--orphan', name)
      await writeFile(join(project.path, 'large'), randomBytes(repositoryBytes))
      await project.git('add', '.')
      await project.git('commit', '--quiet', '-m', name)
      await project.git('push', '--quiet', site.service.admin.remote(name), 'HEAD:main')
    }
  })

  after(async () => {
    await project?.[Symbol.asyncDispose]()
    await site?.[Symbol.asyncDispose]()
  })

  async function clone(node: Pick<Service, 'admin'>, name: string): Promise<void> {
    await using target = await temporaryFolder()
    await git(target.path, ['clone', '--quiet', node.admin.remote(name), 'clone'])
  }

  test('frees space for what is read and pushed, and is unhealthy when it cannot', async () => {
    await using disk = await smallDisk('80m')
    const dataDir = join(disk.path, 'data')
    await mkdir(dataDir, { mode: 0o700 })
    const hostKey = join(dataDir, 'ssh_host_ed25519_key')
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', hostKey])
    const more = {
      SVC_FREE_SPACE_MIN: '16MiB',
      SVC_SSH_HOST_KEY_FILE: hostKey,
      SVC_SSH_PORT: String(await freePort()),
    }
    await using node = await startService({ dataDir, env: { ...site.env, ...more } })
    await using user = await createSshUser(node, node.admin)
    for (const [round, name] of [...names, 'first'].entries()) {
      await clone(node, name)
      await project.git('push', '--quiet', node.admin.remote(name), `${name}:refs/heads/a-${round}`)
      await user.git(
        project.path,
        'push',
        '--quiet',
        user.remote(name),
        `${name}:refs/heads/b-${round}`,
      )
    }
    const health = () => fetch(`${node.url}/health`)
    await until('it is healthy', async () => (await health()).status === 200)
    const refused = await until('it is not healthy', async () => {
      // What it has cached goes first.
      await disk.fill(8 * mib)
      const response = await health()
      return response.status !== 200 && ((await response.json()) as { code: string })
    })
    assert.equal(refused.code, 'storage_full')
    const other = createClient(site.service.url, site.service.adminToken)
    assert.equal((await other.get('/health')).status, 200)
    await disk.empty()
    await until('it is healthy again', async () => (await health()).status === 200)
    await clone(node, 'first')
  })

  test('frees space again when others fill the disk during a download', async () => {
    await using disk = await smallDisk('64m')
    const ids: string[] = []
    for (const name of names) ids.push((await site.service.admin.get(`/repos/${name}`)).body.id)
    const [first = '', second = '', third = ''] = ids
    const paths: string[] = []
    {
      await using earlier = await site.openStore(disk.path)
      for (const id of [first, second]) paths.push(await earlier.open(id))
    }
    let measured = 0
    // As if others took the space once it is reserved, which measures it three times.
    const measure = async () => {
      const { bavail, bsize } = await statfs(disk.path)
      measured += 1
      const freeBytes = measured <= 3 ? repositoryBytes * 2 : bavail * bsize
      return { freeBytes, minFreeBytes: 0, freeFiles: 2 ** 20 }
    }
    await using store = await site.openStore(disk.path, { measure })
    await git('/', [`--git-dir=${await store.open(third)}`, 'fsck', '--strict'])
    assert.ok(paths.some((path) => !existsSync(path)))
  })
})
