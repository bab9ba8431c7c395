import assert from 'node:assert/strict'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createClientHome, loggedIn } from '../support/client-home.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { type Service, startService, startServiceWithSsh } from '../support/service.ts'
import { createSshUser } from '../support/ssh-user.ts'

let service: Service

before(async () => {
  service = await startService()
})

after(() => service[Symbol.asyncDispose]())

test('a login keeps a valid token in a file of its owner, and git needs no token in an address', async () => {
  await using home = await createClientHome()
  const args = ['login', `${service.url}/`, '--name', 'main']
  const said = await home.svc(args, { input: `${service.adminToken}\n` })
  assert.equal(
    said,
    `Logged in to ${service.url} as the server main; ${home.configPath} keeps the token.\n`,
  )
  assert.equal((await stat(home.configPath)).mode & 0o777, 0o600)
  assert.equal((await stat(join(home.configPath, '..'))).mode & 0o777, 0o700)
  assert.match(
    await home.svc(['servers']),
    /^NAME +URL +DEFAULT +TOKEN IN\nmain +http\S+ +yes +file\n$/,
  )

  assert.equal(await home.svc(['repos', 'create', 'tour']), 'Created tour.\n')
  assert.equal(await home.svc(['clone', 'tour', 'here']), 'Cloned tour into here.\n')
  const clone = join(home.path, 'here')
  await home.git(clone, 'commit', '--allow-empty', '-m', 'Begin')
  await home.git(clone, 'push', 'origin', 'HEAD:main')
  assert.match(await home.git(clone, 'ls-remote'), /refs\/heads\/main/)
  assert.ok(!(await readFile(join(clone, '.git/config'), 'utf8')).includes('svc_'))
  const [listed] = JSON.parse(await home.svc(['repos', 'list', '--json']))
  assert.deepEqual(listed, (await service.admin.get('/repos')).body[0])

  // Logged out, neither the client nor git gets in.
  assert.match(await home.svc(['logout']), /^Logged out of main\./)
  assert.ok(!(await readFile(home.configPath, 'utf8')).includes('svc_'))
  await assert.rejects(home.git(clone, 'ls-remote'), /could not read Username/)
})

test('a token that is refused is not kept, and never printed', async () => {
  await using home = await createClientHome()
  const wrong = `svc_${'a'.repeat(36)}`
  const refused = await home.run(['login', service.url], { input: wrong })
  assert.deepEqual([refused.code, refused.out], [4, ''])
  assert.match(refused.err, /^svc: \S+ does not accept this token: .*\n$/)
  assert.ok(!refused.err.includes(wrong))
  await assert.rejects(stat(home.configPath))
  for (const input of ['', 'two words', 'a\nb', 'é']) {
    const { code, err } = await home.run(['login', service.url], { input })
    assert.equal(code, 4, input)
    assert.match(err, /^svc: This is not a token: it is empty, or has other characters\.\n$/)
  }
})

test('on a terminal the token is asked for without echo', async () => {
  await using home = await createClientHome()
  const { code, shown } = await home.onTerminal(
    ['login', service.url, '--name', 'main'],
    [[/Token for http\S+: /, `${service.adminToken}\r`]],
  )
  assert.equal(code, 0, shown)
  assert.match(shown, /Logged in to/)
  assert.ok(!shown.includes(service.adminToken))
})

test('an address that is none, or has a password in it, is refused', async () => {
  await using home = await createClientHome()
  for (const [address, expected] of [
    ['ftp://example.com', /is not an http or https URL/],
    ['http://git:secret@127.0.0.1', /contains a user name or a password/],
    ['http://127.0.0.1/?a=b', /contains a query or a fragment/],
  ] as const) {
    const { code, err } = await home.run(['login', address], { input: service.adminToken })
    assert.equal(code, 2)
    assert.match(err, expected)
    assert.ok(!err.includes('secret'))
  }
  const local = await home.run(['login', service.url, '--name', 'local'])
  assert.match(local.err, /^svc: "local" is not a name for a server/)
})

test('there can be several servers, of which one is the default', exhaustive, async () => {
  await using home = await loggedIn(service)
  await using other = await startService()
  await home.svc(['login', other.url, '--name', 'other'], { input: other.adminToken })
  await home.svc(['repos', 'create', 'there', '--server', 'other'])
  assert.equal((await other.admin.get('/repos/there')).status, 200)
  const namesOn = async (...args: string[]) => {
    const rows = JSON.parse(await home.svc(['repos', 'list', '--json', ...args]))
    return rows.map(({ name }: { name: string }) => name).includes('there')
  }
  assert.equal(await namesOn(), false)
  assert.equal(await namesOn('--server', other.url), true)
  await home.svc(['servers', 'default', 'other'])
  assert.equal(await namesOn(), true)

  // A clone is of its own server, whichever the default is.
  await home.svc(['clone', 'there'])
  await home.svc(['servers', 'default', 'main'])
  assert.match(
    await home.svc(['repos', 'show'], { folder: join(home.path, 'there') }),
    /^Name: there$/m,
  )

  const unknown = await home.run(['repos', 'list', '--server', 'third'])
  assert.deepEqual([unknown.code, unknown.out], [2, ''])
  assert.match(unknown.err, /You are not logged in to a server "third"/)
  const taken = await home.run(['login', service.url, '--name', 'other'], { input: 'x' })
  assert.match(taken.err, /The name "other" is that of http/)
})

test('a login to a second server leaves the first one as it is, and says how to choose', async () => {
  await using home = await createClientHome()
  await using other = await startService()
  await other.admin.post('/repos', { name: 'there' })
  const [first, second] = [service.url, other.url].map((url) => new URL(url).host)
  const logIn = (url: string, token: string, ...args: string[]) =>
    home.svc(['login', url, ...args], { input: token })
  const names = async (...args: string[]) => {
    const rows = JSON.parse(await home.svc(['repos', 'list', '--json', ...args]))
    return rows.map(({ name }: { name: string }) => name)
  }
  const defaults = async () => {
    const rows = JSON.parse(await home.svc(['servers', '--json']))
    return rows.flatMap((row: { name: string; isDefault: boolean }) =>
      row.isDefault ? [row.name] : [],
    )
  }

  const alone = await logIn(service.url, service.adminToken)
  assert.match(alone, /keeps the token\.\n$/)
  const said = await logIn(other.url, other.adminToken)
  const advice = `Commands still use ${first} (${service.url}) unless they have --server ${second} or are run in a clone from it; svc servers default ${second} makes it the default.\n`
  assert.ok(said.endsWith(` keeps the token. ${advice}`), said)
  assert.deepEqual(await defaults(), [first])
  assert.ok(!(await names()).includes('there'))
  // What it says is so.
  assert.deepEqual(await names('--server', String(second)), ['there'])
  await home.svc(['clone', 'there', '--server', String(second)])
  const inClone = await home.svc(['repos', 'show'], { folder: join(home.path, 'there') })
  assert.match(inClone, /^Name: there$/m)
  await home.svc(['servers', 'default', String(second)])
  assert.deepEqual(await names(), ['there'])

  // Another token for one of them takes the place of the one before.
  const again = await logIn(other.url, other.adminToken)
  assert.match(again, /keeps the token in place of the one before\.\n$/)
  assert.equal(JSON.parse(await home.svc(['servers', '--json'])).length, 2)

  const left = await home.svc(['logout'])
  assert.ok(left.endsWith(` The default is now ${first} (${service.url}).\n`), left)
  assert.deepEqual(await defaults(), [first])
  assert.match(await home.svc(['logout']), /ends one\.\n$/)
})

test(
  'clone takes the name and each address of a repository, and finds its server by it',
  exhaustive,
  async () => {
    await using home = await createClientHome()
    await using other = await startServiceWithSsh()
    await other.admin.post('/repos', { name: 'there' })
    await using user = await createSshUser(other, other.admin)
    await home.svc(['login', service.url], { input: service.adminToken })
    await home.svc(['login', other.url], { input: other.adminToken })
    const env = { GIT_SSH_COMMAND: user.command }
    const own = other.url
    const addresses = [
      ...[`${own}/there`, `${own}/there.git`, `${own}/repos/there.git`, `${own}/r/there`],
      ...[user.remote('there'), 'svc@127.0.0.1:there.git'],
    ]
    for (const [index, address] of addresses.entries()) {
      const isSsh = /^(ssh:|svc@)/.test(address)
      // Both servers have this host for SSH.
      const options = isSsh ? ['--server', new URL(own).host] : []
      const said = await home.svc(['clone', address, `${index}`, ...options], { env })
      assert.equal(said, `Cloned there into ${index}.\n`)
      const remote = await home.git(join(home.path, `${index}`), 'remote', 'get-url', 'origin')
      assert.equal(remote, `${isSsh ? user.remote('there') : `${own}/repos/there.git`}\n`)
    }
    const byName = ['clone', 'there.git', '--server', new URL(own).host]
    assert.equal(await home.svc(byName), 'Cloned there into there.\n')

    for (const address of ['https://git.example/there.git', `${own}/r/there/tree/main`]) {
      const { code, err } = await home.run(['clone', address])
      assert.equal(code, 2)
      const start = `svc: ${address} is no address of a repository on ${service.url}; --server `
      assert.ok(err.startsWith(start), err)
    }
  },
)

test('a login without a name is the one that is known by its address', async () => {
  await using home = await createClientHome()
  const logIn = (...args: string[]) =>
    home.run(['login', service.url, ...args], { input: service.adminToken })
  const names = async () =>
    JSON.parse(await home.svc(['servers', '--json'])).map(({ name }: { name: string }) => name)
  await logIn('--name', 'work')
  assert.match((await logIn()).out, /as the server work; .* in place of the one before\.\n$/)
  await logIn('--name', 'bot')
  assert.deepEqual(await names(), ['work', 'bot'])
  const { code, err } = await logIn()
  assert.equal(code, 2)
  assert.match(err, /You are logged in to \S+ as work and as bot; say with --name which login/)
  assert.deepEqual(await names(), ['work', 'bot'])
})

test('a login says when the environment chooses another server', async () => {
  await using home = await createClientHome()
  for (const [env, expected] of [
    [{ SVC_URL: 'http://127.0.0.1:1' }, / SVC_URL is set, so commands use that server unless/],
    [
      { SVC_DATA_DIR: service.dataDir },
      / SVC_DATA_DIR is set, so commands use that data directory/,
    ],
  ] as const) {
    const said = await home.svc(['login', service.url], { env, input: service.adminToken })
    assert.match(said, expected)
  }
})

test('SVC_URL with SVC_TOKEN needs no login, and SVC_TOKEN goes to no other server', async () => {
  await using home = await loggedIn(service)
  await using other = await startService()
  await other.admin.post('/repos', { name: 'there' })
  const env = { SVC_URL: `${other.url}/`, SVC_TOKEN: other.adminToken }
  assert.match(await home.svc(['repos', 'list'], { env }), /^there /m)
  await home.svc(['clone', 'there'], { env })
  await home.git(home.path, 'config', '--global', 'user.name', 'Ada')

  // The credential helper in the clone gets the token from the environment as well.
  const input = `protocol=http\nhost=${new URL(other.url).host}\n\n`
  assert.equal(
    await home.svc(['git-credential', 'get'], { env, input }),
    `username=git\npassword=${other.adminToken}\n`,
  )
  assert.equal(await home.svc(['git-credential', 'get'], { input }), '')
  assert.match(await home.svc(['repos', 'list', '--json', '--server', 'main'], { env }), /^\[/)
  const none = await home.run(['repos', 'list'], { env: { SVC_URL: other.url } })
  assert.equal(none.code, 4)
  assert.match(none.err, /There is no token for http\S+; log in with svc login/)
})

test('with SVC_DATA_DIR, or without a server, commands work on the data directory', async () => {
  await using home = await loggedIn(service)
  const env = { SVC_DATA_DIR: service.dataDir }
  await home.svc(['repos', 'create', 'local-one', '--username', 'admin'], { env })
  const refused = await home.run(['repos', 'create', 'x', '--username', 'admin'])
  assert.deepEqual(refused.code, 2)
  assert.match(refused.err, /takes --username only for a data directory; --server local chooses it/)
  const needs = await home.run(['pushes', 'list', 'local-one', '--server', 'local'])
  assert.equal(needs.code, 2)
  assert.match(needs.err, /svc pushes list needs a server: log in with svc login URL/)
})

test('the credential helper responds for its servers only', async () => {
  await using home = await loggedIn(service)
  const { host } = new URL(service.url)
  const get = (input: string) => home.svc(['git-credential', 'get'], { input: `${input}\n` })
  assert.equal(
    await get(`protocol=http\nhost=${host}\n`),
    `username=git\npassword=${service.adminToken}\n`,
  )
  for (const other of [
    `protocol=https\nhost=${host}\n`,
    'protocol=http\nhost=127.0.0.1\n',
    `protocol=http\nhost=${host}.example.com\n`,
    'protocol=http\nhost=127.0.0.1:1\n',
    '',
  ]) {
    assert.equal(await get(other), '', other)
  }
  const input = `protocol=http\nhost=${host}\nusername=git\npassword=${service.adminToken}\n`
  for (const operation of ['store', 'erase']) {
    assert.equal(await home.svc(['git-credential', operation], { input }), '')
  }
  assert.match(await get(`protocol=http\nhost=${host}\n`), /password=svc_/)
  assert.equal((await home.run(['git-credential', 'list'])).code, 2)
})

test("git's credential helper keeps the token where one is configured", async () => {
  await using home = await createClientHome()
  const store = join(home.path, 'passwords')
  const config = `[credential]\n\thelper = store --file=${store}\n`
  await writeFile(join(home.path, '.gitconfig'), config)
  const args = ['login', service.url, '--name', 'main']
  assert.match(await home.svc(args, { input: service.adminToken }), /Git's credential helper keeps/)
  assert.match(await readFile(store, 'utf8'), /main:svc_/)
  assert.ok(!(await readFile(home.configPath, 'utf8')).includes('svc_'))
  await home.svc(['repos', 'create', 'kept'])
  await home.svc(['clone', 'kept'])
  await home.git(join(home.path, 'kept'), 'ls-remote')
  await home.svc(['logout', 'main'])
  assert.equal(await readFile(store, 'utf8'), '')

  // One that forgets, or fails, is not trusted with it.
  for (const helper of ['cache', '!false', '!exec svc git-credential']) {
    await writeFile(join(home.path, '.gitconfig'), `[credential]\n\thelper = "${helper}"\n`)
    assert.match(await home.svc(args, { input: service.adminToken }), /servers\.json keeps/)
    await home.svc(['logout'])
  }
})

test('a damaged list of servers is named, without its content', async () => {
  await using home = await createClientHome()
  await mkdir(join(home.configPath, '..'), { recursive: true })
  for (const content of ['{"servers": [{"token": "svc_x', '[]', 'null', '{"servers": [1]}']) {
    await writeFile(home.configPath, content)
    const { code, err } = await home.run(['repos', 'list'])
    assert.equal(code, 1)
    assert.match(err, /^svc: \S+servers\.json cannot be read: it is not a list of servers\./)
    assert.ok(!err.includes('svc_x'))
  }
})
