// Tags: exhaustive
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { basename, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { gunzipSync, gzipSync } from 'node:zlib'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { freePort } from '../support/free-port.ts'
import { git, spawnGit } from '../support/git.ts'
import { createSource, writeBranch, writeObject, writeTree } from '../support/hostile-objects.ts'
import { type ImportSite, startImportSite } from '../support/import-site.ts'
import { contentOf } from '../support/import-sources.ts'
import {
  advertised,
  serving,
  smartStart,
  startCgiHost,
  startHttpHost,
  startTcpHost,
} from '../support/remote-hosts.ts'
import { onlyInSoak } from '../support/rounds.ts'

const execute = promisify(execFile)
const advertisement = 'application/x-git-upload-pack-advertisement'
const id = 'c0ffee'.padEnd(40, '0')
// Git names each of many commits in more bytes than it keeps by default before it sends them in chunks.
const manyRefs = 22_000
const unreachable = /cannot be reached/
const ended = /ended the connection/

/** Patient, since a busy machine is silent, too. */
let site: ImportSite
/** Impatient with who is silent. */
let impatient: ImportSite
/** Impatient with who is slow, and small. */
let brief: ImportSite
let repository: string
/** The commit of its branch. */
let main: string

before(async () => {
  const env = { SVC_PUSH_MEMORY_MAX: '64MiB' }
  site = await startImportSite({ env })
  impatient = await startImportSite({ env: { ...env, SVC_IMPORT_STALL_SECONDS: '5' } })
  brief = await startImportSite({ env: { SVC_IMPORT_SECONDS: '10', SVC_IMPORT_MAX: '1MiB' } })
  repository = await createSource(site.path())
  main = (await git(repository, ['rev-parse', 'main'])).stdout
})

after(async () => {
  await site[Symbol.asyncDispose]()
  await impatient[Symbol.asyncDispose]()
  await brief[Symbol.asyncDispose]()
})

/** Adds commits, each with a branch of its own. */
async function addCommits(path: string, count: number): Promise<void> {
  const marks = join(path, 'marks')
  const child = spawnGit(path, ['fast-import', '--quiet', `--export-marks=${marks}`])
  const end = once(child, 'close')
  for (let number = 1; number <= count; number++) {
    const message = `Commit ${number}`
    child.stdin.write(
      `commit refs/heads/many\nmark :${number}\ncommitter Ada <ada@example.com> 1700000000 +0000\n` +
        `data ${message.length}\n${message}\n`,
    )
  }
  child.stdin.end()
  const [exitCode] = await end
  assert.equal(exitCode, 0)
  // A file for each ref would cost more than all the rest.
  const file = join(path, 'packed-refs')
  const packed = (await readFile(file, 'utf8')).replace(/^#.*\n/, '')
  const refs = (await readFile(marks, 'utf8')).replace(/^:(\d+) (.*)$/gm, '$2 refs/heads/some/$1')
  await writeFile(file, packed + refs)
}

function smart(response: ServerResponse): ServerResponse {
  response.setHeader('content-type', advertisement)
  return response
}

/** Writes a piece again and again for as long as it is read. */
function repeat(socket: Socket | ServerResponse, piece: Buffer): void {
  socket.on('error', () => {})
  const write = () => {
    while (!socket.destroyed) if (!socket.write(piece)) return void socket.once('drain', write)
  }
  write()
}

type HttpCase = {
  /** Ends the sentence "a host that …". */
  what: string
  detail: RegExp
  answer: (request: IncomingMessage, response: ServerResponse) => void
}

const status = (code: number) => (_request: IncomingMessage, response: ServerResponse) => {
  response.writeHead(code).end()
}

const httpCases: HttpCase[] = [
  {
    what: 'asks for credentials',
    detail: /requires credentials; add them to its address: https:/,
    answer: status(401),
  },
  { what: 'forbids', detail: /does not let these credentials read it/, answer: status(403) },
  { what: 'knows nothing', detail: /There is no repository at the source/, answer: status(404) },
  { what: 'fails', detail: /answers with HTTP status 500/, answer: status(500) },
  { what: 'has no content', detail: /answers with HTTP status 204/, answer: status(204) },
  {
    what: 'answers with a page',
    detail: /does not speak the smart HTTP protocol/,
    answer: (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello</h1>')
    },
  },
  {
    what: 'serves files and no smart protocol',
    detail: /does not speak the smart HTTP protocol/,
    answer: (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' }).end(`${id}\trefs/heads/main\n`)
    },
  },
  {
    what: 'has the type of a result for its refs',
    detail: /does not speak the smart HTTP protocol/,
    answer: (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' })
      response.end(smartStart)
    },
  },
  {
    what: 'has headers without end',
    detail: /its headers are too large/,
    answer: (_request, { socket }) => {
      socket?.write('HTTP/1.1 200 OK\r\n')
      if (socket) repeat(socket, Buffer.from(`x: ${'x'.repeat(1000)}\r\n`))
    },
  },
  {
    what: 'does not speak HTTP',
    detail: /does not speak HTTP/,
    answer: (_request, { socket }) => void socket?.end('SSH-2.0-OpenSSH_9.2\r\n\r\n'),
  },
  {
    what: 'wants to speak something else',
    detail: /cannot be reached|The source sent no data/,
    answer: (_request, { socket }) => {
      socket?.write('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n')
    },
  },
  {
    what: 'closes without an answer',
    detail: unreachable,
    answer: (_request, { socket }) => void socket?.destroy(),
  },
  {
    what: 'closes within its headers',
    detail: unreachable,
    answer: (_request, { socket }) => void socket?.end('HTTP/1.1 200 OK\r\ncontent-'),
  },
  {
    what: 'closes within its refs',
    detail: ended,
    answer: (_request, response) => {
      smart(response).setHeader('content-length', 10_000)
      response.write(smartStart, () => response.socket?.destroy())
    },
  },
  {
    what: 'ends within its refs',
    detail: ended,
    answer: (_request, response) =>
      void smart(response).end(Buffer.concat([smartStart, Buffer.from('00ff')])),
  },
  {
    what: 'has lines of garbage',
    detail: ended,
    answer: (_request, response) => void smart(response).end('zzzz garbage'),
  },
  {
    what: 'says it compresses, and does not',
    detail: ended,
    answer: (_request, response) => {
      smart(response).setHeader('content-encoding', 'gzip')
      response.end('no gzip')
    },
  },
  {
    what: 'sends refs without end',
    detail: /too much memory|The source sent no data/,
    answer: (_request, response) => {
      smart(response).write(smartStart)
      response.write(packet(`${id} refs/heads/main\0side-band-64k\n`))
      repeat(
        response,
        Buffer.concat(Array(500).fill(packet(`${id} refs/heads/${'x'.repeat(99)}\n`))),
      )
    },
  },
  {
    what: 'sends refs without end, compressed to almost nothing',
    detail: /too much memory|The source sent no data/,
    answer: (_request, response) => {
      smart(response).setHeader('content-encoding', 'gzip')
      const lines = packet(`${id} refs/heads/${'x'.repeat(99)}\n`)
        .toString()
        .repeat(500_000)
      response.end(gzipSync(Buffer.concat([smartStart, Buffer.from(lines)]), { level: 1 }))
    },
  },
  {
    what: 'never answers',
    detail: /The source sent no data for 5 seconds/,
    answer: () => {},
  },
  {
    what: 'never ends its answer',
    detail: /The source sent no data for 5 seconds/,
    answer: (_request, response) => void smart(response).write(smartStart),
  },
  {
    what: 'says again and again that it goes on',
    detail: /too many informational responses/,
    answer: (_request, { socket }) => {
      const timer = setInterval(() => socket?.write('HTTP/1.1 102 Processing\r\n\r\n'), 50)
      socket?.on('close', () => clearInterval(timer))
    },
  },
  {
    what: 'advertises a HEAD that leads out',
    detail: /HEAD of the source is "refs\/heads\/\.\.\/\.\.\/x", which is not a valid ref name/,
    answer: (request, response) => {
      if (request.method !== 'GET') return serving(repository)(request, response)
      const refs: [string, string][] = [
        ['HEAD', main],
        ['refs/heads/main', main],
      ]
      const symref = 'symref=HEAD:refs/heads/../../x side-band-64k ofs-delta'
      smart(response).end(Buffer.concat([smartStart, advertised(refs, symref)]))
    },
  },
  {
    what: 'advertises a ref that leads out',
    detail: /The source has a ref "refs\/heads\/\.\.\/\.\.\/x", which is not a valid ref name/,
    answer: (request, response) => {
      if (request.method !== 'GET') return serving(repository)(request, response)
      const refs: [string, string][] = [
        ['refs/heads/../../x', main],
        ['refs/heads/main', main],
      ]
      smart(response).end(Buffer.concat([smartStart, advertised(refs)]))
    },
  },
  {
    what: 'advertises a ref with control characters',
    detail: /The source has a ref "refs\/heads\/x\?\[31m", which is not a valid ref name/,
    answer: (request, response) => {
      if (request.method !== 'GET') return serving(repository)(request, response)
      const refs: [string, string][] = [
        ['refs/heads/main', main],
        ['refs/heads/x\u001b[31m', main],
      ]
      smart(response).end(Buffer.concat([smartStart, advertised(refs)]))
    },
  },
  {
    what: 'advertises what it does not have',
    detail: /is damaged|ended the connection/,
    answer: (request, response) => {
      if (request.method !== 'GET') return serving(repository)(request, response)
      smart(response).end(Buffer.concat([smartStart, advertised([['refs/heads/main', id]])]))
    },
  },
]

const placeOf = (detail: RegExp) => (detail.source.includes('sent no data') ? impatient : site)

describe('hostile hosts of HTTP as sources of imports', exhaustive, () => {
  for (const { what, detail, answer } of httpCases) {
    test(`a host that ${what} has its own error, and nothing is left`, async () => {
      using host = await startHttpHost(answer)
      await placeOf(detail).refused(`http://127.0.0.1:${host.port}/x.git`, { detail })
    })
  }

  test('a host with an untrusted certificate is rejected, and one without TLS', async () => {
    const key = site.path('key')
    const cert = site.path('cert')
    const words = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=localhost']
    await execute('openssl', [...words, '-keyout', key, '-out', cert, '-days', '2'])
    const tls = { key: await readFile(key, 'utf8'), cert: await readFile(cert, 'utf8') }
    using host = await startHttpHost(serving(repository), tls)
    const signed = { detail: /its certificate is signed by itself/ }
    await site.refused(`https://127.0.0.1:${host.port}/x.git`, signed)
    using plain = await startHttpHost(status(200))
    await site.refused(`https://127.0.0.1:${plain.port}/x.git`, { detail: /TLS/ })
  })

  test('a hostile object is rejected over HTTP with the message of git', async () => {
    const hostile = await createSource(site.path())
    const blob = await writeObject(hostile, 'blob', 'x\n')
    const tree = await writeTree(hostile, [{ mode: '100644', name: '.git', id: blob }])
    await writeBranch(hostile, 'x', tree)
    using host = await startHttpHost(serving(hostile))
    await site.refused(`http://127.0.0.1:${host.port}/x.git`, { detail: /hasDotgit/ })
  })

  test('a shallow repository is rejected over HTTP', async () => {
    const shallow = site.path()
    await git('/', ['clone', '--quiet', '--bare', '--depth=1', `file://${repository}`, shallow])
    using host = await startHttpHost(serving(shallow))
    await site.refused(`http://127.0.0.1:${host.port}/x.git`, {
      detail: /is damaged, shallow or incomplete/,
    })
  })

  test('a SHA-256 repository is imported over HTTP', async () => {
    const other = site.path()
    await git('/', ['init', '--quiet', '--bare', '--object-format=sha256', other])
    const { stdout: tree } = await git(other, ['write-tree'])
    const { stdout: commit } = await git(other, ['commit-tree', '-m', 'One', tree])
    await git(other, ['update-ref', 'refs/heads/master', commit])
    using host = await startHttpHost(serving(other))
    await site.imported(`http://127.0.0.1:${host.port}/x.git`)
  })

  test('an import from an HTTP/1.0 server works', async () => {
    const folder = site.path()
    await createSource(join(folder, 'x.git'))
    using host = await startCgiHost(folder)
    await site.imported(`http://127.0.0.1:${host.port}/x.git`)
  })

  test('a request of any size has a length, which HTTP/1.0 requires', async () => {
    const toId = (number: number) => number.toString(16).padStart(40, '0')
    const refs = Array.from({ length: manyRefs }, (_, index): [string, string] => [
      `refs/heads/some/${index}`,
      toId(index + 1),
    ])
    const requests: { length: string | undefined; body: Promise<Buffer> }[] = []
    using host = await startHttpHost((request, response) => {
      if (request.method === 'GET') {
        return void smart(response).end(Buffer.concat([smartStart, advertised(refs)]))
      }
      const body = buffer(request)
      requests.push({ length: request.headers['content-length'], body })
      body.finally(() => status(500)(request, response))
    })
    const detail = /answers with HTTP status 500/
    await site.refused(`http://127.0.0.1:${host.port}/x.git`, { detail })
    assert.notDeepEqual(requests, [])
    for (const { length, body } of requests) {
      const bytes = await body
      assert.equal(length, String(bytes.length))
      assert.ok(
        gunzipSync(bytes)
          .toString()
          .includes(`want ${toId(manyRefs)}`),
      )
    }
  })

  test('an import of many commits from an HTTP/1.0 server works', onlyInSoak, async () => {
    await using ample = await startImportSite()
    const folder = site.path()
    const path = await createSource(join(folder, 'x.git'))
    using host = await startCgiHost(folder)
    await addCommits(path, manyRefs)
    const name = await ample.imported(`http://127.0.0.1:${host.port}/x.git`)
    const { body } = await ample.service.admin.get(`/repos/${name}`)
    assert.equal(await contentOf(body.path), await contentOf(path))
  })

  test(
    'a host with endless refs is rejected before they need much memory',
    onlyInSoak,
    async () => {
      await using ample = await startImportSite()
      const line = packet(`${id} refs/heads/${'x'.repeat(99)}\n`)
      const lines = Buffer.concat(Array<Buffer>(500).fill(line))
      const first = packet(`${id} refs/heads/main\0side-band-64k\n`)
      const detail = /The list of refs in the source is too large/
      using plain = await startHttpHost((_request, response) => {
        smart(response).write(Buffer.concat([smartStart, first]))
        repeat(response, lines)
      })
      await ample.refused(`http://127.0.0.1:${plain.port}/x.git`, { detail })
      const all = Buffer.concat([smartStart, first, ...Array<Buffer>(1_200).fill(lines)])
      const small = gzipSync(all, { level: 1 })
      using compressed = await startHttpHost((_request, response) => {
        smart(response).setHeader('content-encoding', 'gzip')
        response.end(small)
      })
      await ample.refused(`http://127.0.0.1:${compressed.port}/x.git`, { detail })
      using versionTwo = await startHttpHost((request, response) => {
        if (request.method === 'POST') {
          response.setHeader('content-type', 'application/x-git-upload-pack-result')
          return repeat(response, lines)
        }
        const capabilities = ['version 2\n', 'ls-refs\n', 'fetch\n'].map(packet)
        smart(response).end(Buffer.concat([smartStart, ...capabilities, flushPacket]))
      })
      await ample.refused(`http://127.0.0.1:${versionTwo.port}/x.git`, { detail })
      using daemon = await startTcpHost((socket) => repeat(socket, lines))
      await ample.refused(`git://127.0.0.1:${daemon.port}/x.git`, { detail })
    },
  )

  test('an import from a correct host works', async () => {
    using host = await startHttpHost(serving(repository))
    await site.imported(`http://127.0.0.1:${host.port}/x.git`)
  })
})

/** A conversation of git:// or of a pack's part, after the refs of version 0. */
type TcpCase = { what: string; detail: RegExp; speak: (socket: Socket) => void }

function afterWants(socket: Socket, speak: () => void): void {
  socket.once('data', () => {
    socket.write(
      advertised(
        [
          ['HEAD', main],
          ['refs/heads/main', main],
        ],
        'side-band-64k symref=HEAD:refs/heads/main',
      ),
    )
    let heard = ''
    socket.on('data', (bytes) => {
      const hadAll = heard.includes('0009done')
      heard += bytes.toString('latin1')
      if (!hadAll && heard.includes('0009done')) speak()
    })
  })
}

const tcpCases: TcpCase[] = [
  {
    what: 'closes at once',
    detail: /ended the connection|cannot be reached/,
    speak: (socket) => void socket.destroy(),
  },
  {
    what: 'closes after the request',
    detail: ended,
    speak: (socket) => void socket.once('data', () => socket.end()),
  },
  {
    what: 'closes within a line',
    detail: ended,
    speak: (socket) => void socket.once('data', () => socket.end('00')),
  },
  {
    what: 'speaks garbage',
    detail: ended,
    speak: (socket) => void socket.once('data', () => socket.end('zzzz')),
  },
  {
    what: 'says that it has an error',
    detail: /The source refuses: "some \?\[31mwords"/,
    speak: (socket) =>
      void socket.once('data', () => socket.end(packet('ERR some \u001b[31mwords'))),
  },
  {
    what: 'closes before the pack',
    detail: /ended the connection|is damaged/,
    speak: (socket) => afterWants(socket, () => socket.end(packet('NAK\n'))),
  },
  {
    what: 'closes within the pack',
    detail: ended,
    speak: (socket) =>
      afterWants(socket, () => {
        socket.end(Buffer.concat([packet('NAK\n'), packet('\u0001PACK\0\0\0\u0002\0\0\0\u0003')]))
      }),
  },
  {
    what: 'sends garbage as its pack',
    detail: /is damaged/,
    speak: (socket) =>
      afterWants(socket, () => {
        socket.end(Buffer.concat([packet('NAK\n'), packet('\u0001garbage'), flushPacket]))
      }),
  },
  {
    what: 'says what is wrong with itself',
    detail: /It says: ".*no repository for you\?\[31m today/,
    speak: (socket) =>
      afterWants(socket, () => {
        const words = packet('\u0003no repository for you\u001b[31m today\n')
        socket.end(Buffer.concat([packet('NAK\n'), words]))
      }),
  },
  {
    what: 'is silent after the refs',
    detail: /The source sent no data for 5 seconds/,
    speak: (socket) => afterWants(socket, () => {}),
  },
  {
    what: 'only says that it is alive',
    detail: /The source sent no data for 5 seconds/,
    speak: (socket) =>
      afterWants(socket, () => {
        socket.write(packet('NAK\n'))
        const timer = setInterval(() => socket.write(packet('\u0001')), 50)
        socket.on('close', () => clearInterval(timer))
      }),
  },
  {
    what: 'is silent from the beginning',
    detail: /The source sent no data for 5 seconds/,
    speak: () => {},
  },
  {
    what: 'sends refs without end',
    detail: /too much memory|The source sent no data/,
    speak: (socket) =>
      repeat(socket, Buffer.concat(Array(500).fill(packet(`${id} refs/x/${'x'.repeat(99)}\n`)))),
  },
]

// A pack of one blob that says it has 2^40 bytes, and the start of 16 KiB of it, not compressed: gitformat-pack(5), RFC 1951.
const endlessBlob = Buffer.concat([
  Buffer.from('\u0001PACK\0\0\0\u0002\0\0\0\u0001'),
  Buffer.from([0xb0, 0x80, 0x80, 0x80, 0x80, 0x40, 0x78, 0x01]),
])
const storedBlock = Buffer.from([0, 0, 0x40, 0xff, 0xbf])

const briefCases: TcpCase[] = [
  {
    what: 'sends endless progress',
    detail: /took longer than 10 seconds/,
    speak: (socket) =>
      afterWants(socket, () => {
        socket.write(packet('NAK\n'))
        const progress = packet('\u0002Counting objects: 1% (1/100)\r')
        const timer = setInterval(() => socket.write(progress), 10)
        socket.on('close', () => clearInterval(timer))
      }),
  },
  {
    what: 'sends a byte now and then',
    detail: /took longer than 10 seconds/,
    speak: (socket) =>
      afterWants(socket, () => {
        socket.write(packet('NAK\n'))
        socket.write(packet(Buffer.concat([endlessBlob, storedBlock])))
        const timer = setInterval(() => socket.write(packet('\u0001\0')), 300)
        socket.on('close', () => clearInterval(timer))
      }),
  },
  {
    what: 'sends a pack without end',
    detail: /source is too large: an import may have at most 1048576 bytes/,
    speak: (socket) =>
      afterWants(socket, () => {
        socket.write(packet('NAK\n'))
        socket.write(packet(endlessBlob))
        const block = Buffer.concat([Buffer.from('\u0001'), storedBlock, randomBytes(0x4000)])
        const length = Buffer.from((block.length + 4).toString(16).padStart(4, '0'))
        repeat(socket, Buffer.concat([length, block]))
      }),
  },
]

describe('hostile hosts of git:// as sources of imports', exhaustive, () => {
  for (const { what, detail, speak } of tcpCases) {
    test(`a git:// host that ${what} has its own error, and nothing is left`, async () => {
      using host = await startTcpHost((socket) => speak(socket))
      await placeOf(detail).refused(`git://127.0.0.1:${host.port}/x.git`, { detail })
    })
  }

  for (const { what, detail, speak } of briefCases) {
    test(`a host that ${what} times out, and nothing is left`, async () => {
      using host = await startTcpHost((socket) => speak(socket))
      await brief.refused(`git://127.0.0.1:${host.port}/x.git`, { detail })
    })
  }

  test('a repository that is too large is rejected, from a folder and over HTTP', async () => {
    const large = await createSource(site.path())
    const blob = await writeObject(large, 'blob', randomBytes(3 * 1024 * 1024))
    await writeBranch(large, 'x', await writeTree(large, [{ mode: '100644', name: 'x', id: blob }]))
    const tooLarge = { detail: /source is too large: an import may have at most 1048576 bytes/ }
    await brief.refused(large, tooLarge)
    using host = await startHttpHost(serving(large))
    await brief.refused(`http://127.0.0.1:${host.port}/x.git`, tooLarge)
  })

  test('an import from git daemon works, and an unknown repository is reported', async () => {
    const port = await freePort()
    const words = ['--listen=127.0.0.1', `--port=${port}`, '--export-all', '--verbose']
    const daemon = spawnGit('/', ['daemon', ...words, '--reuseaddr', `--base-path=${site.folder}`])
    let said = ''
    daemon.stderr.on('data', (text) => {
      said += text
    })
    try {
      await until('the daemon is ready', () => said.includes('Ready to rumble'))
      const address = `git://127.0.0.1:${port}`
      await site.imported(`${address}/${basename(repository)}`)
      const absent = { detail: /There is no repository at the source/ }
      await site.refused(`${address}/absent.git`, absent)
    } finally {
      daemon.kill()
      await once(daemon, 'exit')
    }
  })
})
