import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { copyFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { createSource } from '../support/hostile-objects.ts'
import {
  type ImportSite,
  type RefusedRequestError,
  startImportSite,
} from '../support/import-site.ts'
import { commandOf, familyOf } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { serving, startHttpHost, startSshHost, startTcpHost } from '../support/remote-hosts.ts'
import { withSsh } from '../support/test-settings.ts'

const password = 'pa55-w0rd-found-nowhere'
const username = 'user-found-nowhere'

/** May connect to what it likes on loopback. */
let site: ImportSite
/** May connect to public addresses and to `localhost`. */
let strict: ImportSite
let repository: string

before(async () => {
  site = await startImportSite()
  strict = await startImportSite({ env: { SVC_OUTBOUND_ALLOW: 'external, localhost' } })
  repository = await createSource(site.path())
})

after(async () => {
  await site[Symbol.asyncDispose]()
  await strict[Symbol.asyncDispose]()
})

function forbidden(what: RegExp): RefusedRequestError {
  return { code: 'outbound_forbidden', detail: what }
}

function redirecting(location: string, code = 302) {
  return (_request: IncomingMessage, response: ServerResponse): void => {
    response.writeHead(code, { location }).end()
  }
}

const query = '/info/refs?service=git-upload-pack'

describe('where imports may connect to', () => {
  test(
    'forbidden addresses are rejected in all spellings, without a connection',
    exhaustive,
    async () => {
      let connections = 0
      using host = await startTcpHost(() => {
        connections += 1
      })
      const loopback = ['127.0.0.1', '127.1', '2130706433', '0x7f.1', '0177.0.0.1', '127。0。0。1']
      const embedded = ['[::1]', '[::ffff:127.0.0.1]', '[::127.0.0.1]', '[64:ff9b::7f00:1]']
      const others = [
        '[2002:7f00:1::]',
        '0.0.0.0',
        '[::]',
        '10.0.0.1',
        '169.254.169.254',
        '[fe80::1]',
      ]
      for (const scheme of ['http', 'git', 'ssh']) {
        const names = [...loopback, ...embedded, ...others]
        const sources = names.map((name) => `${scheme}://${name}:${host.port}/x.git`)
        await strict.refusedAll(sources, forbidden(/to which this server may not connect/))
      }
      assert.equal(connections, 0)
    },
  )

  test('a listed name is allowed, and its address alone is not', async () => {
    using host = await startHttpHost(serving(repository))
    await strict.imported(`http://localhost:${host.port}/x.git`)
    await strict.imported(`http://LOCALHOST.:${host.port}/x.git`)
    await strict.refused(`http://127.0.0.1:${host.port}/x.git`, forbidden(/loopback address/))
  })

  test('an unknown name is rejected with advice', async () => {
    const source = 'https://no-such-host.invalid/x.git'
    const detail = /"no-such-host\.invalid" (is unknown|could not be looked up)/
    await strict.refused(source, { code: 'outbound_unresolved', detail })
  })

  for (const [what, address] of [
    ['this machine', '127.0.0.1:1'],
    ['this machine in another spelling', '[::ffff:7f00:1]'],
    ['a private network', '10.0.0.1'],
    ['the metadata of a cloud', '169.254.169.254'],
  ] as const) {
    test(`a redirect to ${what} is rejected, from any host`, async () => {
      using host = await startHttpHost(redirecting(`http://${address}/x.git${query}`))
      await strict.refused(
        `http://localhost:${host.port}/x.git`,
        forbidden(/to which this server may not connect/),
      )
    })
  }

  test(
    'redirects without a target, in circles or not to a repository are rejected',
    exhaustive,
    async () => {
      const cases: [location: string, detail: RegExp][] = [
        [`/again${query}`, /redirects too often/],
        ['file:///etc/passwd', /redirects to file:\/\/, which is not followed/],
        [`ext::sh -c ${site.canary('redirect')}`, /redirects to ext:\/\/, which is not followed/],
        [`ftp://127.0.0.1/x${query}`, /redirects to ftp:\/\/, which is not followed/],
        ['/login', /redirects to what is no repository/],
        ['/x/info/refs?service=git-receive-pack', /redirects to what is no repository/],
        [`http://ada:secret@127.0.0.1/x.git${query}`, /redirects to what is no repository/],
        ['http://[::x]/', /redirects to nowhere/],
      ]
      for (const [location, detail] of cases) {
        using host = await startHttpHost(redirecting(location))
        await site.refused(`http://127.0.0.1:${host.port}/x.git`, { detail })
      }
    },
  )

  test('endless informational responses are cut off', async () => {
    for (const status of ['100 Continue', '103 Early Hints']) {
      using host = await startTcpHost((socket) => {
        const more = () => {
          while (!socket.destroyed && socket.write(`HTTP/1.1 ${status}\r\n\r\n`.repeat(1000)));
        }
        socket.on('error', () => {})
        socket.on('drain', more)
        more()
      })
      const detail = /too many informational responses/
      await site.refused(`http://127.0.0.1:${host.port}/x.git`, { detail })
    }
  })

  test('a redirect of the pack itself is not followed', async () => {
    using host = await startHttpHost((request, response) => {
      if (request.method === 'GET') serving(repository)(request, response)
      else redirecting('/elsewhere/git-upload-pack', 307)(request, response)
    })
    await site.refused(`http://127.0.0.1:${host.port}/x.git`, { detail: /HTTP status 307/ })
  })

  test('a redirect to another path of the same host is followed, with the credentials', async () => {
    const seen: [path: string, authorization: string | undefined][] = []
    using host = await startHttpHost((request, response) => {
      const { url = '', headers } = request
      seen.push([url, headers.authorization])
      if (url.startsWith('/old')) redirecting(`/new.git${query}`, 301)(request, response)
      else serving(repository)(request, response)
    })
    await site.imported(`http://${username}:${password}@127.0.0.1:${host.port}/old`)
    const expected = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
    assert.ok(seen.some(([url]) => url.startsWith('/new.git/git-upload-pack')))
    for (const [url, authorization] of seen) assert.equal(authorization, expected, url)
  })

  test('a redirect to another host has no credentials', async () => {
    const seen: (string | undefined)[] = []
    using other = await startHttpHost((request, response) => {
      seen.push(request.headers.authorization, request.headers.cookie)
      serving(repository)(request, response)
    })
    using host = await startHttpHost(redirecting(`http://127.0.0.1:${other.port}/x.git${query}`))
    await site.imported(`http://${username}:${password}@127.0.0.1:${host.port}/x.git`)
    assert.ok(seen.length > 2)
    assert.deepEqual(new Set(seen), new Set([undefined]))
    using guarded = await startHttpHost((_request, response) => void response.writeHead(401).end())
    using toGuarded = await startHttpHost(
      redirecting(`http://127.0.0.1:${guarded.port}/x.git${query}`),
    )
    const source = `http://${username}:${password}@127.0.0.1:${toGuarded.port}/x.git`
    await site.refused(source, { detail: /redirects to another host, which asks for credentials/ })
  })
})

describe('credentials of sources', () => {
  test('credentials of an address appear nowhere, neither during the import nor afterwards', async () => {
    const commands: string[] = []
    const secrets = [password, Buffer.from(`${username}:${password}`).toString('base64')]
    using host = await startHttpHost((request, response) => {
      commands.push(...familyOf(site.service.pid).map(commandOf))
      if (request.headers.authorization) serving(repository)(request, response)
      else response.writeHead(401).end()
    })
    const source = `http://${username}:${password}@127.0.0.1:${host.port}/x.git`
    const name = await site.imported(source)
    assert.ok(commands.some((command) => command.includes('ls-remote')))
    using wrong = await startHttpHost((_request, response) => void response.writeHead(401).end())
    await site.refused(`http://${username}:${password}@127.0.0.1:${wrong.port}/x.git`, {
      detail: /does not accept these credentials/,
    })
    const { text } = await site.service.admin.get(`/repos/${name}`)
    const output = [...commands, site.service.log(), text].join('\n')
    for (const secret of [...secrets, username]) assert.ok(!output.includes(secret), secret)
    for (const secret of [password, username]) await assertAbsent(site.service.dataDir, secret)
  })

  test('the relay between git and a host serves only git, and ends with the import', async () => {
    const asked = Promise.withResolvers<void>()
    const going = Promise.withResolvers<void>()
    using host = await startHttpHost((request, response) => {
      asked.resolve()
      going.promise.then(() => serving(repository)(request, response))
    })
    const importing = site.imported(`http://${username}:x@127.0.0.1:${host.port}/x.git`)
    await asked.promise
    const commands = familyOf(site.service.pid).map(commandOf).join('\n')
    const [address = '', origin = ''] = /(http:\/\/127\.0\.0\.1:\d+)\/\w+/.exec(commands) ?? []
    assert.ok(origin !== '' && !origin.endsWith(`:${host.port}`), commands)
    const paths = ['/', query, `/x${query}`, '/x/git-upload-pack']
    for (const path of paths) assert.equal((await fetch(origin + path)).status, 404, path)
    assert.equal((await fetch(`${address}/HEAD`)).status, 404)
    going.resolve()
    await importing
    await assert.rejects(fetch(`${address}${query}`), /fetch failed/)
  })
})

describe('hosts of SSH', { skip: without('openssh') }, () => {
  const newKey = () =>
    generateKeyPairSync('rsa', {
      modulusLength: 2048,
      privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
      publicKeyEncoding: { type: 'pkcs1', format: 'pem' },
    }).privateKey

  test('a password in the address authenticates, and appears nowhere', async () => {
    const commands: string[] = []
    using host = await startSshHost({
      hostKey: newKey(),
      repository,
      banner: 'fatal: No space left on device\n',
      login(login) {
        commands.push(...familyOf(site.service.pid).map(commandOf))
        if (login.method === 'password' && login.password === password) login.accept()
        else login.reject(['password'])
      },
    })
    const address = (secret: string) => `ssh://${username}:${secret}@127.0.0.1:${host.port}/x.git`
    const name = await site.imported(address(password))
    await site.refused(address('wrong'), { detail: /does not accept the given ones/ })
    await site.refused(`ssh://${username}@127.0.0.1:${host.port}/x.git`, {
      detail: /requires credentials/,
    })
    const { text } = await site.service.admin.get(`/repos/${name}`)
    assert.ok(commands.some((command) => command.includes('ssh')))
    assert.ok(![...commands, text, site.service.log()].join('\n').includes(password))
    assert.ok(!site.service.log().includes(username))
    await assertAbsent(site.service.dataDir, password)
  })

  test('a host with a changed key is rejected', exhaustive, async () => {
    const login = (one: { accept(): void }) => one.accept()
    const first = await startSshHost({ hostKey: newKey(), repository, login })
    const source = `ssh://git@127.0.0.1:${first.port}/x.git`
    await site.imported(source)
    first[Symbol.dispose]()
    using _second = await startSshHost({ hostKey: newKey(), port: first.port, repository, login })
    await site.refused(source, { detail: /host key of the source has changed/ })

    // Another server has not seen the host, and its settings have the former key.
    await using folder = await temporaryFolder()
    const SVC_IMPORT_KNOWN_HOSTS_FILE = join(folder.path, 'known hosts')
    await copyFile(join(site.service.dataDir, 'known_hosts'), SVC_IMPORT_KNOWN_HOSTS_FILE)
    await using informed = await startImportSite({ env: { SVC_IMPORT_KNOWN_HOSTS_FILE } })
    await informed.refused(source, { detail: /host key of the source has changed/ })
    await using other = await startImportSite()
    await other.imported(source)
  })

  test(
    'a host that is silent, disconnects or speaks another protocol has its own error',
    exhaustive,
    async () => {
      using silent = await startTcpHost(() => {})
      using closing = await startTcpHost((socket) => void socket.destroy())
      using other = await startTcpHost((socket) => void socket.end('HTTP/1.1 200 OK\r\n\r\n'))
      const ended = { detail: /ended the connection|cannot be reached/ }
      await using impatient = await startImportSite({ env: { SVC_IMPORT_STALL_SECONDS: '5' } })
      await impatient.refused(`ssh://git@127.0.0.1:${silent.port}/x`, {
        detail: /The source sent no data/,
      })
      await site.refused(`ssh://git@127.0.0.1:${closing.port}/x`, ended)
      await site.refused(`ssh://git@127.0.0.1:${other.port}/x`, ended)
      const { port } = closing
      closing[Symbol.dispose]()
      await site.refused(`ssh://git@127.0.0.1:${port}/x`, { detail: /Connection refused/ })
      await site.refused(`git://127.0.0.1:${port}/x`, { detail: /Connection refused/ })
      await site.refused(`http://127.0.0.1:${port}/x`, { detail: /connection was refused/ })
    },
  )

  test('a repository is imported from another svc, with anonymous access', exhaustive, async () => {
    await using other = await startImportSite({
      env: { ...withSsh, SVC_SSH_ANONYMOUS_READ: 'true' },
    })
    const { admin, sshPort } = other.service
    await admin.post('/repos', { name: 'site' })
    await git(repository, ['push', '--quiet', admin.remote('site'), 'main'])
    await site.imported(`ssh://anonymous@127.0.0.1:${sshPort}/site.git`)
    const absent = { detail: /There is no repository at the source|It says|ended the connection/ }
    await site.refused(`ssh://anonymous@127.0.0.1:${sshPort}/absent.git`, absent)
    const source = `${other.service.url}/repos/site.git`
    await site.refused(source, { detail: /requires credentials/ })
  })
})

/** Asserts that no file in a folder has a text in it, be it in plain or in a database. */
async function assertAbsent(folder: string, text: string): Promise<void> {
  const found = await until('grep has an answer', async () => {
    const code = await new Promise<number>((resolve) => {
      const grep = execFile('grep', ['-r', '-l', '-a', '-F', '-e', text, folder])
      grep.on('close', (exitCode) => resolve(exitCode ?? 2))
    })
    // A file that went away meanwhile is 2.
    return code !== 2 && { code }
  })
  assert.equal(found.code, 1, 'it was found')
}
