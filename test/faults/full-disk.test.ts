// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rm, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { until } from '../support/condition.ts'
import { createProject, git, type Project } from '../support/git.ts'
import { untilTidy } from '../support/leftovers.ts'
import { connectAgent } from '../support/mcp.ts'
import { commandOf, processesIn, signal } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { launcher, type Service, startServiceWithSsh } from '../support/service.ts'
import { smallDisk, withoutMounts } from '../support/small-disk.ts'
import { createSshUser } from '../support/ssh-user.ts'

const execute = promisify(execFile)
const mib = 1024 * 1024
const skip = (await withoutMounts()) || without('openssh')

test('with too little free space, writes are rejected over either transport, and reads work', {
  skip,
}, async () => {
  await using disk = await smallDisk('64m')
  await using service = await start(disk.path, '8MiB')
  await using project = await startSite(service)
  await using user = await createSshUser(service, service.admin)
  await untilHealthIs(service, 'ok')
  await disk.fill(4 * mib)
  await untilHealthIs(service, 'storage_full')
  const refused = await service.admin.post('/repos', { name: 'other' })
  assert.deepEqual([refused.status, refused.body.code], [507, 'storage_full'])
  assert.match(refused.body.detail, /too little space left to write; nothing was changed/)
  {
    // Tools are served, and refused what writes.
    await using agent = await connectAgent('http', service.admin)
    assert.equal(await agent.refusal('create_repository', { name: 'other' }), 'storage_full')
    await agent.use('get_repository', { repository: 'site' })
  }
  await assert.rejects(
    project.git('push', service.admin.remote('site'), 'HEAD:x'),
    /too little space left to write/,
  )
  const push = await user.tryGit(project.path, 'push', user.remote('site'), 'HEAD:x')
  assert.equal(push.exitCode, 128)
  assert.match(push.stderr, /^svc: The server has too little space left to write/)
  assert.equal((await service.admin.get('/repos/site')).status, 200)
  await user.git(project.path, 'clone', '--quiet', user.remote('site'), 'over-ssh')
  await project.git('clone', '--quiet', service.admin.remote('site'), 'over-http')

  // Deletions free space, so they are always possible.
  assert.equal((await service.admin.delete(`/keys/${user.keyId}`)).status, 204)
  await disk.empty()
  await untilHealthIs(service, 'ok')
  await project.git('push', service.admin.remote('site'), 'HEAD:x')
})

test('with too few inodes, writes are rejected and reads work, as with too little space', {
  skip,
}, async () => {
  await using disk = await smallDisk('64m,nr_inodes=4000')
  await using service = await start(disk.path, '0')
  await using project = await startSite(service)
  await untilHealthIs(service, 'ok')
  const filler = join(disk.path, 'files')
  await mkdir(filler)
  const { ffree } = await statfs(disk.path)
  for (let at = 0; at < ffree - 500; at++) await writeFile(join(filler, String(at)), '')
  await untilHealthIs(service, 'storage_full')
  const refused = await service.admin.post('/repos', { name: 'other' })
  assert.deepEqual([refused.status, refused.body.code], [507, 'storage_full'])
  await project.git('clone', '--quiet', service.admin.remote('site'), 'read')
  await rm(filler, { recursive: true })
  await untilHealthIs(service, 'ok')
  assert.equal((await service.admin.post('/repos', { name: 'other' })).status, 201)
})

test('while the data directory is read-only, health is 503 and reading goes on', {
  skip,
}, async () => {
  await using disk = await smallDisk('64m')
  await using service = await start(disk.path, '0')
  await using project = await startSite(service)
  const folder = join(service.dataDir, 'repositories')
  await execute('mount', ['--bind', folder, folder])
  await execute('mount', ['-o', 'remount,bind,ro', folder])
  try {
    const { body } = await until('health is 503', async () => {
      const answer = await service.admin.get('/health')
      return answer.status === 503 && answer
    })
    assert.equal(body.code, 'storage_unavailable')
    assert.match(body.detail, /The data directory cannot be read or written/)
    await project.git('clone', '--quiet', service.admin.remote('site'), 'read')
  } finally {
    await execute('umount', ['--lazy', folder])
  }
  await untilHealthIs(service, 'ok')
})

test('maintenance without space only packs refs, and leaves nothing behind', {
  skip,
}, async () => {
  await using disk = await smallDisk('64m')
  await using service = await start(disk.path, '8MiB')
  await using project = await startSite(service)
  for (const name of ['a', 'b']) {
    await writeFile(join(project.path, name), randomBytes(8 * mib))
    await project.git('add', '.')
    await project.git('commit', '--quiet', '-m', name)
    await project.git('push', service.admin.remote('site'), `HEAD:${name}`)
  }
  const before = await refsOf(service)
  const { body } = await service.admin.get('/repos/site')
  const packs = async () =>
    (await readdir(join(body.path, 'objects/pack'))).filter((name) => name.endsWith('.pack')).sort()
  const env = { PATH: process.env.PATH, SVC_DATA_DIR: service.dataDir, SVC_FREE_SPACE_MIN: '0' }
  const maintain = () =>
    execute(launcher, ['repos', 'maintain', 'site', '--full'], { env }).then(
      () => 'done',
      ({ stdout }) => String(stdout),
    )
  const present = await packs()
  await disk.fill(12 * mib)
  assert.match(await maintain(), /repacking \d+ bytes of packs may need as many/)
  assert.deepEqual([await packs(), await readdir(join(body.path, 'refs/heads'))], [present, []])

  // The lack of space is not known beforehand.
  await disk.empty()
  await service.end('SIGTERM')
  await using careless = await start(disk.path, '0', service.adminToken)
  await until('the disk fills up before git has written a pack', async () => {
    const working = maintain()
    const gits = await until('git repacks', () => {
      const all = processesIn(service.dataDir)
      return all.some((pid) => /repack/.test(commandOf(pid))) && all
    })
    for (const pid of gits) signal(pid, 'SIGSTOP')
    await disk.fill(mib)
    for (const pid of gits) signal(pid, 'SIGCONT')
    const said = await working
    await untilTidy(careless.dataDir)
    await disk.empty()
    return /Out of diskspace|No space left/.test(said)
  })
  assert.equal(await refsOf(careless), before)
  await fsck(careless)
  assert.equal(await maintain(), 'done')
  assert.equal((await packs()).length, 1)
  await fsck(careless)
})

test('a disk that fills up in the middle of a push fails it, and nothing is left', {
  skip,
}, async () => {
  await using disk = await smallDisk('64m')
  await using service = await start(disk.path, '0')
  await using project = await startSite(service)
  await using user = await createSshUser(service, service.admin)
  await disk.fill(8 * mib)
  const before = await refsOf(service)
  await writeFile(join(project.path, 'large.bin'), randomBytes(24 * mib))
  await project.git('add', '.')
  await project.git('commit', '--quiet', '-m', 'Large')
  for (const remote of [service.admin.remote('site'), user.remote('site')]) {
    const push = await user.tryGit(project.path, 'push', remote, 'HEAD:main')
    assert.notEqual(push.exitCode, 0)
    assert.match(push.stderr, /No space left on device|no space left/i)
    await untilTidy(service.dataDir)
    assert.equal(await refsOf(service), before)
  }
  await disk.empty()
  await project.git('push', service.admin.remote('site'), 'HEAD:main')
  await fsck(service)
})

test('on a full disk only writes are rejected', {
  skip,
}, async () => {
  await using disk = await smallDisk('64m')
  await using service = await start(disk.path, '0')
  await using project = await startSite(service)
  await disk.fill(0)
  for (let times = 0; times < 5; times++) {
    const refused = await service.admin.post('/repos', { name: `other-${times}` })
    assert.deepEqual([refused.status, refused.body.code], [507, 'storage_full'], refused.text)
    assert.equal((await service.admin.get('/repos')).body.length, 1)
  }
  await assert.rejects(project.git('push', service.admin.remote('site'), 'HEAD:x'))
  await project.git('ls-remote', service.admin.remote('site'))
  await disk.empty()
  assert.equal((await service.admin.post('/repos', { name: 'other' })).status, 201)
  await project.git('push', service.admin.remote('site'), 'HEAD:x')
  await fsck(service)

  // What was refused is nowhere after another start, either.
  assert.equal(await service.end('SIGKILL'), null)
  await using again = await start(disk.path, '0', service.adminToken)
  const names = (await again.admin.get('/repos')).body.map(({ name }: { name: string }) => name)
  assert.deepEqual(names, ['site', 'other'])
})

function start(folder: string, least: string, token?: string): Promise<Service> {
  const env = { SVC_FREE_SPACE_MIN: least, ...(token && { SVC_ADMIN_TOKEN: token }) }
  return startServiceWithSsh({ dataDir: join(folder, 'data'), env })
}

async function startSite(service: Service): Promise<Project> {
  await service.admin.post('/repos', { name: 'site' })
  const project = await createProject()
  // The large files are noise, which does not get smaller.
  await project.git('config', 'core.compression', '0')
  await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main')
  return project
}

function untilHealthIs({ admin }: Service, status: string): Promise<boolean> {
  return until(
    `health is ${status}`,
    async () => (await admin.get('/health')).body.status === status,
  )
}

async function refsOf(service: Service): Promise<string> {
  return (await git('/', ['ls-remote', service.admin.remote('site')])).stdout
}

async function fsck(service: Service): Promise<void> {
  const { body } = await service.admin.get('/repos/site')
  await git('/', ['-c', 'safe.directory=*', '--git-dir', body.path, 'fsck', '--full', '--strict'])
}
