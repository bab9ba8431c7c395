// Tags: each-store
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { mustRun } from '../support/backups.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { isShared } from '../support/kind-of-store.ts'
import { newSshKey, sshCommand } from '../support/openssh.ts'
import { programs, without } from '../support/programs.ts'
import { gitHeaders, packOf } from '../support/raw-git.ts'
import { type Service, startServiceWithSsh } from '../support/service.ts'

type Format = 'sha1' | 'sha256'

describe('the object format of a repository', { skip: without('git-2.47') }, () => {
  const resources = new AsyncDisposableStack()
  const path = `${programs['git-2.47'].find()}:${process.env.PATH}`
  const projects: Partial<Record<Format, string>> = {}
  let folder: string
  let service: Service
  let ssh: Record<string, string>

  before(async () => {
    folder = resources.use(await temporaryFolder()).path
    service = resources.use(
      await startServiceWithSsh({
        env: { SVC_DEFAULT_OBJECT_FORMAT: 'sha256', SVC_IMPORT_LOCAL_ROOTS: folder },
      }),
    )
    const key = await newSshKey(join(folder, 'key'))
    await service.admin.post('/keys', { name: 'test', publicKey: key.publicKey })
    const known = join(folder, 'known')
    ssh = { GIT_SSH_COMMAND: sshCommand({ key: key.path, knownHosts: known }) }
    for (const format of ['sha1', 'sha256'] as const) {
      const project = join(folder, format)
      await git(folder, ['init', '--quiet', '-b', 'main', `--object-format=${format}`, project])
      await git(project, ['commit', '--quiet', '--allow-empty', '-m', 'First'])
      projects[format] = project
    }
  })

  after(() => resources.disposeAsync())

  const newer = (cwd: string, ...args: string[]) => git(cwd, args, { ...ssh, PATH: path })

  async function push(format: Format, name: string, via: 'http' | 'ssh' = 'http', ref = 'main') {
    const address = via === 'http' ? service.admin.remote(name) : `${service.ssh}/${name}.git`
    return newer(projects[format] ?? '', 'push', '--quiet', address, `HEAD:refs/heads/${ref}`)
  }

  async function create(name: string, objectFormat?: Format) {
    const { status, body } = await service.admin.post('/repos', { name, objectFormat })
    assert.equal(status, 201, body.detail)
    return body
  }

  const formatOf = async (name: string) =>
    (await service.admin.get(`/repos/${name}`)).body.objectFormat

  async function assertWhole(name: string, format: Format) {
    assert.equal(await formatOf(name), format)
    const copy = join(folder, `copy-of-${name}`)
    await newer(folder, 'clone', '--quiet', service.admin.remote(name), copy)
    await newer(copy, 'fsck', '--full')
    const { stdout } = await newer(copy, 'rev-parse', '--show-object-format', 'HEAD')
    const { stdout: head } = await git(projects[format] ?? '', ['rev-parse', 'HEAD'])
    assert.equal(stdout, `${format}\n${head}`)
  }

  for (const via of ['http', 'ssh'] as const)
    for (const format of ['sha1', 'sha256'] as const)
      test(`is that of the first push over ${via}: ${format}`, async () => {
        const name = `first-${via}-${format}`
        assert.equal((await create(name)).objectFormat, null)
        await push(format, name, via)
        await assertWhole(name, format)
        const other = format === 'sha1' ? 'sha256' : 'sha1'
        await assert.rejects(push(other, name, via), /does not support this repository's hash/)
        // What no ref leads to any more is still of this format.
        await service.admin.patch(`/repos/${name}`, { defaultBranch: 'main' })
        await service.admin.delete(`/repos/${name}/refs?ref=refs%2Fheads%2Fmain`)
        await assert.rejects(push(other, name, via), /does not support this repository's hash/)
      })

  test('is not decided by a push that is refused', async () => {
    await create('refused')
    await assert.rejects(push('sha1', 'refused', 'http', `${'a'.repeat(40)}`), /object id/)
    assert.equal(await formatOf('refused'), null)
    await push('sha256', 'refused')
    await assertWhole('refused', 'sha256')
  })

  test('is decided by one of two first pushes, and the error of the other one names both', async () => {
    await create('raced')
    const { id, pack } = await packOf(projects.sha1 ?? '')
    const ids = `${'0'.repeat(40)} ${id}`
    const capabilities = 'report-status side-band-64k object-format=sha1'
    const command = packet(`${ids} refs/heads/slow\0 ${capabilities}`)
    const started = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<void>()
    async function* slowly() {
      // A client begins a pack, and waits before its end.
      yield Buffer.concat([command, flushPacket, pack.subarray(0, 20)])
      started.resolve()
      await finish.promise
      yield pack.subarray(20)
    }
    const { 'transfer-encoding': _, ...headers } = gitHeaders(
      'git-receive-pack',
      service.adminToken,
    ) as Record<string, string>
    const slow = fetch(`${service.url}/repos/raced.git/git-receive-pack`, {
      method: 'POST',
      headers,
      body: ReadableStream.from(slowly()),
      duplex: 'half',
    } as RequestInit)
    await started.promise
    const results = await Promise.allSettled([push('sha256', 'raced')])
    finish.resolve()
    const text = await (await slow).text()
    const [fast] = results
    const decided = await formatOf('raced')
    if (fast?.status === 'fulfilled') {
      assert.equal(decided, 'sha256')
      assert.match(text, /object format SHA-256, and the push has SHA-1/)
    } else {
      assert.equal(decided, 'sha1')
      assert.match(String(fast?.reason), /object format SHA-1, and the push has SHA-256/)
    }
    const copy = join(folder, 'copy-of-raced')
    await newer(folder, 'clone', '--quiet', '--mirror', service.admin.remote('raced'), copy)
    await newer(copy, 'fsck', '--full')
  })

  test('is chosen when the repository is created, also for older clients', async () => {
    const { status, body } = await service.admin.post('/repos', { name: 'x', objectFormat: 'md5' })
    assert.deepEqual([status, body.code], [400, 'invalid_request'])
    assert.equal((await create('declared', 'sha256')).objectFormat, 'sha256')
    const remote = service.admin.remote('declared')
    await git(projects.sha256 ?? '', ['push', '--quiet', remote, 'HEAD:main'])
    await assertWhole('declared', 'sha256')
    await git(folder, ['clone', '--quiet', remote, join(folder, 'older')])
  })

  test('is the default one of the server for a clone and for the first commit of the API', async () => {
    await create('by-clone')
    const copy = join(folder, 'empty-clone')
    await newer(folder, 'clone', '--quiet', service.admin.remote('by-clone'), copy)
    const { stdout } = await newer(copy, 'rev-parse', '--show-object-format')
    assert.equal(stdout, 'sha256')
    assert.equal(await formatOf('by-clone'), null)

    await create('by-commit')
    const change = { path: 'a.txt', content: 'text' }
    const request = { branch: 'main', message: 'First', changes: [change] }
    const made = await service.admin.post('/repos/by-commit/commits', request)
    assert.equal(made.status, 201, made.text)
    assert.match(made.body.id, /^[0-9a-f]{64}$/)
    assert.equal(await formatOf('by-commit'), 'sha256')
    const submodule = { path: 'module', mode: '160000', content: 'a'.repeat(40) }
    const other = await service.admin.post('/repos/by-commit/commits', {
      ...request,
      changes: [submodule],
    })
    assert.deepEqual([other.status, other.body.errors[0].pointer], [400, '/changes/0/content'])
    // Zeros of either length stand for a branch that does not exist.
    const branch = { ...request, branch: 'other', start: 'main', allowEmpty: true }
    for (const [number, digits] of [40, 64].entries()) {
      const next = { ...branch, branch: `other-${number}`, expectedHead: '0'.repeat(digits) }
      const { status, text } = await service.admin.post('/repos/by-commit/commits', next)
      assert.equal(status, 201, text)
    }
  })

  test('is that of the source of an import', async () => {
    for (const format of ['sha1', 'sha256'] as const)
      for (const [way, source] of [
        ['folder', projects[format]],
        ['http', service.admin.remote(`first-http-${format}`)],
      ]) {
        if (way === 'http') await push(format, `first-http-${format}`)
        const name = `imported-${way}-${format}`
        const { status, text } = await service.admin.post('/repos/import', { source, name })
        assert.equal(status, 201, text)
        await assertWhole(name, format)
      }
  })

  test('is in a backup', {
    skip: isShared && 'a backup is restored into a local store',
  }, async () => {
    await create('declared-empty', 'sha256')
    const to = join(folder, 'backup')
    await mustRun(['backup', to], { SVC_DATA_DIR: service.dataDir })
    await mustRun(['backup', 'verify', to])
    const restored = join(folder, 'restored')
    await mustRun(['restore', to], { SVC_DATA_DIR: restored })
    const env = { SVC_ADMIN_TOKEN: service.adminToken, SVC_DEFAULT_OBJECT_FORMAT: 'sha256' }
    const first = service
    await using second = await startServiceWithSsh({ dataDir: restored, env })
    try {
      service = second
      await assertWhole('imported-folder-sha256', 'sha256').catch((error) => {
        // The copy is there from before.
        assert.match(String(error), /already exists and is not an empty directory/)
      })
      await push('sha256', 'declared-empty')
      await assertWhole('declared-empty', 'sha256')
    } finally {
      service = first
    }
  })
})
