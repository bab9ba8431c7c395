// Tags: exhaustive, each-store

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { flushPacket, packet } from '#git/protocol/pkt-line.ts'
import { until } from '../support/condition.ts'
import { character } from '../support/fuzz.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { leftoversIn, untilTidy } from '../support/leftovers.ts'
import { idDigits, objectFormat } from '../support/object-format.ts'
import { commandOf, processesIn, signal } from '../support/processes.ts'
import { openPushRecords } from '../support/push-records.ts'
import { cloneBody, gitHeaders, pushBody, usualPushBody } from '../support/raw-git.ts'
import { connectRaw } from '../support/raw-http.ts'
import { toRounds } from '../support/rounds.ts'
import { type Service, startService } from '../support/service.ts'
import { startSshSite } from '../support/ssh-site.ts'

const mib = 1024 * 1024

type Site = Awaited<ReturnType<typeof createSite>>

/** The servers that tests share: each of them tests what its settings limit, and uses a repository of its own. */
const servers = {
  usual: {},
  impatient: { SVC_GIT_STALL_SECONDS: '5' },
  small: { SVC_PUSH_MAX: '1MiB', SVC_FETCH_REQUEST_MAX: '1MiB', SVC_PUSH_MEMORY_MAX: '64MiB' },
  narrow: { SVC_FETCHES_AT_ONCE: '1', SVC_PUSHES_AT_ONCE: '2', SVC_GIT_WAITING: '0' },
}
const running = new Map<keyof typeof servers, Service>()
const stack = new AsyncDisposableStack()
/** With more data than the sockets of a client that does not read hold. */
let large: Project
let sites = 0

before(async () => {
  large = stack.use(await createLargeProject(16 * mib))
  for (const [name, env] of Object.entries(servers) as [keyof typeof servers, object][])
    running.set(name, stack.use(await startService({ env: { ...env } })))
})

after(() => stack.disposeAsync())

test('a client that disconnects in the middle of a push leaves nothing behind', async () => {
  const site = await createSite('usual')
  await using project = await createLargeProject(2 * mib)
  const body = await pushBody(project.path, 'main')
  using connection = await connectRaw(site.url)
  connection.request(`POST ${site.pushPath}`, gitHeaders('git-receive-pack', site.adminToken))
  connection.chunk(body.subarray(0, mib))
  await until('a quarantine is there', async () => (await leftoversIn(site.dataDir)).length > 0)
  connection.socket.resetAndDestroy()
  await untilNothingIsLeft(site)
  assert.deepEqual(await refsOf(site), [])
  await project.git('push', site.remote, 'HEAD:main')
})

test('a client that disconnects before the response to its push has pushed all or nothing', async () => {
  const site = await createSite('usual')
  await using project = await createProject()
  // One that takes its report in bands is served without receive-pack.
  const moments = [
    { program: /receive-pack/, bodyOf: pushBody },
    { program: /index-pack/, bodyOf: pushBody },
    { program: /pre-receive/, bodyOf: pushBody },
    { program: /index-pack/, bodyOf: usualPushBody },
  ] as const
  for (let number = 0; number < 16; number++) {
    const { program, bodyOf } = moments[number % moments.length] ?? moments[0]
    const body = await bodyOf(project.path, `branch-${number}`)
    using connection = await connectRaw(site.url)
    const headers = gitHeaders('git-receive-pack', site.adminToken, body.length)
    connection.request(`POST ${site.pushPath}`, headers)
    connection.socket.write(body)
    const isAtWork = () => processesIn(site.dataDir).some((pid) => program.test(commandOf(pid)))
    await until(`${program} is seen or missed`, () => isAtWork() || connection.received() !== '')
    connection.socket.destroy()
  }
  await untilNothingIsLeft(site)
  const head = await project.git('rev-parse', 'HEAD')
  for (const line of await refsOf(site)) assert.match(line, new RegExp(`^${head}\trefs/heads/`))
  await project.git('push', site.remote, 'HEAD:main')
})

test('a clone whose token is deleted is cut off, buffered data included', async () => {
  const site = await createSite('usual')
  const { id, token } = await site.client({ username: 'admin' })
  // What is sent now fills the buffers of both ends.
  using connection = await startClone(site, token)
  assert.equal((await site.admin.delete(`/tokens/${id}`)).status, 204)
  const failed = once(connection.socket, 'error')
  await untilNothingIsLeft(site)
  connection.socket.resume()
  const [error] = await failed
  assert.equal(error.code, 'ECONNRESET')
})

test('a client that disconnects in the middle of a clone leaves no git process behind', async () => {
  const site = await createSite('usual')
  using connection = await startClone(site, site.adminToken)
  assert.notDeepEqual(processesIn(site.dataDir), [])
  connection.socket.resetAndDestroy()
  await untilNothingIsLeft(site)
})

test('a client that disconnects while git computes its clone leaves no git process behind', async () => {
  const site = await createSite('usual')
  using connection = await startClone(site, site.adminToken)
  const computing = await until('git makes a pack', () =>
    processesIn(site.dataDir).find((pid) => /pack-objects/.test(commandOf(pid))),
  )
  signal(computing, 'SIGSTOP')
  connection.socket.resume()
  let before = -1
  await until('all that was made has come', () => {
    const isSame = connection.received().length === before
    before = connection.received().length
    return isSame
  })
  connection.socket.destroy()
  await until('upload-pack is gone', () =>
    processesIn(site.dataDir).every((pid) => pid === computing),
  )
  signal(computing, 'SIGCONT')
  await untilNothingIsLeft(site)
})

test('a client that stops reading its clone is cut off', async () => {
  const site = await createSite('impatient')
  using connection = await startClone(site, site.adminToken)
  await untilNothingIsLeft(site)
  connection.socket.resume()
  assert.match(await connection.end(), /^HTTP\/1.1 200 /)
})

for (const [what, sent] of [
  ['before the first byte', 0],
  ['within the first line', 10],
  ['within the pack', mib],
] as const) {
  test(`a client that stops sending its push ${what} is cut off with 408`, async () => {
    const site = await createSite('impatient')
    await using project = await createLargeProject(2 * mib)
    const body = await pushBody(project.path, 'main')
    using connection = await connectRaw(site.url)
    const headers = gitHeaders('git-receive-pack', site.adminToken, body.length)
    connection.request(`POST ${site.pushPath}`, headers)
    connection.socket.write(body.subarray(0, sent))
    const { status, body: text } = await connection.answer()
    assert.equal(status, 408)
    assert.match(text, /No data was transferred for 5 seconds/)
    await connection.end()
    await untilNothingIsLeft(site)
    assert.deepEqual(await refsOf(site), [])
  })
}

test('a client may take longer than a stall to make its pack', async () => {
  const site = await createSite('impatient')
  await using project = await createProject()
  const body = await pushBody(project.path, 'main')
  const commandBytes = body.indexOf('PACK')
  using connection = await connectRaw(site.url)
  const headers = gitHeaders('git-receive-pack', site.adminToken, body.length)
  connection.request(`POST ${site.pushPath}`, headers)
  connection.socket.write(body.subarray(0, commandBytes))
  await setTimeout(7000)
  connection.socket.write(body.subarray(commandBytes))
  assert.match((await connection.answer()).body, /ok refs\/heads\/main/)
})

test('a push with a declared size over the limit is rejected before its body', async () => {
  const site = await createSite('small')
  using connection = await connectRaw(site.url)
  const headers = gitHeaders('git-receive-pack', site.adminToken, mib + 1)
  connection.request(`POST ${site.pushPath}`, headers)
  const { status, body } = await connection.answer()
  assert.equal(status, 413)
  assert.match(body, /at most 1048576 bytes/)
  await untilNothingIsLeft(site)
})

test('a push that turns out too large is rejected with 413 and leaves nothing behind', async () => {
  const site = await createSite('small')
  await using project = await createLargeProject(3 * mib)
  const body = await pushBody(project.path, 'main')
  using connection = await connectRaw(site.url)
  connection.request(`POST ${site.pushPath}`, gitHeaders('git-receive-pack', site.adminToken))
  connection.chunk(body)
  connection.chunk('')
  assert.equal((await connection.answer()).status, 413)
  const push = project.git('-c', 'http.postBuffer=1', 'push', site.remote, 'main')
  await assert.rejects(push, /HTTP 413/)
  await untilNothingIsLeft(site)
  assert.deepEqual(await refsOf(site), [])
})

test('a compressed fetch request gets the same response', async () => {
  const site = await createSite('usual')
  await using project = await createProject()
  await project.git('push', site.remote, 'main')
  const body = cloneBody(await project.git('rev-parse', 'HEAD'))
  for (const encoding of ['gzip', 'x-gzip']) {
    const answer = await post(site, site.fetchPath, gzipSync(body), {
      'content-encoding': encoding,
    })
    assert.equal(answer.status, 200)
    assert.match(answer.body, /^0008NAK\n.{5}PACK/s)
  }
})

test('an invalid compressed request gets a problem', async () => {
  const site = await createSite('usual')
  const whole = gzipSync(cloneBody('1'.repeat(idDigits)))
  const damaged = Buffer.from(whole).fill(0xff, 20, 30)
  for (const path of [site.fetchPath, site.pushPath]) {
    const gzip = { 'content-encoding': 'gzip' }
    assert.equal((await post(site, path, damaged, gzip)).status, 400)
    assert.equal((await post(site, path, whole.subarray(0, 40), gzip)).status, 400)
    assert.equal((await post(site, path, Buffer.from('not gzip'), gzip)).status, 400)
    assert.equal((await post(site, path, whole, { 'content-encoding': 'br' })).status, 415)
  }
  await untilNothingIsLeft(site)
})

test('a body that is not in pkt-lines gets 400', async () => {
  const site = await createSite('usual')
  const bodies = ['', 'hello, world', 'zzzz', '00', '0003', '0020short', 'fff5', '{"name":"site"}']
  for (const path of [site.fetchPath, site.pushPath]) {
    for (const body of bodies) {
      const answer = await post(site, path, Buffer.from(body))
      assert.equal(answer.status, 400, `${path} ${body}`)
    }
  }
  await untilNothingIsLeft(site)
})

test('random pkt-lines always get a response and never fail the server', async () => {
  const site = await createSite('usual')
  await using project = await createProject()
  await project.git('push', site.remote, 'main')
  const head = await project.git('rev-parse', 'HEAD')
  const zeros = '0'.repeat(idDigits)
  const bodies = [
    [packet('hello')],
    [packet(''), flushPacket],
    [flushPacket, flushPacket],
    [flushPacket, Buffer.from('rubbish')],
    [packet('command=fetch'), Buffer.from('0001'), packet('want nothing'), flushPacket],
    [packet('command=explode'), flushPacket],
    [packet(`want ${zeros}\n`), flushPacket, packet('done\n')],
    [packet(`want ${head}\n`), Buffer.from('zzzz')],
    [packet(`want ${head}\n`), packet('deepen -1\n'), flushPacket, packet('done\n')],
    [packet(`${zeros} ${head} refs/heads/x\0report-status`), Buffer.from('zzzz')],
    [packet(`${zeros} ${head} refs/heads/x\0report-status`), flushPacket, Buffer.from('PACK')],
    [packet(`${zeros} ${head} refs/heads/x\0object-format=sha9`), flushPacket],
    [packet(`${zeros} ${head} \0report-status`), flushPacket, randomBytes(100)],
  ].map((pieces) => Buffer.concat(pieces))
  for (const path of [site.fetchPath, site.pushPath]) {
    for (const body of bodies) {
      for (const protocol of ['version=0', 'version=2', 'version=9']) {
        const answer = await post(site, path, body, { 'git-protocol': protocol })
        assert.ok(answer.status < 500, `${answer.status} ${path} ${protocol} ${body}`)
      }
    }
  }
  await untilNothingIsLeft(site)
  assert.deepEqual(await refsOf(site), [`${head}\trefs/heads/main`])
})

const pktLine = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('0000', '0001', '0002', '0003', '0004') },
  {
    weight: 6,
    arbitrary: fc
      .constantFrom(
        'command=fetch',
        'command=ls-refs',
        'command=object-info',
        'command=',
        'agent=x',
        `object-format=${objectFormat}`,
        'object-format=sha512',
        'server-option=x',
        'peel',
        'symrefs',
        'ref-prefix refs/',
        'done',
        'thin-pack',
        `want ${'1'.repeat(idDigits)}`,
        `have ${'1'.repeat(idDigits)}`,
        `shallow ${'1'.repeat(idDigits)}`,
        'deepen 1',
        'deepen 99999999999999999999',
        'filter blob:none',
        'filter combine:',
        'want-ref refs/heads/main',
        'packfile-uris https',
        'argument HEAD',
        `${'0'.repeat(idDigits)} ${'1'.repeat(idDigits)} refs/heads/x\0report-status`,
        'push-option',
      )
      .map((line) => packet(`${line}\n`).toString('latin1')),
  },
  {
    weight: 1,
    arbitrary: fc
      .string({ unit: character, maxLength: 30 })
      .map((line) => packet(line).toString('latin1')),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary-ascii', maxLength: 8 }) },
)
const nonsense = fc
  .array(pktLine, { maxLength: 8 })
  .map((lines) => Buffer.from(lines.join(''), 'latin1'))
const protocols = fc.constantFrom('version=0', 'version=1', 'version=2', '')

test('pkt-lines in any order do not fail the server, over HTTP', async () => {
  const site = await createSite('usual')
  const check = async (body: Buffer, path: string, protocol: string) => {
    const answer = await post(site, path, body, { 'git-protocol': protocol })
    assert.ok(answer.status < 500, `${answer.status} ${path} ${protocol} ${body}`)
  }
  // A response-end packet is for responses alone; git takes it for a bug of its own.
  for (const start of ['', 'command=fetch', 'command=ls-refs'].map((line) => line && packet(line)))
    await check(
      Buffer.concat([Buffer.from(start), Buffer.from('0002')]),
      site.fetchPath,
      'version=2',
    )
  const path = fc.constantFrom(site.fetchPath, site.pushPath)
  await fc.assert(fc.asyncProperty(nonsense, path, protocols, check), { numRuns: toRounds(40) })
  assert.doesNotMatch(site.log(), /"level":"error"|BUG:/)
  await untilNothingIsLeft(site)
})

test('nor over SSH', async () => {
  await using site = await startSshSite()
  const check = async (body: Buffer, program: string, protocol: string) => {
    const { stderr } = await site.exchange(program, protocol, body)
    assert.doesNotMatch(stderr, /Internal server error/, `${program} ${protocol} ${body}`)
  }
  for (const start of ['', packet('command=fetch'), packet('command=ls-refs')])
    await check(
      Buffer.concat([Buffer.from(start), Buffer.from('00020000')]),
      'git-upload-pack',
      'version=2',
    )
  const programs = fc.constantFrom('git-upload-pack', 'git-receive-pack', 'git-upload-archive')
  await fc.assert(fc.asyncProperty(nonsense, programs, protocols, check), { numRuns: toRounds(10) })
  assert.doesNotMatch(site.service.log(), /"level":"error"|BUG:/)
})

test('a client that waits for 100-continue gets it only if its request is admitted', async () => {
  const site = await createSite('small')
  await using project = await createProject()
  const reader = await site.client({ permissions: ['repo:read'] })
  const stranger = await site.client()
  const body = await pushBody(project.path, 'main')

  async function ask(token: string | undefined, size: number) {
    const connection = await connectRaw(site.url)
    const { authorization, ...others } = gitHeaders('git-receive-pack', token ?? '', size)
    const headers = { ...(token !== undefined && { authorization }), ...others }
    connection.request(`POST ${site.pushPath}`, { ...headers, expect: '100-continue' })
    return connection
  }

  for (const [status, token, size] of [
    [401, undefined, body.length],
    [401, 'svc_mistyped', body.length],
    [403, reader.token, body.length],
    [404, stranger.token, body.length],
    [413, site.adminToken, 2 * mib],
  ] as const) {
    using refused = await ask(token, size)
    assert.equal((await refused.answer()).status, status)
    assert.doesNotMatch(await refused.end(), /100 Continue/)
  }

  using accepted = await ask(site.adminToken, body.length)
  await accepted.atLeast('HTTP/1.1 100 Continue\r\n\r\n'.length)
  assert.equal(accepted.received(), 'HTTP/1.1 100 Continue\r\n\r\n')
  accepted.socket.write(body)
  assert.match((await accepted.answer()).body, /ok refs\/heads\/main/)
})

test('a fetch request that inflates beyond the limit is rejected with 413', async () => {
  const site = await createSite('small')
  const line = packet(`have ${'1'.repeat(idDigits)}\n`)
  const bomb = gzipSync(Buffer.alloc(8 * mib, line))
  assert.ok(bomb.length < mib)
  const answer = await post(site, site.fetchPath, bomb, { 'content-encoding': 'gzip' })
  assert.equal(answer.status, 413)
  await untilNothingIsLeft(site)
})

test('a clone beyond the concurrency limit gets Retry-After', async () => {
  const site = await createSite('narrow')
  using first = await startClone(site, site.adminToken)
  const body = cloneBody('1'.repeat(idDigits))
  const refused = await post(site, site.fetchPath, body)
  assert.equal(refused.status, 503)
  assert.match(refused.head, /^retry-after: \d+\r$/im)
  const { stdout } = await git('/', ['ls-remote', site.remote])
  assert.match(stdout, /refs\/heads\/main$/m, 'listing refs needs no turn')
  first.socket.destroy()
  await using folder = await temporaryFolder()
  await until('the turn is free again', async () => {
    const clone = git(folder.path, ['clone', '--quiet', site.remote, 'copy'])
    return clone.then(
      () => true,
      () => false,
    )
  })
})

test('slow requests do not prevent other clones', async () => {
  const site = await createSite('narrow')
  await using project = await createProject()
  await project.git('push', site.remote, 'HEAD:main')
  const begun = packet(`want ${await project.git('rev-parse', 'HEAD')} ofs-delta\n`)
  const trickling = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const connection = await connectRaw(site.url)
      connection.request(
        `POST ${site.fetchPath}`,
        gitHeaders('git-upload-pack', site.adminToken, 1000),
      )
      connection.socket.write(begun)
      return connection
    }),
  )
  await using folder = await temporaryFolder()
  await git(folder.path, ['clone', '--quiet', site.remote, 'copy'])
  for (const connection of trickling) connection.socket.destroy()
})

test('an object that would need much memory is rejected, however small its compressed size', async () => {
  const site = await createSite('small')
  await using project = await createProject()
  const tree = await project.git('rev-parse', 'HEAD^{tree}')
  const person = 'Ada <ada@example.com> 1700000000 +0000'
  const message = 'x'.repeat(72 * mib)
  await writeFile(
    `${project.path}/commit`,
    `tree ${tree}\nauthor ${person}\ncommitter ${person}\n\n${message}\n`,
  )
  const commit = await project.git('hash-object', '-t', 'commit', '-w', 'commit')
  const push = project.git('push', site.remote, `${commit}:refs/heads/main`)
  await assert.rejects(push, /out of memory|unpack/i)
  assert.deepEqual(await refsOf(site), [])
  await untilNothingIsLeft(site)
})

test('pushes of one token beyond its share get Retry-After', async () => {
  const site = await createSite('narrow')
  await using project = await createProject()
  // Git starts before a push of several refs has arrived.
  const body = await pushBody(project.path, 'main', 'other')
  using held = await connectRaw(site.url)
  held.request(
    `POST ${site.pushPath}`,
    gitHeaders('git-receive-pack', site.adminToken, body.length),
  )
  held.socket.write(body.subarray(0, -10))
  await until('the push is running', () => processesIn(site.dataDir).length > 0)
  assert.equal((await post(site, site.pushPath, body)).status, 503)
  held.socket.write(body.subarray(-10))
  assert.equal((await held.answer()).status, 200)
})

test('a push in chunks works in every version of the protocol', async () => {
  const site = await createSite('usual')
  await using project = await createLargeProject(mib)
  for (const version of ['0', '1', '2']) {
    const settings = ['-c', 'http.postBuffer=1', '-c', `protocol.version=${version}`]
    const target = `HEAD:refs/heads/version-${version}`
    await project.git(...settings, 'push', site.remote, target)
    await project.commit(`after-${version}`)
  }
  assert.equal((await refsOf(site)).length, 3)
})

/** A repository of its own on a server that tests share. */
async function createSite(server: keyof typeof servers) {
  const service = running.get(server)
  if (!service) throw new TypeError(server)
  const name = `site-${sites++}`
  await service.admin.post('/repos', { name })
  return {
    ...service,
    remote: service.admin.remote(name),
    fetchPath: `/repos/${name}.git/git-upload-pack`,
    pushPath: `/repos/${name}.git/git-receive-pack`,
  }
}

/** A project with a file that compresses to no less than its size. */
async function createLargeProject(bytes: number) {
  const project = await createProject()
  await project.git('config', 'core.compression', '0')
  await project.commit('large.bin', randomBytes(bytes / 2).toString('hex'))
  return project
}

/** Fills the repository and begins a clone of it that is larger than what the sockets hold, without reading on. */
async function startClone({ url, remote, fetchPath }: Site, token: string) {
  await large.git('push', '--quiet', remote, 'HEAD:main')
  const body = cloneBody(await large.git('rev-parse', 'HEAD'))
  const connection = await connectRaw(url)
  connection.request(`POST ${fetchPath}`, gitHeaders('git-upload-pack', token, body.length))
  connection.socket.write(body)
  await connection.atLeast(1)
  connection.socket.pause()
  return connection
}

async function post(site: Site, path: string, body: Buffer, more: Record<string, string> = {}) {
  using connection = await connectRaw(site.url)
  const gitService = path === site.fetchPath ? 'git-upload-pack' : 'git-receive-pack'
  const headers = gitHeaders(gitService, site.adminToken, body.length)
  connection.request(`POST ${path}`, { ...headers, ...more })
  connection.socket.write(body)
  return await connection.answer()
}

async function refsOf({ remote }: Site): Promise<string[]> {
  const { stdout } = await git('/', ['ls-remote', '--heads', remote])
  return stdout.split('\n').filter((line) => line !== '')
}

async function untilNothingIsLeft({ dataDir }: Service): Promise<void> {
  await until('no git process is left', () => processesIn(dataDir).length === 0)
  using records = openPushRecords(dataDir)
  await until('no push is unsettled', () => records.unfinished().length === 0)
  await untilTidy(dataDir)
}
