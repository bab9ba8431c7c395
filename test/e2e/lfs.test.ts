// Tags: each-store

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { freePort } from '../support/free-port.ts'
import { createProject, git, type Project, temporaryFolder } from '../support/git.ts'
import { isShared } from '../support/kind-of-store.ts'
import { bucketPort } from '../support/object-store.ts'
import { without } from '../support/programs.ts'
import { type Client, type Service, startServiceWithSsh, toAnswer } from '../support/service.ts'
import { withMovableClock } from '../support/shifted-clock.ts'
import { createSshUser, type SshUser } from '../support/ssh-user.ts'
import { startTcpProxy, type Treatment } from '../support/tcp-proxy.ts'

const skip = without('git-lfs')

const resources = new AsyncDisposableStack()
let service: Service
let client: Client
let user: SshUser
let project: Project
let home: string
let proxyPort: number
let clock: Awaited<ReturnType<typeof withMovableClock>>

const mib = 1024 * 1024
// The proxy passes transfers to the server or to its bucket, and cuts them in the middle as long as it is faulty.
const network = { isFaulty: false, ranges: [] as string[] }

before(async () => {
  home = resources.use(await temporaryFolder()).path
  clock = await withMovableClock(join(home, 'clock'))
  const httpPort = await freePort()
  const proxy = await startTcpProxy(isShared ? await bucketPort() : httpPort, countBytes)
  resources.use(proxy)
  proxyPort = proxy.port
  service = resources.use(
    await startServiceWithSsh({
      env: {
        ...clock.env,
        SVC_PORT: String(httpPort),
        SVC_LFS_OBJECT_MAX: '4MiB',
        SVC_TEST_STORE_ENDPOINT: `http://127.0.0.1:${proxyPort}`,
      },
    }),
  )
  client = await service.client({ username: 'ada', permissions: ['repo:read', 'repo:write'] })
  user = resources.use(await createSshUser(service, client))
  project = resources.use(await createProject())
  for (const name of ['site', 'other']) await client.post('/repos', { name })
  if (!skip) await lfs(home, 'lfs', 'install', '--skip-repo')
})

after(() => resources.disposeAsync())

function countBytes(): Treatment {
  let [sent, received] = [0, 0]
  return {
    fromClient(chunk) {
      const [, range] = /\r\nrange: bytes=(\S+)/i.exec(chunk.toString('latin1')) ?? []
      if (range !== undefined) network.ranges.push(range)
      sent += chunk.length
      return network.isFaulty && sent > mib ? undefined : chunk
    },
    fromServer(chunk) {
      received += chunk.length
      return network.isFaulty && received > mib ? undefined : chunk
    },
  }
}

/** Runs the real git with the filters of git-lfs, and ssh with the key of the user. */
const lfs = (cwd: string, ...args: string[]) =>
  git(cwd, args, {
    HOME: home,
    GIT_CONFIG_GLOBAL: join(home, '.gitconfig'),
    GIT_SSH_COMMAND: user.command,
  })

const idOf = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex')
const objects = (name = 'site') => `/repos/${name}.git/info/lfs/objects`

const batch = (operation: string, pointers: object[], name = 'site', own = client) =>
  own.post(`${objects(name)}/batch`, { operation, transfers: ['basic'], objects: pointers })

function upload(bytes: Buffer | string, oid = idOf(bytes), headers: Record<string, string> = {}) {
  const authorization = `Bearer ${client.token}`
  return fetch(`${service.url}${objects()}/${oid}`, {
    method: 'PUT',
    headers: { authorization, 'content-type': 'application/octet-stream', ...headers },
    body: bytes,
  }).then(toAnswer)
}

const download = (oid: string, headers: Record<string, string> = {}, name = 'site') =>
  fetch(`${service.url}${objects(name)}/${oid}`, {
    headers: { authorization: `Bearer ${client.token}`, ...headers },
  })

test('git-lfs pushes and clones', { skip }, async () => {
  await using folder = await temporaryFolder()
  const large = randomBytes(3_000_000)
  await lfs(project.path, 'lfs', 'track', '*.bin')
  await writeFile(join(project.path, 'large.bin'), large)
  await writeFile(join(project.path, 'small.bin'), 'small')
  await lfs(project.path, 'add', '.')
  await lfs(project.path, 'commit', '--quiet', '-m', 'Large files')
  await lfs(project.path, 'push', '--quiet', client.remote('site'), 'HEAD:main')
  const { body } = await batch('download', [{ oid: idOf(large), size: large.length }])
  assert.equal(body.objects[0].error, undefined)

  // By the address of its page, from which Git and git-lfs are redirected.
  const page = client.remote('site').replace('/repos/site.git', '/r/site')
  await lfs(folder.path, 'clone', '--quiet', page, 'copy')
  assert.deepEqual(await readFile(join(folder.path, 'copy/large.bin')), large)
  assert.equal(await readFile(join(folder.path, 'copy/small.bin'), 'utf8'), 'small')

  await service.admin.post('/namespaces', { name: 'acme' })
  await service.admin.put('/namespaces/acme/members/ada', { role: 'maintain' })
  await client.post('/repos', { name: 'acme/site' })
  await lfs(project.path, 'push', '--quiet', client.remote('acme/site'), 'HEAD:main')
  await lfs(folder.path, 'clone', '--quiet', user.remote('acme/site'), 'in-namespace')
  assert.deepEqual(await readFile(join(folder.path, 'in-namespace/large.bin')), large)
})

test('a batch says for each object what to do with it', async () => {
  const bytes = Buffer.from('in a batch')
  const pointer = { oid: idOf(bytes), size: bytes.length }
  const before = await batch('download', [pointer])
  assert.equal(before.headers.get('content-type'), 'application/vnd.git-lfs+json')
  assert.deepEqual([before.status, before.body.objects[0].error.code], [200, 404])
  const { body } = await batch('upload', [pointer])
  assert.deepEqual([body.transfer, body.hash_algo], ['basic', 'sha256'])
  const { actions, authenticated } = body.objects[0]
  assert.equal(authenticated, true)
  const send = (
    { href, header }: { href: string; header: Record<string, string> },
    method: string,
    content: Buffer | string,
  ) => fetch(href, { method, headers: header, body: content }).then(toAnswer)
  const verify = (size: number) =>
    send(actions.verify, 'POST', JSON.stringify({ ...pointer, size }))
  assert.equal((await verify(pointer.size)).status, 404)
  // Where it leads to a bucket, this has the SHA-256 in its signature.
  assert.equal(new URL(actions.upload.href).host === new URL(service.url).host, !isShared)
  assert.ok((await send(actions.upload, 'PUT', 'other byte')).status >= 400)
  assert.equal((await verify(pointer.size)).status, 404)
  assert.equal((await send(actions.upload, 'PUT', bytes)).status, 200)
  assert.equal((await verify(pointer.size)).status, 200)
  assert.equal((await verify(pointer.size + 1)).status, 422)
  assert.deepEqual((await batch('upload', [pointer])).body.objects, [
    { ...pointer, authenticated: true },
  ])
  const there = await batch('download', [pointer, pointer])
  assert.equal(there.body.objects.length, 1)
  const { href, header } = there.body.objects[0].actions.download
  assert.equal(await (await fetch(href, { headers: header })).text(), 'in a batch')
  const lying = await batch('download', [pointer, { ...pointer, size: 1 }])
  assert.equal(lying.body.objects[1].error.code, 422)
  // Of another repository, it is as if it did not exist.
  assert.equal((await batch('download', [pointer], 'other')).body.objects[0].error.code, 404)
  assert.ok((await batch('upload', [pointer], 'other')).body.objects[0].actions.upload)
  assert.equal((await download(pointer.oid, {}, 'other')).status, 404)
})

test('pointers that are none get an error each, and requests that are none one for all', async () => {
  const oid = 'a'.repeat(64)
  const faulty = [
    { oid: 'A'.repeat(64), size: 1 },
    { oid: `../${'a'.repeat(61)}`, size: 1 },
    { oid: 'short', size: 1 },
    { oid, size: -1 },
    { oid, size: 1.5 },
    { oid, size: '1' },
    { size: 1 },
  ]
  for (const pointer of faulty) {
    const { body } = await batch('upload', [pointer])
    assert.equal(body.objects[0].error.code, 422, JSON.stringify(pointer))
  }
  const tooLarge = await batch('upload', [{ oid, size: 4 * 1024 * 1024 + 1 }])
  assert.equal(tooLarge.body.objects[0].error.code, 422)
  for (const [body, status] of [
    [[], 422],
    [{ operation: 'delete', objects: [] }, 422],
    [{ operation: 'upload', objects: {} }, 422],
    [{ operation: 'upload', objects: [], hash_algo: 'sha512' }, 409],
    [{ operation: 'upload', objects: new Array(1001).fill({ oid, size: 1 }) }, 413],
  ] as const) {
    const answer = await client.post(`${objects()}/batch`, body)
    assert.equal(answer.status, status, JSON.stringify(body).slice(0, 80))
    assert.match(answer.body.message, /\w/)
  }
})

test('rights are those of the token and of the operation', async () => {
  const pointers = [{ oid: 'b'.repeat(64), size: 1 }]
  const reader = await service.client({ username: 'ada', permissions: ['repo:read'] })
  const writer = await service.client({ username: 'ada', permissions: ['repo:write'] })
  const stranger = await service.client({ username: 'grace' })
  const statusOf = async (operation: string, own: Client) =>
    (await batch(operation, pointers, 'site', own)).status
  assert.deepEqual(
    [await statusOf('download', reader), await statusOf('upload', reader)],
    [200, 403],
  )
  assert.deepEqual(
    [await statusOf('download', writer), await statusOf('upload', writer)],
    [403, 200],
  )
  assert.deepEqual(
    [await statusOf('download', stranger), await statusOf('upload', stranger)],
    [404, 404],
  )
  assert.equal((await reader.put(`${objects()}/${'b'.repeat(64)}`, {})).status, 403)
  await client.patch('/repos/other', { name: 'renamed' })
  assert.equal((await batch('upload', pointers, 'other')).status, 200)
  await client.patch('/repos/renamed', { name: 'other' })
})

test('an upload is stored only if its bytes have the id', async () => {
  const bytes = randomBytes(100_000)
  const wrong = await upload(bytes, idOf('other'))
  assert.deepEqual([wrong.status, wrong.body.code], [422, 'lfs_object_invalid'])
  assert.equal((await download(idOf('other'))).status, 404)
  assert.equal((await upload(bytes, 'x')).status, 404)
  assert.equal((await upload(bytes, idOf(bytes), { 'content-encoding': 'gzip' })).status, 415)
  assert.equal((await upload(randomBytes(4 * 1024 * 1024 + 1))).status, 413)
  // Without a Content-Length, and several at once.
  const chunked = (content: Buffer) =>
    fetch(`${service.url}${objects()}/${idOf(content)}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${client.token}` },
      body: ReadableStream.from([content]),
      duplex: 'half',
    } as RequestInit).then(toAnswer)
  const answers = await Promise.all([upload(bytes), chunked(bytes), upload(bytes)])
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200],
  )
  assert.equal((await chunked(randomBytes(4 * 1024 * 1024 + 1))).status, 413)
  assert.deepEqual(Buffer.from(await (await download(idOf(bytes))).arrayBuffer()), bytes)
  const staged = await readdir(join(service.dataDir, 'staging'))
  assert.deepEqual(
    staged.filter((name) => name.endsWith('.lfs')),
    [],
  )
})

test('a download can be resumed', async () => {
  const bytes = randomBytes(300_000)
  await upload(bytes)
  const entityTag = `"${idOf(bytes)}"`
  const parts = [
    ['bytes=0-', 0, 300_000],
    ['bytes=299990-', 299_990, 300_000],
    ['bytes=10-19', 10, 20],
    ['bytes=-5', 299_995, 300_000],
    ['bytes=10-999999999', 10, 300_000],
  ] as const
  for (const [range, start, end] of parts) {
    const part = await download(idOf(bytes), { range, 'if-range': entityTag })
    assert.deepEqual([part.status, part.headers.get('etag')], [206, entityTag])
    assert.equal(part.headers.get('content-range'), `bytes ${start}-${end - 1}/300000`)
    assert.deepEqual(Buffer.from(await part.arrayBuffer()), bytes.subarray(start, end))
  }
  for (const headers of [
    { range: 'bytes=5-4' },
    { range: 'bytes=-' },
    { range: 'items=1-2' },
    { range: 'bytes=1-2', 'if-range': '"other"' },
  ]) {
    const whole = await download(idOf(bytes), headers as Record<string, string>)
    assert.deepEqual([whole.status, (await whole.arrayBuffer()).byteLength], [200, 300_000])
  }
  const beyond = await download(idOf(bytes), { range: 'bytes=300000-' })
  assert.deepEqual([beyond.status, beyond.headers.get('content-range')], [416, 'bytes */300000'])
})

for (const via of ['HTTP', 'SSH'] as const)
  test(`git-lfs moves a history to the server, prunes it and gets it back over ${via}`, {
    skip,
  }, async () => {
    await using folder = await temporaryFolder()
    await using history = await createProject()
    const name = `moved-over-${via}`
    await client.post('/repos', { name })
    const remote = via === 'HTTP' ? client.remote(name) : user.remote(name)
    const [first, second] = [randomBytes(100_000), randomBytes(100_000)]
    const pathOf = (bytes: Buffer) =>
      join(`.git/lfs/objects/${idOf(bytes).slice(0, 2)}/${idOf(bytes).slice(2, 4)}/${idOf(bytes)}`)
    const hasObject = (path: string, bytes: Buffer) => existsSync(join(path, pathOf(bytes)))
    for (const bytes of [first, second]) await history.commit('large.bin', bytes)
    await history.git('remote', 'add', 'origin', remote)
    await lfs(history.path, 'lfs', 'migrate', 'import', '--include=*.bin', '--everything', '--yes')
    await lfs(history.path, 'push', '--quiet', 'origin', 'HEAD:main')
    await lfs(history.path, 'lfs', 'prune', '--verify-remote')
    assert.deepEqual(
      [first, second].map((bytes) => hasObject(history.path, bytes)),
      [false, true],
    )
    await lfs(history.path, 'lfs', 'fetch', '--all')
    assert.ok(hasObject(history.path, first))
    assert.match((await lfs(history.path, 'lfs', 'fsck')).stdout, /Git LFS fsck OK/)

    const copy = join(folder.path, 'copy')
    await git(folder.path, ['clone', '--quiet', remote, copy], { GIT_SSH_COMMAND: user.command })
    assert.match(await readFile(join(copy, 'large.bin'), 'utf8'), /^version https:\/\/git-lfs/)
    await lfs(copy, 'lfs', 'pull')
    assert.deepEqual(await readFile(join(copy, 'large.bin')), second)
  })

test('git-lfs resumes a download, and repeats an upload, that the network has interrupted', {
  skip,
}, async () => {
  await using folder = await temporaryFolder()
  const remote = isShared
    ? client.remote('other')
    : client.remote('other').replace(/:\d+\//, `:${proxyPort}/`)
  const large = randomBytes(3_000_000)
  const copy = join(folder.path, 'copy')
  const interrupted = async (path: string, ...args: string[]) => {
    network.isFaulty = true
    await assert.rejects(lfs(path, '-c', 'lfs.transfer.maxRetries=1', ...args))
    network.isFaulty = false
    return lfs(path, ...args)
  }
  await writeFile(join(project.path, 'large.bin'), large)
  await lfs(project.path, 'commit', '--quiet', '--all', '-m', 'Another')
  await interrupted(project.path, 'push', '--quiet', remote, 'HEAD:main')
  await git(folder.path, ['clone', '--quiet', remote, copy])
  await interrupted(copy, 'lfs', 'pull')
  assert.deepEqual(await readFile(join(copy, 'large.bin')), large)
  assert.ok(network.ranges.some((range) => /^[1-9]\d*-2999999$/.test(range)))
})

test('a token of SSH expires, and then only verifies what it has uploaded', {
  skip: without('faketime') || skip,
}, async () => {
  const login = async () => {
    const { stdout } = await user.ssh('git-lfs-authenticate site.git upload')
    return JSON.parse(stdout).header
  }
  const send = async (href: string, method: string, headers: Record<string, string>, body = '') =>
    toAnswer(await fetch(href, { method, headers, body }))
  const bytes = 'uploaded for hours'
  const pointer = { oid: idOf(bytes), size: bytes.length }
  const header = await login()
  const request = JSON.stringify({ operation: 'upload', objects: [pointer] })
  const start = (token = header) => send(`${service.url}${objects()}/batch`, 'POST', token, request)
  const { upload: link, verify } = (await start()).body.objects[0].actions
  assert.ok(link.expires_in > 0 && link.expires_in <= 600)
  // To the bucket, an upload may take longer than its token is valid.
  assert.equal(verify.expires_in === undefined, isShared)
  assert.equal((await send(link.href, 'PUT', link.header, bytes)).status, 200)
  const check = () => send(verify.href, 'POST', verify.header, JSON.stringify(pointer))
  await clock.putAhead(11)
  await until('the token has expired', async () => (await start()).status === 401)
  assert.equal((await send(`${service.url}${objects()}/${pointer.oid}`, 'PUT', header)).status, 401)
  assert.equal((await check()).status, 200)
  assert.equal((await start(await login())).body.objects[0].actions, undefined)
  await clock.putAhead(25 * 60)
  await until('it verifies nothing any more', async () => (await check()).status === 401)
  await clock.putAhead(0)
  await until('it is now again', async () => (await start()).status === 200)
})

test('a token of SSH is for one operation in one repository, and ends with its key', async () => {
  const { stdout, exitCode } = await user.ssh("git-lfs-authenticate '/site.git' download 123")
  assert.equal(exitCode, 0)
  const { href, header, expires_in: seconds } = JSON.parse(stdout)
  assert.deepEqual([href, seconds], [`${service.url}/repos/site.git/info/lfs`, 600])
  const send = async (path: string, body?: object) =>
    toAnswer(
      await fetch(service.url + path, {
        method: body ? 'POST' : 'GET',
        headers: header,
        ...(body && { body: JSON.stringify(body) }),
      }),
    )
  const transfer = (operation: string, name = 'site') =>
    send(`${objects(name)}/batch`, { operation, objects: [] })
  assert.equal((await transfer('download')).status, 200)
  assert.equal((await transfer('upload')).status, 403)
  assert.equal((await transfer('download', 'other')).status, 404)
  assert.equal((await send('/repos/site.git/info/refs?service=git-upload-pack')).status, 403)
  assert.equal((await send('/repos/site')).status, 401)
  for (const [line, code] of [
    ['git-lfs-authenticate gone.git upload', 128],
    ['git-lfs-authenticate site.git delete', 128],
    ['git-lfs-authenticate site.git', 2],
    ['git-lfs-transfer site.git upload', 127],
  ] as const) {
    const refused = await user.ssh(line)
    assert.deepEqual([refused.exitCode, refused.stdout], [code, ''], line)
  }
  await client.delete(`/keys/${user.keyId}`)
  assert.equal((await transfer('download')).status, 401)
})
