import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { exhaustive } from '../support/exhaustive.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { createSource } from '../support/hostile-objects.ts'
import { type ImportSite, startImportSite } from '../support/import-site.ts'
import { launcher } from '../support/service.ts'
import { withoutMounts } from '../support/small-disk.ts'

const execute = promisify(execFile)

const noMounts = await withoutMounts()

const forbidden = {
  status: 403,
  code: 'source_forbidden',
  detail: /may not be imported from\. .*SVC_IMPORT_LOCAL_ROOTS/,
}

describe('paths of the server that cannot be imported', exhaustive, () => {
  let roots: Awaited<ReturnType<typeof temporaryFolder>>
  let site: ImportSite
  let member: Awaited<ReturnType<ImportSite['service']['client']>>
  /** The directory of a repository in the data directory. */
  let inside: string

  before(async () => {
    roots = await temporaryFolder()
    await mkdir(join(roots.path, 'git'))
    // One root is a symbolic link, one holds the data directory, one is nowhere.
    await symlink(join(roots.path, 'git'), join(roots.path, 'linked'))
    await mkdir(join(roots.path, 'all/data'), { recursive: true })
    const list = ['git', 'linked', 'all', 'nowhere'].map((name) => join(roots.path, name))
    site = await startImportSite({
      dataDir: join(roots.path, 'all/data'),
      env: { SVC_IMPORT_LOCAL_ROOTS: list.join(':') },
    })
    member = await site.service.client({ username: 'member' })
    const { body } = await site.service.admin.post('/repos', { name: 'site' })
    inside = body.path
  })

  after(async () => {
    await site[Symbol.asyncDispose]()
    await roots[Symbol.asyncDispose]()
  })

  test('a root is open to all users, by its path and by a link to it', async () => {
    await createSource(join(roots.path, 'git/open.git'))
    for (const path of ['git/open.git', 'linked/open.git', 'git//./open.git/']) {
      await site.imported(join(roots.path, '/') + path, member)
    }
    const work = join(roots.path, 'git/work')
    await git('/', ['clone', '--quiet', join(roots.path, 'git/open.git'), work])
    await site.imported(work, member)
    await site.imported(join(work, '.git'), member)
  })

  test('the data directory is closed to admins, under any path', async () => {
    const { dataDir, pid } = site.service
    const link = site.path('link')
    await symlink(dataDir, link)
    const linkInside = site.path('link')
    await symlink(inside, linkInside)
    const worktree = site.path('worktree')
    await mkdir(worktree)
    const rest = inside.slice(dataDir.length)
    const paths = [
      dataDir,
      inside,
      `${inside}/`,
      `//${inside.slice(1)}`,
      inside.replaceAll('/', '//'),
      `${dataDir}/./${rest}`,
      link,
      link + rest,
      linkInside,
      `/proc/${pid}/root${inside}`,
      `/proc/self/root${inside}`,
      `/proc/thread-self/root${inside}`,
      join(dataDir, 'staging'),
    ]
    await site.refusedAll(paths, forbidden)
  })

  test('the data directory is closed under a second mount', {
    skip: noMounts,
  }, async () => {
    const mounted = site.path('mounted')
    await mkdir(mounted)
    await execute('mount', ['--bind', site.service.dataDir, mounted])
    try {
      await site.refused(mounted + inside.slice(site.service.dataDir.length), forbidden)
    } finally {
      await execute('umount', ['--lazy', mounted])
    }
  })

  test('a .git that leads into the data directory is not followed', async () => {
    const path = site.path('worktree')
    await mkdir(path)
    await symlink(inside, join(path, '.git'))
    await site.refused(path, { detail: /"\.git" in the source is a symbolic link/ })
    await unlink(join(path, '.git'))
    await writeFile(join(path, '.git'), `gitdir: ${inside}\n`)
    await site.refused(path, { detail: /is a worktree or a submodule/ })
  })

  test('a root is not a mere prefix, and links out of it are not followed for members', async () => {
    const evil = join(roots.path, 'git-evil')
    await createSource(evil)
    await symlink(evil, join(roots.path, 'git/out'))
    await symlink(roots.path, join(roots.path, 'git/up'))
    await symlink(inside, join(roots.path, 'git/data'))
    await symlink('/etc/no-such-thing', join(roots.path, 'git/dangling'))
    const names = ['git-evil', 'git/out', 'git/up/git-evil', 'git/data', 'GIT/open.git', 'Git']
    // Existence is not revealed, either.
    const unseen = ['git/up/nothing', 'git/dangling', 'git/dangling/x', 'git/up/git-evil/HEAD/x']
    const all = [...names, ...unseen, 'nowhere/x', 'nowhere-else', '']
    const paths = all.map((name) => join(roots.path, name))
    await site.refusedAll(paths, forbidden, member)
    await site.refused(inside, forbidden, member)
    await site.refused('/', forbidden, member)
  })

  test('within a root, members get detailed errors about a path', async () => {
    const path = (name: string) => join(roots.path, 'git', name)
    await writeFile(path('file'), '')
    await mkdir(path('empty'))
    const nothing = /There is nothing at this path/
    await site.refused(path('nothing'), { detail: nothing }, member)
    await site.refused(path('nothing/at/all'), { detail: nothing }, member)
    await site.refused(path('file'), { detail: /is no folder/ }, member)
    await site.refused(path('file/x'), { detail: /is no folder/ }, member)
    await site.refused(path('empty'), { detail: /no Git repository at the source/ }, member)
  })

  test('anything but a folder is rejected: a bundle, a pipe, a socket, a device, a loop, a long name', async () => {
    const source = await createSource(site.path())
    const bundle = site.path('bundle')
    await git(source, ['bundle', 'create', '--quiet', bundle, '--all'])
    const pipe = site.path('pipe')
    await execute('mkfifo', [pipe])
    const socket = site.path('socket')
    const server = createServer().listen(socket)
    await once(server, 'listening')
    const loop = site.path('loop')
    await symlink(loop, loop)
    const detail = /is no folder\. A bundle is cloned first/
    await site.refusedAll([bundle, pipe, socket, '/dev/null', '/dev/zero', loop], { detail })
    server.close()
    await site.refused(`/${'x'.repeat(300)}`, { detail: /part that is too long/ })
    for (const path of ['/', '/proc', '/etc']) {
      await site.refused(path, { detail: /no Git repository at the source/ })
    }
    const withPipe = site.path('pipe')
    await mkdir(withPipe)
    await execute('mkfifo', [join(withPipe, '.git')])
    await site.refused(withPipe, { detail: /no Git repository at the source/ })
  })

  test('addresses that are commands, options and transports are rejected at once', async () => {
    const canary = site.canary('address')
    const addresses = [
      `ext::sh -c ${canary.replaceAll(' ', '% ')}`,
      `EXT::sh -c '${canary}'`,
      `fd::7`,
      `--upload-pack=${canary}`,
      `-u${canary}`,
      `file://${inside}`,
      `FILE:///etc`,
      `ssh://-oProxyCommand=${encodeURIComponent(canary)}/x`,
      `ssh://-oProxyCommand=x@127.0.0.1/x`,
      `ssh://127.0.0.1;${encodeURIComponent(canary)}/x`,
      `git://127.0.0.1:9/x\n--upload-pack=${canary}`,
      `127.0.0.1:x`,
      `../../etc`,
      `~root/x`,
      `.`,
      `/tmp/../${inside}`,
      `ftp://127.0.0.1/x`,
      `http::ext::sh`,
    ]
    await site.refusedAll(addresses, {
      status: 400,
      code: 'invalid_request',
      detail: /^\/source /,
    })
  })

  test('the command line rejects the same with a message, and leaves nothing', async () => {
    const run = (source: string) =>
      execute(launcher, ['repos', 'import', source, 'by-command'], {
        env: {
          PATH: process.env.PATH,
          SVC_DATA_DIR: site.service.dataDir,
          SVC_FREE_SPACE_MIN: '0',
        },
      })
    const worktree = await createSource(site.path())
    await symlink('/etc/passwd', join(worktree, 'refs/heads/x'))
    await assert.rejects(run(worktree), /symbolic link or no plain file/)
    await assert.rejects(run(inside), /may not be imported from/)
    await assert.rejects(run(`ext::sh -c '${site.canary('command')}'`), /transport of its own/)
    await site.refused(worktree, { detail: /symbolic link or no plain file/ })
    assert.equal((await site.service.admin.get('/repos/by-command')).status, 404)
  })

  test('an import has no objects of a repository that is swapped in while it runs', async () => {
    const secret = await createSource(site.path('secret'))
    const { stdout: hidden } = await git(secret, ['commit-tree', '-m', 'Secret', 'main^{tree}'])
    await git(secret, ['update-ref', 'refs/heads/main', hidden])
    const path = await createSource(site.path())
    const bait = join(path, 'refs/heads/bait')
    await writeFile(bait, `${hidden}\n`)
    const objects = join(path, 'objects')
    let isOver = false
    let swaps = 0
    const swapping = (async () => {
      for (; !isOver; swaps++) {
        await rename(objects, `${objects}-own`)
        await symlink(join(secret, 'objects'), objects)
        await unlink(objects)
        await rename(`${objects}-own`, objects)
      }
    })()
    for (let attempt = 0; attempt < 12; attempt++) {
      const answer = await site.post(site.service.admin, {
        source: path,
        name: `swapped-${attempt}`,
      })
      // With the bait's object, it would be whole.
      assert.equal(answer.status, 422, answer.text)
    }
    isOver = true
    await swapping
    assert.ok(swaps > 0)
    await rm(bait)
    await site.imported(path)
  })
})
