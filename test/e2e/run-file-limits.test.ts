// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import { newId } from '#base/ids.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import { type InProcess, startInProcess } from '../support/in-process.ts'
import { without } from '../support/programs.ts'
import { begun, jobEnded, mustClaim, runEnded, wholeRun, wrote } from '../support/run-by-hand.ts'
import { archiveOf, getBytes, put, tarOf } from '../support/run-files.ts'
import type { Client } from '../support/service.ts'
import { oneStep, pushFiles } from '../support/workflow-site.ts'

const mib = 1024 * 1024
/** More than the sockets of a client that does not read take, compressed, too. */
const large = zstdCompressSync(tarOf('noise', randomBytes(16 * mib).toString('base64')))

let service: InProcess

before(async () => {
  service = await startInProcess({ SVC_ARCHIVES_AT_ONCE: '1', SVC_GIT_WAIT_SECONDS: '1' })
})

after(() => service[Symbol.asyncDispose]())

async function held(admin: Client, name: string) {
  await pushFiles(admin, name, oneStep('true'))
  await admin.post(`/repos/${name}/workflows`, {})
  return mustClaim(admin)
}

/** Begins a download, and does not read its body. */
async function open({ url, token }: Client, path: string): Promise<IncomingMessage> {
  const headers = { authorization: `Bearer ${token}` }
  const sent = httpRequest(url + path, { headers, agent: false })
  sent.on('error', () => {})
  sent.end()
  const [response]: IncomingMessage[] = await once(sent, 'response')
  assert.ok(response)
  return response.on('error', () => {})
}

/** Whether a server of this process reads a content; synchronous, since it stops after a time. */
function isReading({ dataDir }: InProcess): boolean {
  return readdirSync('/proc/self/fd').some((name) => {
    const target = readTarget(join('/proc/self/fd', name))
    return target.startsWith(`${dataDir}/run-files/`)
  })
}

function readTarget(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    // It was closed meanwhile.
    return ''
  }
}

test('a client that reads nothing is disconnected, and its content closed', async () => {
  await using impatient = await startInProcess({ SVC_GIT_STALL_SECONDS: '1' })
  const { admin } = impatient
  const run = await held(admin, 'slow')
  await put(run, 'artifacts?name=a', large)
  await put(run, 'caches?key=k&version=v', large)
  const path = `/repos/slow/workflows/${run.plan.runId}/artifacts/a`
  const stall = async (client: Client, address: string) => {
    const response = await open(client, address)
    assert.equal(response.statusCode, 200, address)
    await until(`${address} is closed`, () => !isReading(impatient))
    response.resume()
    await until('the response ends', () => response.closed)
    assert.equal(response.complete, false, address)
  }
  await run.report(...begun())
  await stall(run.own, `${run.path}/artifacts/content?name=a`)
  // Renews the lease of the run.
  await run.report(wrote('busy\n'))
  await stall(run.own, `${run.path}/caches?keys=k&version=v`)
  await run.report(...jobEnded(), runEnded())
  for (const format of ['tar.zst', 'tar', 'tar.gz']) await stall(admin, `${path}?format=${format}`)
  // A busy client may be cut off, too.
  await until('the artifact is read', async () => {
    const { bytes } = await getBytes(admin, `${path}?format=tar.zst`)
    return bytes.equals(large)
  })
})

test('one conversion waits for another; what is stored as it is sent, and headers, do not', async () => {
  const { admin } = service
  const run = await held(admin, 'busy')
  await put(run, 'artifacts?name=a', large)
  await run.report(...wholeRun())
  const path = `/repos/busy/workflows/${run.plan.runId}/artifacts/a`
  const slow = await open(admin, path)
  assert.equal(slow.statusCode, 200)
  const busy = await admin.get(path)
  assert.deepEqual([busy.status, busy.body.code], [503, 'git_busy'])
  assert.equal((await admin.call('HEAD', path)).status, 200)
  assert.equal((await getBytes(admin, `${path}?format=tar.zst`)).bytes.length, large.length)
  slow.destroy()
  await until('the next is converted', async () => (await getBytes(admin, path)).status === 200)
})

test('artifacts that are stored at the same time do not exceed the limit together', {
  skip: without('postgres'),
}, async () => {
  const { url, drop } = await createPostgresDatabase()
  await using stack = new AsyncDisposableStack()
  stack.defer(drop)
  const limits = { SVC_ARTIFACTS_REPOSITORY_MAX: '100KiB', SVC_DATABASE_URL: url }
  const { admin } = stack.use(await startInProcess(limits))
  const content = randomBytes(30 * 1024)
  for (let round = 0; round < 5; round++) {
    const run = await held(admin, `full-${round}`)
    const names = Array.from({ length: 8 }, (_, index) => `artifacts?name=${index}`)
    const answers = await Promise.all(names.map((name) => put(run, name, content)))
    const codes = answers.map(({ status, body }) => (status === 201 ? 'stored' : body.code)).sort()
    const refused = Array<string>(5).fill('artifact_quota_exceeded')
    assert.deepEqual(codes, [...refused, 'stored', 'stored', 'stored'])
    await run.report(...wholeRun())
  }
})

test('of too many caches of a repository, those that were not used for longest go', async () => {
  const { admin, db } = service
  const run = await held(admin, 'many')
  const { id: repositoryId } = (await admin.get('/repos/many')).body
  const now = Date.now()
  for (let from = 0; from < 2010; from += 201) {
    const rows = Array.from({ length: 201 }, (_, index) => ({ id: newId(), number: from + index }))
    const files = rows.map(({ id }) => ({ id, repositoryId, size: 1, sha256: '' }))
    await db
      .insertInto('runFiles')
      .values(files.map((file) => ({ ...file, node: 'n', state: 'kept', changedAt: now }) as const))
      .execute()
    const caches = rows.map(({ id, number }) => ({ id, key: `k-${number}`, usedAt: now - number }))
    const same = { repositoryId, ref: 'refs/heads/main', isProtected: 0, version: 'v' }
    await db
      .insertInto('runCaches')
      .values(caches.map((cache) => ({ ...same, ...cache, createdAt: now })))
      .execute()
  }
  assert.equal((await put(run, 'caches?key=new&version=v', archiveOf('a', 'a'))).status, 201)
  await run.report(...wholeRun())
  const keys = (await db.selectFrom('runCaches').select('key').execute()).map(({ key }) => key)
  assert.equal(keys.length, 2000)
  assert.ok(keys.includes('new') && keys.includes('k-1998') && !keys.includes('k-1999'))
  assert.deepEqual((await admin.delete('/repos/many/caches')).body, { deleted: 2000 })
})
