import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { settings } from '#config/settings-table.ts'
import { settingsPage } from '../../scripts/settings-page.ts'
import { runSvc } from '../support/command.ts'
import { until } from '../support/condition.ts'
import { createProject, temporaryFolder } from '../support/git.ts'
import { sshCommand } from '../support/openssh.ts'
import { without } from '../support/programs.ts'
import { createClient, launcher, type Service, startServiceWithSsh } from '../support/service.ts'
import { generateKey, newKeyLine } from '../support/ssh-keys.ts'
import { testSettings } from '../support/test-settings.ts'

const execute = promisify(execFile)

let service: Service

before(async () => {
  service = await startServiceWithSsh()
})

after(() => service[Symbol.asyncDispose]())

test('a token created on the command line works at once, while the server runs', async () => {
  const { stdout } = await program('tokens', 'create', '--permission', 'admin')
  const token = stdout.trim()
  const admin = createClient(service.url, token)
  assert.equal((await admin.get('/tokens')).status, 200)
  const listed = JSON.parse(await svc('tokens', 'list', '--json'))
  const { id, username } = listed.at(-1)
  assert.equal(username, 'admin')
  assert.ok(!(await svc('tokens', 'list')).includes(token))
  await svc('tokens', 'revoke', id)
  assert.equal((await admin.get('/tokens')).status, 401)
})

test('a token is created with the given options', async () => {
  const options = ['--name', 'ci', '--username', 'bot', '--expires-in-days', 'never']
  const permissions = ['--permission', 'repo:read', 'repo:delete']
  const made = JSON.parse(await svc('tokens', 'create', ...options, ...permissions, '--json'))
  assert.deepEqual(
    [made.name, made.username, made.expiresAt, made.permissions],
    ['ci', 'bot', null, ['repo:read', 'repo:delete']],
  )
  const year = JSON.parse(await svc('tokens', 'create', '--json'))
  assert.deepEqual(year.permissions, ['repo:read', 'repo:write'])
  assert.equal(year.expiresAt - year.createdAt, 365 * 24 * 60 * 60 * 1000)
})

test('commands on the server disable and enable any user, also the only admin', async () => {
  assert.match(await svc('users', 'list'), /^USERNAME .*\nadmin /)
  assert.equal(await svc('users', 'disable', 'admin'), 'The user admin is disabled.\n')
  assert.equal((await service.admin.get('/tokens')).status, 401)
  await svc('users', 'enable', 'admin')
  assert.equal((await service.admin.get('/tokens')).status, 200)
})

test('repositories are created, listed and deleted while the server runs', async () => {
  await using project = await createProject()
  assert.match(await svc('repos', 'create', 'site'), /^Created site\.\n$/)
  await project.git('push', '--quiet', service.admin.remote('site'), 'main')
  const [listed] = JSON.parse(await svc('repos', 'list', '--json'))
  assert.deepEqual(listed, (await service.admin.get('/repos')).body[0])
  assert.match(await svc('repos', 'list'), /^NAME +CREATED +PROTECTED +OWNER +DESCRIPTION\nsite /)
  assert.match(await svc('repos', 'delete', 'site'), /Deleted site/)
  assert.equal((await service.admin.get('/repos/site')).status, 404)
  await assert.rejects(stat(listed.path))
})

test('deleted repositories are listed, restored and purged', async () => {
  await svc('repos', 'create', 'page')
  const { id } = (await service.admin.get('/repos/page')).body
  assert.equal(
    await svc('repos', 'delete', 'page'),
    `Deleted page. It can be restored: svc deleted-repos restore ${id}\n`,
  )
  const { body } = await service.admin.get('/deleted-repos')
  assert.deepEqual(JSON.parse(await svc('deleted-repos', 'list', '--json')), body)
  const table = await svc('deleted-repos', 'list')
  assert.match(table, /^ID +NAME +OWNER +DELETED +KEPT UNTIL\n/)
  assert.match(table, new RegExp(`^${id} +page +admin `, 'm'))
  assert.equal(await svc('deleted-repos', 'restore', id, '--name', 'leaf'), 'Restored leaf.\n')
  assert.equal((await service.admin.get('/repos/leaf')).body.id, id)
  await svc('repos', 'delete', 'leaf', '--json')
  assert.deepEqual(JSON.parse(await svc('deleted-repos', 'purge', id, '--yes', '--json')), {
    ...{ id, name: 'leaf', purged: true },
  })
  assert.equal((await service.admin.post(`/deleted-repos/${id}/restore`)).status, 404)
})

test('SSH keys are added from a file, a line or standard input, listed and removed', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.path, 'id_ed25519.pub')
  const lines = [newKeyLine('ada@laptop'), newKeyLine(), newKeyLine()]
  const [first = '', second = '', third = ''] = lines
  await writeFile(path, `${first}\n`)
  const ada = ['--username', 'ada', '--json']
  const fromFile = JSON.parse(await svc('keys', 'add', path, ...ada))
  assert.deepEqual(
    [fromFile.name, fromFile.username, fromFile.permissions],
    ['ada@laptop', 'ada', ['repo:read', 'repo:write']],
  )
  await service.admin.post('/repos', { name: 'keyed' })
  const narrow = ['--name', 'ci', '--permission', 'read', '--repository', 'keyed']
  const fromLine = JSON.parse(await svc('keys-add', second, ...narrow, ...ada))
  const { name, permissions, repositories } = fromLine
  assert.deepEqual([name, permissions, repositories], ['ci', ['repo:read'], ['keyed']])
  const said = await svcReading(`${third}\n`, 'keys', 'add', '-')
  assert.match(said, /^Added SHA256:[A-Za-z0-9+/]{43} for admin, id [0-9a-z]{26}\.\n$/)
  const { body } = await service.admin.get('/keys?username=ada')
  assert.deepEqual(body, [fromFile, fromLine])
  assert.deepEqual(JSON.parse(await svc('keys', 'list', ...ada)), body)
  const all = JSON.parse(await svc('keys', 'list', '--json'))
  assert.deepEqual(
    all.map(({ username, name }: { username: string; name: string }) => [username, name]),
    [...body.map((key: { name: string }) => ['ada', key.name]), ['admin', 'command line']],
  )
  assert.match(
    await svc('keys', 'list'),
    /^ID +NAME +USERNAME +FINGERPRINT +EXPIRES +LAST USED +PERMISSIONS +LIMITS\n[\s\S]*repositories keyed\n/,
  )
  assert.equal(await svc('keys', 'remove', fromLine.id), `SSH key ${fromLine.id} is removed.\n`)
  assert.deepEqual((await service.admin.get('/keys?username=ada')).body, [fromFile])
  await assert.rejects(svc('keys', 'add', path), /svc: This key is already registered; /)
})

test('a command that fails says why in one line and exits with 1', async () => {
  const failures = [
    [['repos', 'create', 'a..b'], /^svc: "a\.\.b" is not accepted; a name is .*\n$/],
    [
      ['repos', 'create', 'x', '--username', 'nobody'],
      /^svc: No valid token has the username "nobody"/,
    ],
    [['repos', 'delete', 'nowhere'], /^svc: There is no repository "nowhere"/],
    [['deleted-repos', 'restore', 'x'], /^svc: There is no deleted repository with the id "x"/],
    [['deleted-repos', 'restore', 'x', '--name', '.'], /^svc: There is no deleted repository with/],
    [['deleted-repos', 'purge', 'x'], /^svc: There is no deleted repository with the id "x"/],
    [['tokens', 'revoke', 'nothing'], /^svc: There is no token with the id "nothing"/],
    [
      ['tokens', 'create', '--permission', 'root'],
      /^svc: "root" is not accepted; a permission is repo:read/,
    ],
    [
      ['tokens', 'create', '--expires-in-days', '0'],
      /^svc: --expires-in-days must be an integer from 1 to 3650/,
    ],
    [['tokens', 'create', '--username', 'a b'], /^svc: "a b" is not accepted; a username is/],
    [['tokens', 'create', '--name', 'a\nb'], /^svc: "a\\nb" is not accepted/],
    [
      ['keys', 'add', '/nowhere.pub'],
      /^svc: The file "\/nowhere\.pub" cannot be read: no such file/,
    ],
    [['keys', 'add', '/'], /^svc: The file "\/" cannot be read: it is a directory/],
    [['keys', 'add', '/dev/zero'], /^svc: The key is longer than 16384 characters; send/],
    [['keys', 'add', 'ssh-ed25519 AAAA'], /^svc: The key is damaged; send the line/],
    [['keys-add', 'x\n-----BEGIN OPENSSH PRIVATE KEY-----'], /^svc: This is a private key, which/],
    [['keys', 'add'], /^svc: The key is empty; send the line of a \.pub file\.\n$/],
    [
      ['keys', 'add', '-', '--permission', 'admin'],
      /^svc: "admin" is not accepted; a permission is repo:read/,
    ],
    [['keys', 'add', '-', '--username', 'a b'], /^svc: "a b" is not accepted; a username is/],
    [['keys', 'remove', 'nothing'], /^svc: There is no SSH key with the id "nothing"/],
  ] as const
  for (const [args, expected] of failures) {
    const { code, out, err } = await runSvc([...args], environment())
    assert.match(err, expected)
    assert.deepEqual([code, out], [1, ''])
  }
  const [, inWords] = failures[0]
  await assert.rejects(program(...failures[0][0]), ({ code, stdout, stderr }) => {
    assert.deepEqual([code, stdout], [1, ''])
    return inWords.test(stderr)
  })
})

test('a list is the same of a data directory as of its server', async () => {
  for (const name of ['one', 'two']) await svc('repos', 'create', name)
  await svc('repos', 'delete', 'two')
  await svcReading('open sesame', 'secrets', 'set', 'one', 'API_KEY')
  await svc('keys', 'add', newKeyLine('eve@laptop'), '--username', 'eve')
  const { url, admin } = service
  for (const list of [
    ['repos', 'list'],
    ['deleted-repos', 'list'],
    ['keys', 'list', '--username', 'eve'],
    ['secrets', 'list', 'one'],
    ['audit', '--via', 'cli', '--limit', '3'],
    ['audit', '--action', 'ssh_key.added', '--limit', '1'],
  ]) {
    for (const args of [list, [...list, '--json']]) {
      const ofServer = await runSvc(args, { SVC_URL: url, SVC_TOKEN: admin.token })
      assert.deepEqual(await runSvc(args, environment()), ofServer, args.join(' '))
      assert.match(ofServer.out, /\n.+\n/)
    }
  }
})

test('invalid arguments exit with 2', async () => {
  for (const args of [
    ['login'],
    ['repos', 'show', 'a', 'b'],
    ['protections', 'add', 'main', '--owners', 'all'],
    ['repos', 'list', '--server'],
    ['doctor', '--repository', 'x', '--no-fsck'],
    ['frobnicate'],
    ['repos', 'frobnicate'],
    ['tokens', 'list', '--frobnicate'],
  ]) {
    const { code, out, err } = await runSvc(args, environment())
    assert.match(err, /^(error|svc): /)
    assert.deepEqual([code, out], [2, ''], args.join(' '))
  }
  await assert.rejects(program('login'), { code: 2 })
  const { code, err } = await runSvc(
    ['keys', 'add', '-----BEGIN PRIVATE KEY-----\nMII='],
    environment(),
  )
  assert.equal(code, 2)
  assert.match(err, /^error: unknown option '-----BEGIN PRIVATE KEY…'\n\(/)
})

test('commands on a folder without a data directory create nothing', async () => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'mistyped')
  const failed = execute(launcher, ['tokens', 'create'], {
    env: { ...process.env, SVC_DATA_DIR: dataDir },
  })
  await assert.rejects(failed, /There is no data directory at .*mistyped.*svc login URL/)
  await assert.rejects(stat(dataDir))
})

test('the data directory is for its owner alone', async () => {
  assert.equal((await stat(service.dataDir)).mode & 0o077, 0)
  const key = join(service.dataDir, 'encryption.key')
  assert.equal((await stat(key)).mode & 0o777, 0o600)
  assert.equal(Buffer.from(await readFile(key, 'utf8'), 'base64').length, 32)
})

test('help and docs/settings.md list every setting', async () => {
  const help = await svc('serve', '--help')
  const page = await readFile(new URL('../../docs/settings.md', import.meta.url), 'utf8')
  for (const { variable } of Object.values(settings)) {
    assert.ok(help.includes(variable), variable)
  }
  assert.equal(page, settingsPage(), 'npm run docs brings docs/settings.md up to date')
})

const skip = without('openssh')

test('the first start without a terminal names the file of its admin token, with commands that can be pasted', {
  skip,
}, async () => {
  await using folder = await temporaryFolder()
  await using fresh = await startServiceWithSsh({
    dataDir: join(folder.path, 'data'),
    env: { SVC_ADMIN_TOKEN: '' },
  })
  await using project = await createProject()
  const lines = fresh
    .log()
    .split('\n')
    .filter((line) => /^(curl|git|ssh) /.test(line))
  assert.equal(lines.length, 6)
  const key = join(folder.path, '.ssh/id_ed25519')
  await mkdir(join(folder.path, '.ssh'))
  await generateKey(key, '-t', 'ed25519')
  // OpenSSH finds keys in the home directory of the password database, not in HOME.
  const ssh = sshCommand({ key, knownHosts: join(folder.path, 'known') })
  const env = { ...process.env, HOME: folder.path, GIT_SSH_COMMAND: ssh }
  for (const line of lines) {
    await execute('bash', ['-ec', line.replace(/^ssh/, ssh)], { cwd: project.path, env })
  }
  assert.equal(
    await readFile(join(project.path, 'hello-over-ssh/readme.txt'), 'utf8'),
    'readme.txt',
  )
  assert.equal(await readFile(join(project.path, 'hello-again/readme.txt'), 'utf8'), 'readme.txt')
  const path = join(folder.path, 'data/admin-token')
  assert.ok(fresh.log().split('\n').includes(`    ${path}`))
  assert.equal((await stat(path)).mode & 0o777, 0o600)
  const token = (await readFile(path, 'utf8')).trimEnd()
  for (const clone of ['.', 'hello-again', 'hello-over-ssh'])
    assert.ok(!(await readFile(join(project.path, clone, '.git/config'), 'utf8')).includes(token))
  await fresh.end('SIGTERM')
  assert.doesNotMatch(fresh.log(), /svc_/)
  await using again = await startServiceWithSsh({
    dataDir: join(folder.path, 'data'),
    env: { SVC_ADMIN_TOKEN: '' },
  })
  assert.doesNotMatch(again.log(), /svc_|admin-token/)
  assert.equal((await createClient(again.url, token).get('/repos/hello')).status, 200)
  const backup = join(folder.path, 'backup')
  const settings = { PATH: process.env.PATH, SVC_DATA_DIR: join(folder.path, 'data') }
  await execute(launcher, ['backup', '--with-keys', backup], { env: settings })
  const { stdout } = await execute('bash', [
    '-c',
    `grep -rlF ${token} ${backup} || ls -R ${backup}`,
  ])
  assert.match(stdout, /manifest\.json/)
  assert.doesNotMatch(stdout, /admin-token/)
})

test('the first start on a terminal prints its admin token, and creates no file', async () => {
  await using folder = await temporaryFolder()
  const dataDir = join(folder.path, 'data')
  const env = { ...process.env, ...testSettings, SVC_DATA_DIR: dataDir, SVC_SSH_PORT: 'off' }
  const child = spawn('script', ['-qefc', `${launcher} serve`, '/dev/null'], { env })
  let shown = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text
  })
  const ended = once(child, 'exit')
  await until('it listens', () => /"event":"listening"/.test(shown))
  const [, token = ''] = /^ {4}(svc_\w{36})\r$/m.exec(shown) ?? []
  const [, url = ''] = /"http":"([^"]+)"/.exec(shown) ?? []
  assert.equal((await createClient(url, token).get('/tokens')).status, 200)
  assert.ok(!(await readdir(dataDir)).includes('admin-token'))
  // Ctrl-C.
  child.stdin.write('\x03')
  await ended
})

function svc(...args: string[]): Promise<string> {
  return svcReading('', ...args)
}

/** Runs a command with something on its standard input; what it printed. */
async function svcReading(input: string, ...args: string[]): Promise<string> {
  const { code, out, err } = await runSvc(args, environment(), input)
  if (code !== 0) throw new Error(err)
  return out
}

/** Runs a command in a process of its own. */
function program(...args: string[]) {
  return execute(launcher, args, { env: { PATH: process.env.PATH, ...environment() } })
}

const environment = () => ({
  SVC_DATA_DIR: service.dataDir,
  SVC_PORT: new URL(service.url).port,
})
