// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { until } from '../support/condition.ts'
import { freePort } from '../support/free-port.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { withoutObjectStore } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'
import { type StoreSite, startStoreSite } from '../support/store-site.ts'

const mib = 1024 ** 2
const skip = withoutObjectStore || without('postgres') || without('openssh')

describe('a client that takes its time over SSH', { skip }, () => {
  const resources = new AsyncDisposableStack()
  let site: StoreSite
  let project: Project
  let node: Service
  let user: SshUser
  let first: string
  let second: string

  before(async () => {
    site = resources.use(await startStoreSite())
    project = resources.use(await createProject())
    const dataDir = join(site.folder, 'node')
    await mkdir(dataDir, { mode: 0o700 })
    const hostKey = join(dataDir, 'ssh_host_ed25519_key')
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', hostKey])
    const more = {
      SVC_REPOSITORY_CACHE_SIZE: '64MiB',
      SVC_SSH_HOST_KEY_FILE: hostKey,
      SVC_SSH_PORT: String(await freePort()),
    }
    node = resources.use(await startService({ dataDir, env: { ...site.env, ...more } }))
    first = await project.git('rev-parse', 'HEAD')
    second = await project.commit('small.txt')
    await site.service.admin.post('/repos', { name: 'other' })
    await writeFile(join(project.path, 'large'), randomBytes(65 * mib))
    await project.git('add', '.')
    user = resources.use(await createSshUser(node, node.admin))
  })

  after(() => resources.disposeAsync())

  /** Has the node read a pack of another repository, which is as large as the cache, so that it frees space. */
  async function readOther(): Promise<void> {
    await project.git('commit', '--quiet', '--allow-empty', '-m', 'more')
    await project.git('push', '--quiet', site.service.admin.remote('other'), 'HEAD:main')
    await project.git('ls-remote', '--quiet', node.admin.remote('other'))
  }

  /** Starts a git that sends nothing over SSH until `send` is called, and waits for the advertisement of refs. */
  async function start(...args: string[]) {
    const signal = join(site.folder, 'send')
    const received = join(site.folder, 'received')
    const program = join(site.folder, 'ssh')
    const wait = `{ while [ ! -e ${signal} ]; do sleep 0.05; done; cat; }`
    const line = `${wait} | ${user.command} "$@" | tee ${received}`
    await writeFile(program, `#!/bin/sh\n${line}\n`, { mode: 0o755 })
    const variables = { GIT_SSH_COMMAND: program, GIT_SSH_VARIANT: 'ssh' }
    const ended = git(project.path, args, variables)
    ended.catch(() => {})
    await until(
      'it has the advertisement',
      () => existsSync(received) && statSync(received).size > 0,
    )
    return { ended, send: () => writeFile(signal, '') }
  }

  test('finds its repository for a push when that was evicted from the cache meanwhile', async () => {
    await site.service.admin.post('/repos', { name: 'site' })
    const remote = site.service.admin.remote('site')
    await project.git('push', '--quiet', remote, `${first}:refs/heads/main`)
    const args = ['push', '--quiet', user.remote('site'), `${second}:refs/heads/main`]
    const { ended, send } = await start(...args)
    const { path } = (await node.admin.get('/repos/site')).body
    await until('it was evicted', async () => {
      await readOther()
      return !existsSync(path)
    })
    await send()
    await ended
    const { stdout } = await git('/', ['ls-remote', remote, 'refs/heads/main'])
    assert.equal(stdout.slice(0, second.length), second)
  })
})
