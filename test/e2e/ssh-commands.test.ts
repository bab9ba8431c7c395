// Tags: each-store
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createProject } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startServiceWithSsh } from '../support/service.ts'
import { createSshUser, run, type SshUser } from '../support/ssh-user.ts'

let service: Service
let client: Client
let ada: SshUser

describe('commands over SSH', { skip: without('openssh') }, () => {
  before(async () => {
    service = await startServiceWithSsh()
    client = await service.client({ username: 'ada' })
    ada = await createSshUser(service, client)
    await client.post('/repos', { name: 'site' })
    await client.post('/repos', { name: 'a-longer-name' })
    await client.put('/repos/site/protections/branches/main')
  })

  after(async () => {
    await ada[Symbol.asyncDispose]()
    await service[Symbol.asyncDispose]()
  })

  test('repos prints a line for each repository, its name first', async () => {
    const { exitCode, stdout, stderr } = await ada.ssh('repos')
    assert.deepEqual([exitCode, stderr], [0, ''])
    const date = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d`
    const lines = [`site           ${date}  protected: main`, `a-longer-name  ${date}`]
    assert.match(stdout, new RegExp(`^${lines.join('\n')}\n$`))
  })

  test('clone addresses have the public host and port', async () => {
    await using mapped = await startServiceWithSsh({
      env: { SVC_BASE_URL: 'https://git.example.com', SVC_SSH_PUBLIC_PORT: '22' },
    })
    const { body } = await mapped.admin.post('/repos', { name: 'site' })
    assert.deepEqual(body.cloneUrls, {
      http: 'https://git.example.com/repos/site.git',
      ssh: 'ssh://svc@git.example.com:22/site.git',
    })
  })

  test('info prints a field and its value on each line', async () => {
    const { exitCode, stdout, stderr } = await ada.ssh('info site')
    assert.deepEqual([exitCode, stderr], [0, ''])
    const fields = new Map(
      stdout.split('\n').map((line) => line.split(/: (.*)/) as [string, string]),
    )
    const { body } = await client.get('/repos/site')
    assert.equal(fields.get('Name'), 'site')
    assert.equal(fields.get('Owner token'), client.id)
    assert.equal(fields.get('Empty'), 'yes')
    assert.equal(fields.get('Protected branches'), 'main')
    assert.equal(fields.get('Clone over HTTP'), body.cloneUrls.http)
    assert.equal(fields.get('Clone over SSH'), ada.remote('site'))
    assert.equal(body.cloneUrls.ssh, ada.remote('site'))
  })

  test('whoami prints the user, the key and its permissions', async () => {
    const { exitCode, stdout, stderr } = await ada.ssh('whoami')
    assert.deepEqual([exitCode, stderr], [0, ''])
    const fields = `Username: ada\nKey: laptop (ssh-ed25519 ${ada.fingerprint})\nPermissions: repo:read repo:write\n`
    assert.equal(stdout.replace(/^Expires: .*\n/m, ''), fields)
  })

  test('help lists every command, for people and as JSON', async () => {
    const names = [
      ...['repos', 'info', 'whoami', 'login', 'help'],
      ...['git-upload-pack', 'git-receive-pack', 'git-lfs-authenticate', 'git-upload-archive'],
    ]
    const { stdout } = await ada.ssh('help')
    assert.deepEqual(stdout.match(/(?<=^ {2})[\w-]+/gm), names)
    const list = JSON.parse((await ada.ssh('help --json')).stdout)
    assert.deepEqual(
      list.map(({ name }: { name: string }) => name),
      names,
    )
  })

  for (const [line, exitCode, message] of [
    ['info nowhere', 1, 'There is no repository "nowhere", or it is not yours to see.'],
    ['info -h', 1, 'There is no repository "-h", or it is not yours to see.'],
    ['info', 2, 'Usage: info <name> [--json]'],
    ['info --json', 2, 'Usage: info <name> [--json]'],
    ['info site other', 2, 'Usage: info <name> [--json]'],
    ['repos site', 2, 'Usage: repos [--json]'],
    ['whoami now', 2, 'Usage: whoami [--json]'],
    ['git-upload-pack', 2, 'Usage: git-upload-pack <name>'],
    ['git-upload-pack --strict site', 2, 'Usage: git-upload-pack <name>'],
    ['git-upload-pack site --json', 2, 'Usage: git-upload-pack <name>'],
    ["info 'site", 2, 'The command has a quote that is not closed.'],
    ['ls', 127, 'Unknown command "ls"; run help for a list of commands.'],
    ['REPOS', 127, 'Unknown command "REPOS"; run help for a list of commands.'],
    ['toString', 127, 'Unknown command "toString"; run help for a list of commands.'],
    ['git-shell', 127, 'Unknown command "git-shell"; run help for a list of commands.'],
    ['git config -l', 127, 'Unknown command "git-config"; run help for a list of commands.'],
    ['scp -t /tmp', 127, 'Unknown command "scp"; run help for a list of commands.'],
    [
      "git-upload-pack '/gone.git'",
      128,
      'There is no repository "gone", or it is not yours to see.',
    ],
    ['git upload-pack gone', 128, 'There is no repository "gone", or it is not yours to see.'],
    [
      'git-upload-pack ../site',
      128,
      'There is no repository "../site", or it is not yours to see.',
    ],
    // No shell ever sees any of it.
    ['repos; id', 127, 'Unknown command "repos;"; run help for a list of commands.'],
    ['repos && id', 2, 'Usage: repos [--json]'],
    ['repos | cat', 2, 'Usage: repos [--json]'],
    ['repos > /tmp/x', 2, 'Usage: repos [--json]'],
    ['$(id)', 127, 'Unknown command "$(id)"; run help for a list of commands.'],
    ['`id`', 127, 'Unknown command "`id`"; run help for a list of commands.'],
    ['info $(echo site)', 2, 'Usage: info <name> [--json]'],
    ['info $HOME', 1, 'There is no repository "$HOME", or it is not yours to see.'],
    ['info sit?', 1, 'There is no repository "sit?", or it is not yours to see.'],
    ['repos\nid', 2, 'Usage: repos [--json]'],
  ] as const) {
    test(`${JSON.stringify(line)} ends with ${exitCode}`, async () => {
      // Client libraries of Git know an absent repository by the end of the first line.
      const isAbsent = exitCode === 128 && message.startsWith('There is no repository')
      const inGit = isAbsent ? 'svc: This does not appear to be a git repository\n' : ''
      const stderr = `${inGit}svc: ${message}\n`
      assert.deepEqual(await ada.ssh(line), { exitCode, stdout: '', stderr })
    })
  }

  test('a name may be quoted, and have the form of an address', async () => {
    for (const name of [
      'site',
      '/site',
      'site.git',
      '/site.git',
      "'/site.git'",
      '"site"',
      's"it"e',
    ]) {
      assert.match((await ada.ssh(`info ${name}`)).stdout, /^Name: site\n/, name)
    }
  })

  test('an address with folders before the name is answered with the right one', async () => {
    await using project = await createProject()
    for (const [wrong, name] of [
      ['repos/site', 'site'],
      ['/repos/site', 'site'],
      ['r/site', 'site'],
      ['/site', 'site'],
      ['~/site', 'site'],
      ['srv/git/never-used', 'never-used'],
      ['site.git/src', 'site'],
      ['site.git/a/b.c', 'site'],
      ['site.git.git', 'site'],
    ] as const) {
      // A `.git` after it is of a client that appends it to every address.
      const address = ada.remote(wrong)
      const others = [
        ['push', address, 'HEAD:x'],
        ['archive', '--remote', address, 'HEAD'],
      ]
      for (const args of [
        ['clone', address, 'copy'],
        ['ls-remote', address.replace(/\.git$/, '/')],
        ...(wrong.includes('.git') ? [] : others),
      ]) {
        const { exitCode, stderr } = await ada.tryGit(project.path, ...args)
        assert.equal(exitCode, 128, args.join(' '))
        assert.ok(
          stderr.includes(
            `svc: This does not appear to be a git repository\nsvc: Git over SSH finds repositories of this server at /NAME.git or /NAMESPACE/NAME.git: the path of this one is /${name}.git.\n`,
          ),
          stderr,
        )
      }
    }
    assert.equal((await ada.tryGit(project.path, 'ls-remote', ada.remote('site'))).exitCode, 0)
  })

  test('echoed text is escaped', async () => {
    const ended = await ada.ssh("info '\u001b[31mred\u0007\u009b'")
    assert.equal(ended.exitCode, 1)
    assert.doesNotMatch(ended.stderr, /[\u001b\u0007\u009b]/)
  })

  test('an interactive login gets a greeting, with the line ends of its terminal and no warning', async () => {
    const login = `${ada.command} -tt -p ${service.sshPort} svc@127.0.0.1`
    const { exitCode, stdout } = await run('script', ['-qec', login, '/dev/null'])
    const lines = stdout.split('\r\n')
    assert.equal(exitCode, 0)
    assert.deepEqual(lines.slice(0, 2), [
      `Hello ada: your key "laptop" (${ada.fingerprint}) may read and push.`,
      'Shell access is not provided.',
    ])
    assert.ok(lines.some((line) => /^ {2}info <name>/.test(line)))
    assert.doesNotMatch(stdout, /PTY|[^\r]\n/)
  })

  test('a command with a terminal has its line ends, in errors, too', async () => {
    assert.match((await ada.ssh('whoami', '-tt')).stdout, /^Username: ada\r\nKey: [^\n]*\r\n/)
    const failed = await ada.ssh('ls', '-tt')
    assert.equal(failed.exitCode, 127)
    assert.match(failed.stderr, /^svc: Unknown command "ls"; run help for a list of commands.\r\n/)
  })

  test('the greeting says what a key cannot do', async () => {
    for (const [permissions, expected] of [
      [['repo:read'], /may read\.\n/],
      [['repo:write'], /may push\.\n/],
      [[], /may neither read nor push\.\n/],
    ] as const) {
      await using user = await createSshUser(
        service,
        await service.client({ username: 'grace', permissions: [...permissions] }),
      )
      assert.match((await user.ssh('', '-T')).stdout, expected)
    }
  })
})
