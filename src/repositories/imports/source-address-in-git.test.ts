import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { promisify } from 'node:util'
import fc from 'fast-check'
import { toHost } from '#base/outbound/host.ts'
import { toRounds } from '../../../test/support/rounds.ts'
import { parseSource, type RemoteSource } from './source-address.ts'

const execute = promisify(execFile)

// What addresses are made of, and what is used to make two programs disagree about them.
const piece = fc.constantFrom(
  ...[
    '/',
    '//',
    ':',
    '@',
    '[',
    ']',
    '%40[',
    '.',
    '..',
    '~',
    '-',
    '%40',
    '%5b',
    '%5D',
    '%2f',
    '%3A',
    '::1',
  ],
  ...[
    '127.1',
    'a',
    'example.com',
    '.git',
    '22',
    'é',
    '。',
    'git',
    'evil',
    '[::1]',
    '+',
    '=',
    'ssh://',
  ],
)

const addressParts = fc.tuple(
  fc.constantFrom('ssh://', 'git://'),
  fc.oneof(fc.constantFrom('', '', 'git@', 'a%40b@'), piece),
  fc.oneof(fc.constantFrom('example.com', '[::1]', '127.1', 'ex%61mple.'), piece),
  fc.oneof(fc.constantFrom('', '', ':', ':22', ':00'), piece),
  fc.array(piece, { minLength: 1, maxLength: 6 }),
)

test('git reads the same host, port and path from an ssh or git address', () => {
  const addresses = [
    ...['ssh://example.com/x', 'ssh://git@example.com:22/x.git', 'ssh://git@example.com:/a//b/'],
    ...[
      'ssh://git@[2001:db8::1]:2222/x',
      'ssh://[::1]/x',
      'ssh://a%40b@[::1]:22/x',
      'ssh://127.1/x',
    ],
    ...['ssh://ex%61mple.com/%7Eada/x', 'ssh://example.com/~ada/x', 'ssh://Example.COM:0022/a%20b'],
    ...[
      'git://example.com/x',
      'git://[::1]:9418/x%40y',
      'git://example.com:9418/~ada/[x]',
      'git://0x7f.1/%25',
    ],
    ...[
      'ssh://example.com/a:22/b',
      'ssh://example.com/a%40b:22/c',
      'ssh://git@example.com/ssh://evil/x',
    ],
  ]
  for (const text of addresses) assertSameToGit(text)

  fc.assert(
    fc.property(addressParts, ([scheme, user, host, port, ...path]) => {
      const text = `${scheme}${user}${host}${port}/${path.flat().join('')}`
      if (isAccepted(text)) assertSameToGit(text)
    }),
    { numRuns: toRounds(100) },
  )
})

test('git and curl connect to the same host and port for an http or https address', async (t) => {
  const reached: string[] = []
  const proxy = createServer((request, response) => {
    reached.push(new URL(request.url ?? '').host)
    response.writeHead(404).end()
  })
  proxy.on('connect', (request, socket) => {
    reached.push(request.url ?? '')
    // It is no longer among the connections of the server.
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n', () => socket.destroy())
  })
  t.after(() => {
    proxy.close()
    proxy.closeAllConnections()
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  // A server that listens on a port has an address of this form.
  const { port } = proxy.address() as AddressInfo
  const env = { PATH: process.env.PATH, GIT_TERMINAL_PROMPT: '0', GIT_CONFIG_NOSYSTEM: '1' }
  const addresses: [text: string, target: string][] = [
    ['http://ada:secret@Example.COM/x', 'example.com'],
    ['http://example.com:8080/a%40[evil.example]:22/x', 'example.com:8080'],
    ['http://2130706433:81/x', '127.0.0.1:81'],
    ['http://0x7f.1/x', '127.0.0.1'],
    ['http://%6cocalhost.:82/x', 'localhost:82'],
    ['http://[2001:DB8::0001]:83/x', '[2001:db8::1]:83'],
    ['https://example.com./x', 'example.com:443'],
    ['https://ada@127。1:8443/%40evil.example/x', '127.0.0.1:8443'],
    ['https://[::ffff:127.0.0.1]/x', '[::ffff:7f00:1]:443'],
  ]
  for (const [text, target] of addresses) {
    const { shown, host } = remote(text)
    const through = [
      '-c',
      `http.proxy=http://127.0.0.1:${port}`,
      'ls-remote',
      '--end-of-options',
      shown,
    ]
    await assert.rejects(execute('git', through, { env }))
    assert.equal(reached.at(-1), target, text)
    assert.ok(target.includes(host), text)
    reached.length = 0
  }
})

function remote(text: string): RemoteSource {
  const source = parseSource(text)
  assert.ok(source.kind === 'remote', text)
  return source
}

function isAccepted(text: string): boolean {
  try {
    return parseSource(text).kind === 'remote'
  } catch {
    return false
  }
}

// What git itself says of an address, as it was given and as it is shown.
function assertSameToGit(text: string): void {
  const source = remote(text)
  for (const address of [text, source.shown]) {
    const { stdout, stderr } = spawnSync('git', ['fetch-pack', '--diag-url', address], {
      encoding: 'utf8',
    })
    const [, target = ''] =
      /^Diag: (?:userandhost|hostandport)=(.*)$/m.exec(stdout) ?? assert.fail(stderr)
    // As ssh does, and git's own protocol has no user.
    const [, host = '', inHost] =
      /^(\[.*\]|[^:]*|[^[]*:.*)(?::(\d*))?$/.exec(target.slice(target.lastIndexOf('@') + 1)) ?? []
    const [, ownPort] = /^Diag: port=(\d+)$/m.exec(stdout) ?? []
    const port = ownPort ?? (inHost || undefined)
    assert.deepEqual(toHost(host), toHost(source.host), `${address}: ${target}`)
    assert.equal(port === undefined ? undefined : Number(port), source.port, address)
    const path = Buffer.from(decodeBytes(source.path), 'latin1').toString()
    assert.match(
      stdout,
      new RegExp(`^Diag: path=${quoted(path.replace(/^\/~/, '~'))}$`, 'm'),
      address,
    )
  }
}

function decodeBytes(path: string): string {
  const bytes = Buffer.from(path).toString('latin1')
  return bytes.replace(/%([0-9a-f]{2})/gi, (_, hex) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}

function quoted(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
