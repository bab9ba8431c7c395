import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { askDoctor } from '../support/doctor.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { startGit3 } from '../support/git-3.ts'
import { without } from '../support/programs.ts'
import { type Service, startService } from '../support/service.ts'

describe('with the defaults of Git 3.0', { skip: without('git-2.47') }, () => {
  const resources = new AsyncDisposableStack()
  let env: Record<string, string>
  let folder: string
  let dataDir: string
  let service: Service

  before(async () => {
    const git3 = resources.use(await startGit3())
    folder = resources.use(await temporaryFolder()).path
    dataDir = join(folder, 'data')
    env = { ...git3.env, SVC_IMPORT_LOCAL_ROOTS: folder }
    await start()
  })

  after(async () => {
    await service[Symbol.asyncDispose]()
    await resources.disposeAsync()
  })

  async function start(): Promise<void> {
    service = await startService({ dataDir, env })
  }

  async function createProject(name: string, ...options: string[]): Promise<string> {
    const path = join(folder, name)
    await git(folder, ['init', '--quiet', '--initial-branch=main', ...options, path], env)
    await git(path, ['commit', '--quiet', '--allow-empty', '-m', name], env)
    return path
  }

  test('repositories keep their refs as files, and are pushed and cloned', async () => {
    const { body: repository } = await service.admin.post('/repos', { name: 'site' })
    assert.equal(repository.defaultBranch, 'main')
    assert.doesNotMatch(await readFile(join(repository.path, 'config'), 'utf8'), /extensions/)
    const project = await createProject('site', '--object-format=sha1')
    const remote = service.admin.remote('site')
    await git(project, ['push', '--quiet', remote, 'HEAD:main', 'HEAD:topic'], env)
    const clone = join(folder, 'clone')
    await git(folder, ['clone', '--quiet', remote, clone], env)
    const head = async (path: string) => (await git(path, ['rev-parse', 'HEAD'], env)).stdout
    assert.equal(await head(clone), await head(project))
    await git(clone, ['push', '--quiet', 'origin', ':topic'], env)
  })

  test('a source whose refs are a reftable is imported', async () => {
    const source = await createProject('source', '--object-format=sha1')
    await git(source, ['tag', '-a', '-m', 'First', 'v1'], env)
    await git(source, ['branch', 'topic/ä'], env)
    await git(source, ['pack-refs'], env)
    await git(source, ['commit', '--quiet', '--allow-empty', '-m', 'Second'], env)
    await git(source, ['symbolic-ref', 'HEAD', 'refs/heads/topic/ä'], env)
    const { status, body } = await service.admin.post('/repos/import', {
      source,
      name: 'imported',
    })
    assert.equal(status, 201, body.detail)
    assert.equal(body.defaultBranch, 'topic/ä')
    const list = async (from: string) => (await git(folder, ['ls-remote', from], env)).stdout
    assert.equal(await list(service.admin.remote('imported')), await list(source))
  })

  test('a repository that keeps its refs as a reftable is recognised, and serves once it is migrated', async () => {
    const { body: repository } = await service.admin.get('/repos/site')
    const remote = service.admin.remote('site')
    const before = await git(folder, ['ls-remote', remote], env)
    await service[Symbol.asyncDispose]()
    await git(repository.path, ['--git-dir=.', 'refs', 'migrate', '--ref-format=reftable'], env)
    await start()
    assert.match(service.log(), /ref format reftable/)
    const { status, body } = await service.admin.get('/repos/site')
    assert.deepEqual([status, body.code], [500, 'repository_damaged'])
    assert.match(body.detail, /"reftable".*svc doctor/)
    await assert.rejects(git(folder, ['ls-remote', service.admin.remote('site')], env), /reftable/)
    const pushing = git(
      join(folder, 'clone'),
      ['push', service.admin.remote('site'), 'HEAD:x'],
      env,
    )
    await assert.rejects(pushing, /reftable/)

    await service[Symbol.asyncDispose]()
    const { output } = await askDoctor({ dataDir, env: { PATH: env.PATH ?? '' } })
    const [, fix = ''] = /(git --git-dir=\S+ refs migrate --ref-format=files)/.exec(output) ?? []
    await git(folder, fix.split(' ').slice(1), env)
    await start()
    assert.deepEqual(await git(folder, ['ls-remote', service.admin.remote('site')], env), before)
  })
})
