// Tags: each-store
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { gunzipSync, zstdCompressSync } from 'node:zlib'
import { until } from '../support/condition.ts'
import { connectRaw, parseAnswer } from '../support/raw-http.ts'
import { begun, jobEnded, mustClaim, runEnded, wholeRun } from '../support/run-by-hand.ts'
import {
  archiveOf,
  contentType,
  getBytes,
  hungryArchive,
  put,
  tarOf,
} from '../support/run-files.ts'
import { type Service, startService } from '../support/service.ts'
import { tarOf as tarOfEntries } from '../support/tar.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const mib = 1024 * 1024

let service: Service

before(async () => {
  const env = { SVC_ARTIFACT_MAX: '4MiB', SVC_ARTIFACTS_REPOSITORY_MAX: '10MiB' }
  service = await startService({ env })
  await pushFiles(service.admin, 'site', oneStep('true'))
})

after(() => service[Symbol.asyncDispose]())

async function held(name = 'site') {
  await pushFiles(service.admin, name, oneStep('true'))
  await service.admin.post(`/repos/${name}/workflows`, {})
  return mustClaim(service.admin)
}

const sha256Of = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const listOf = async (id: string, name = 'site') =>
  (await service.admin.get(`/repos/${name}/workflows/${id}/artifacts`)).body

test('a run stores an artifact, which its jobs and people read', async () => {
  const run = await held()
  const content = archiveOf('hello.txt', 'hello\n')
  const saved = await put(run, 'artifacts?name=Some%20files', content)
  const facts = { name: 'Some files', size: content.length, sha256: sha256Of(content) }
  const { id, url, ...stored } = saved.body
  assert.deepEqual([saved.status, stored], [201, facts])
  const [listed] = (await run.own.get(`${run.path}/artifacts`)).body
  assert.deepEqual({ ...listed, createdAt: 0 }, { ...facts, createdAt: 0 })
  const own = await getBytes(run.own, `${run.path}/artifacts/content?name=Some%20files`)
  assert.deepEqual([own.status, own.bytes], [200, content])
  await run.report(...wholeRun())

  const path = `/repos/site/workflows/${run.plan.number}/artifacts`
  const [artifact] = (await service.admin.get(path)).body
  assert.deepEqual(
    [artifact.name, artifact.size, artifact.attempt],
    ['Some files', content.length, 1],
  )
  assert.equal(artifact.id, id)
  assert.match(url, new RegExp(`/r/site/runs/${run.plan.number}/artifacts/${id}$`))
  const days = (artifact.expiresAt - artifact.createdAt) / 86_400_000
  assert.equal(days, 30)
  for (const which of [artifact.id, 'Some%20files']) {
    const { bytes, headers } = await getBytes(service.admin, `${path}/${which}`)
    assert.equal(headers.get('content-type'), 'application/gzip')
    assert.match(
      headers.get('content-disposition') ?? '',
      /filename\*=UTF-8''Some%20files\.tar\.gz$/,
    )
    assert.deepEqual(gunzipSync(bytes), tarOf('hello.txt', 'hello\n'))
  }
  const tar = await getBytes(service.admin, `${path}/${artifact.id}?format=tar`)
  assert.deepEqual(tar.bytes, tarOf('hello.txt', 'hello\n'))
  const zip = await getBytes(service.admin, `${path}/${artifact.id}?format=zip`)
  assert.equal(zip.headers.get('content-type'), 'application/zip')
  assert.match(zip.headers.get('content-disposition') ?? '', /filename\*=UTF-8''Some%20files\.zip$/)
  assert.deepEqual(await unzipped(zip.bytes), [['hello.txt', 'hello\n']])
  const raw = await getBytes(service.admin, `${path}/${artifact.id}?format=tar.zst`)
  assert.deepEqual(raw.bytes, content)
  assert.equal((await service.admin.delete(`${path}/${artifact.id}`)).status, 204)
  assert.deepEqual((await service.admin.get(path)).body, [])
  const gone = await service.admin.get(`${path}/${artifact.id}`)
  assert.deepEqual([gone.status, gone.body.code], [404, 'artifact_not_found'])
})

test('a name is taken once in an attempt, unless the artifact is overwritten', async () => {
  const run = await held()
  const [first, second] = [archiveOf('a', 'first'), archiveOf('a', 'second')]
  assert.equal((await put(run, 'artifacts?name=a', first)).status, 201)
  const again = await put(run, 'artifacts?name=a', second)
  assert.deepEqual([again.status, again.body.code], [409, 'artifact_exists'])
  const path = `${run.path}/artifacts/content?name=a`
  assert.deepEqual((await getBytes(run.own, path)).bytes, first)
  assert.equal((await put(run, 'artifacts?name=a&overwrite=true', second)).status, 201)
  assert.deepEqual((await getBytes(run.own, path)).bytes, second)
  const both = await Promise.all([
    put(run, 'artifacts?name=b', first),
    put(run, 'artifacts?name=b', second),
  ])
  assert.deepEqual(both.map(({ status }) => status).sort(), [201, 409])
  for (const name of ['', '.', '..', 'a/b', 'a\\b', 'a\nb', 'a:b', 'a"b', 'x'.repeat(257)]) {
    const answer = await put(run, `artifacts?name=${encodeURIComponent(name)}`, first)
    assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_request'], name)
  }
  await run.report(...wholeRun())
})

test('an attempt that reuses jobs has their artifacts, and another one does not', async () => {
  const run = await held()
  const content = archiveOf('a', 'of the first attempt')
  await put(run, 'artifacts?name=a', content)
  await run.report(
    ...begun({ job: 0, id: 'good' }),
    ...jobEnded('success', { job: 0 }),
    ...begun({ job: 1, id: 'bad' }),
    ...jobEnded('failure', { job: 1 }),
    runEnded('failure'),
  )
  const path = `/repos/site/workflows/${run.plan.runId}`
  await service.admin.post(`${path}/rerun`, { jobs: 'failed' })
  const second = await mustClaim(service.admin)
  assert.equal(second.plan.kept.length, 1)
  assert.deepEqual(
    (await getBytes(second.own, `${second.path}/artifacts/content?name=a`)).bytes,
    content,
  )
  const newer = archiveOf('a', 'of the second attempt')
  assert.equal((await put(second, 'artifacts?name=a', newer)).status, 201)
  assert.deepEqual(
    (await getBytes(second.own, `${second.path}/artifacts/content?name=a`)).bytes,
    newer,
  )
  // The token of the former attempt is of no use any more.
  assert.equal((await put(run, 'artifacts?name=c', content)).status, 401)
  await second.report(...wholeRun())
  await service.admin.post(`${path}/rerun`, { jobs: 'all' })
  const third = await mustClaim(service.admin)
  assert.deepEqual((await third.own.get(`${third.path}/artifacts`)).body, [])
  const missing = await third.own.get(`${third.path}/artifacts/content?name=a`)
  assert.equal(missing.body.code, 'artifact_not_found')
  await third.report(...wholeRun())
  const all = await listOf(run.plan.runId)
  assert.deepEqual(
    all.map(({ attempt, name }: { attempt: number; name: string }) => [attempt, name]),
    [
      [1, 'a'],
      [2, 'a'],
    ],
  )
  const newest = await getBytes(service.admin, `${path}/artifacts/a?format=tar.zst`)
  assert.deepEqual(newest.bytes, newer)
})

test('a runner stores nothing for another run, or for one that has ended', async () => {
  const [first, second] = [await held(), await held()]
  const content = archiveOf('a', 'a')
  const foreign = await put({ own: first.own, path: second.path }, 'artifacts?name=a', content)
  assert.deepEqual([foreign.status, foreign.body.code], [404, 'run_not_found'])
  const read = await first.own.get(`${second.path}/artifacts`)
  assert.deepEqual([read.status, read.body.code], [404, 'run_not_found'])
  const asAdmin = await put({ own: service.admin, path: first.path }, 'artifacts?name=a', content)
  assert.equal(asAdmin.status, 403)
  // Cancelled while the content is on its way.
  using connection = await connectRaw(service.url)
  const authorization = `Bearer ${first.own.token}`
  connection.request(`PUT ${first.path}/artifacts?name=late`, {
    authorization,
    'content-type': contentType,
    'transfer-encoding': 'chunked',
    connection: 'close',
  })
  connection.chunk(randomBytes(1000))
  await first.report(...wholeRun())
  connection.chunk(randomBytes(1000))
  connection.chunk('')
  const answer = parseAnswer(await connection.end().then(() => connection.received()))
  assert.ok(answer === undefined || answer.status >= 401)
  assert.deepEqual(await listOf(first.plan.runId), [])
  await second.report(...wholeRun())
})

test('beyond the limits an artifact is refused, before it is sent where its size is declared', async () => {
  const run = await held('limits')
  using connection = await connectRaw(service.url)
  connection.request(`PUT ${run.path}/artifacts?name=a`, {
    authorization: `Bearer ${run.own.token}`,
    'content-type': contentType,
    'content-length': 4 * mib + 1,
    expect: '100-continue',
  })
  assert.match(await connection.end(), /^HTTP\/1\.1 413 /)
  const chunked = await put(run, 'artifacts?name=a', streamOf(5 * mib)).catch(() => undefined)
  assert.ok(chunked === undefined || chunked.body.code === 'body_too_large')
  for (const name of ['a', 'b'])
    assert.equal((await put(run, `artifacts?name=${name}`, randomBytes(4 * mib))).status, 201)
  const third = await put(run, 'artifacts?name=c', randomBytes(3 * mib))
  assert.deepEqual([third.status, third.body.code], [413, 'artifact_quota_exceeded'])
  const unknown = await put(run, 'artifacts?name=c', streamOf(3 * mib))
  assert.deepEqual([unknown.status, unknown.body.code], [413, 'artifact_quota_exceeded'])
  assert.equal(
    (await put(run, 'artifacts?name=a&overwrite=true', randomBytes(4 * mib))).status,
    201,
  )
  assert.deepEqual(
    (await run.own.get(`${run.path}/artifacts`)).body
      .map(({ name }: { name: string }) => name)
      .sort(),
    ['a', 'b'],
  )
  const wrongType = await run.own.call('PUT', `${run.path}/artifacts?name=d`, {})
  assert.deepEqual([wrongType.status, wrongType.body.code], [415, 'unsupported_media_type'])
  await run.report(...wholeRun())
})

function streamOf(bytes: number): ReadableStream<Uint8Array> {
  let left = bytes
  return new ReadableStream({
    pull(controller) {
      const piece = Math.min(left, mib / 4)
      left -= piece
      if (piece === 0) controller.close()
      else controller.enqueue(new Uint8Array(randomBytes(piece)))
    },
  })
}

test('a client that has gone, or declares too much, stores nothing', async () => {
  const run = await held()
  const headers = { authorization: `Bearer ${run.own.token}`, 'content-type': contentType }
  for (const framing of [{ 'content-length': 5000 }, { 'transfer-encoding': 'chunked' }]) {
    using connection = await connectRaw(service.url)
    connection.request(`PUT ${run.path}/artifacts?name=half`, { ...headers, ...framing })
    if ('content-length' in framing) connection.socket.write(randomBytes(4999))
    else connection.chunk(randomBytes(5000))
    await new Promise((resolve) => setTimeout(resolve, 100))
    connection.socket.destroy()
  }
  const whole = archiveOf('a', 'whole')
  await until(
    'the name is free',
    async () => (await put(run, 'artifacts?name=half', whole)).status === 201,
  )
  const [artifact] = await listOf(run.plan.runId)
  assert.equal(artifact.sha256, sha256Of(whole))
  await run.report(...wholeRun())
})

test('a content that is no archive, or would need much memory, breaks its download only', async () => {
  const run = await held('hostile')
  const [noise, hungry] = [randomBytes(1000), await hungryArchive()]
  await put(run, 'artifacts?name=noise', noise)
  await put(run, 'artifacts?name=hungry', hungry)
  await run.report(...wholeRun())
  const path = `/repos/hostile/workflows/${run.plan.runId}/artifacts`
  for (const [name, content] of [
    ['noise', noise],
    ['hungry', hungry],
  ] as const) {
    const answer = await getBytes(service.admin, `${path}/${name}`).catch(() => undefined)
    assert.ok(answer === undefined || answer.status === 422, name)
    const raw = await getBytes(service.admin, `${path}/${name}?format=tar.zst`)
    assert.deepEqual(raw.bytes, content)
  }
  assert.equal((await service.admin.get('/health')).status, 200)
})

test('an archive whose files could be written elsewhere is no zip archive', async () => {
  const run = await held('escaping')
  const link = Buffer.concat([...tarOfEntries([{ name: 'a', type: '2', link: '/etc/passwd' }])])
  await put(run, 'artifacts?name=link', zstdCompressSync(link))
  await put(run, 'artifacts?name=above', archiveOf('../../above', 'a'))
  await run.report(...wholeRun())
  const path = `/repos/escaping/workflows/${run.plan.runId}/artifacts`
  for (const [name, reason] of [
    ['link', /get it as tar\.zst\. a is a link/],
    ['above', /leads out of its folder/],
  ] as const) {
    const answer = await service.admin.get(`${path}/${name}?format=zip`)
    assert.deepEqual([answer.status, answer.body.code], [422, 'artifact_unreadable'])
    assert.match(answer.body.detail, reason)
    assert.equal((await getBytes(service.admin, `${path}/${name}?format=tar`)).status, 200)
  }
})

/** The names and texts of the files in a zip archive that is smaller than 64 KiB. */
async function unzipped(archive: Buffer): Promise<[string, string][]> {
  const script =
    'import io,json,sys,zipfile; z=zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read())); print(json.dumps([[n, z.read(n).decode()] for n in z.namelist()]))'
  const child = spawn('python3', ['-c', script], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(archive)
  return JSON.parse(await text(child.stdout))
}

test('the size of all artifacts and caches of a repository is known, with the limits', async () => {
  const run = await held('measured')
  const content = archiveOf('a', 'a')
  for (const path of ['artifacts?name=a', 'artifacts?name=b', 'caches?key=k&version=v'])
    await put(run, path, content)
  await run.report(...wholeRun())
  assert.deepEqual((await service.admin.get('/repos/measured/run-files')).body, {
    artifacts: { count: 2, sizeBytes: 2 * content.length, maxBytes: 10 * mib },
    caches: { count: 1, sizeBytes: content.length, maxBytes: 5 * 1024 * mib, maxCount: 2000 },
  })
})

test('a request for the headers alone leaves no file open', async () => {
  const run = await held()
  await put(run, 'artifacts?name=a', archiveOf('a', 'a'))
  await run.report(...wholeRun())
  const path = `/repos/site/workflows/${run.plan.runId}/artifacts/a`
  for (const format of ['tar', 'tar.gz', 'zip', 'tar.zst'])
    assert.equal((await service.admin.call('HEAD', `${path}?format=${format}`)).status, 200)
  await until('all files of contents are closed', async () => {
    const folder = `/proc/${service.pid}/fd`
    const names = await readdir(folder)
    const targets = names.map((name) => readlink(join(folder, name)).catch(() => ''))
    return !(await Promise.all(targets)).some((target) => target.includes('/run-files/'))
  })
})

test('artifacts need the rights of logs, and deleting them those of runs', async () => {
  const run = await held()
  await put(run, 'artifacts?name=a', archiveOf('a', 'a'))
  await run.report(...wholeRun())
  const path = `/repos/site/workflows/${run.plan.runId}/artifacts`
  const reader = await service.client({ username: 'reader', permissions: ['workflow:read'] })
  const stranger = await service.client({ username: 'stranger', permissions: ['workflow:read'] })
  await service.admin.post('/repos/site/collaborators', { username: 'reader', role: 'read' })
  assert.equal((await reader.get(path)).body.length, 1)
  assert.equal((await getBytes(reader, `${path}/a`)).status, 200)
  assert.equal((await reader.delete(`${path}/a`)).status, 403)
  for (const address of [path, `${path}/a`])
    assert.equal((await stranger.get(address)).body.code, 'repository_not_found')
  const other = await held('other')
  const elsewhere = `/repos/other/workflows/${other.plan.runId}/artifacts`
  const [{ id }] = await listOf(run.plan.runId)
  for (const which of ['a', id])
    assert.equal((await service.admin.get(`${elsewhere}/${which}`)).body.code, 'artifact_not_found')
  await other.report(...wholeRun())
})

test('artifacts stay with a repository that is renamed, deleted and restored', async () => {
  const run = await held('before')
  const content = archiveOf('a', 'carried along')
  await put(run, 'artifacts?name=a', content)
  await run.report(...wholeRun())
  const { admin } = service
  const { id } = (await admin.get('/repos/before')).body
  await admin.patch('/repos/before', { name: 'after' })
  const path = `/repos/after/workflows/${run.plan.runId}/artifacts/a?format=tar.zst`
  assert.deepEqual((await getBytes(admin, path)).bytes, content)
  await admin.delete('/repos/after')
  assert.equal((await admin.get(path)).status, 404)
  assert.equal((await admin.post(`/deleted-repos/${id}/restore`, {})).status, 200)
  assert.deepEqual((await getBytes(admin, path)).bytes, content)
})
