// Tags: each-store

import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { dayMs } from '#base/clock.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import {
  cloneOf,
  type Fetched,
  type FetchService,
  type FetchSite,
  fetchBody,
  readWhole,
  startFetchService,
  startFetchSite,
} from '../support/fetch-site.ts'
import { git, temporaryFolder } from '../support/git.ts'
import { importHistory, updateRefs } from '../support/history.ts'
import { onlyLocal } from '../support/kind-of-store.ts'
import { idDigits, objectFormat } from '../support/object-format.ts'
import { processesIn, signal } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { smallDisk, withoutMounts } from '../support/small-disk.ts'
import { createLargeProject } from '../support/ssh-site.ts'
import { createSshUser } from '../support/ssh-user.ts'
import { withSsh } from '../support/test-settings.ts'

const mib = 1024 * 1024
// More than is kept in memory, and than the sockets of a client that does not read hold.
const largeBytes = 16 * mib

let shared: FetchService
let sites = 0

before(async () => {
  shared = await startFetchService()
})

after(() => shared[Symbol.asyncDispose]())

/** A repository on the server that tests share. */
const createSite = () => shared.createSite(`site-${sites++}`)

test('a storm of clones costs one pack, and each clone is complete', exhaustive, async () => {
  await using site = await createSite()
  await pushHistory(site)
  const before = await site.packs()
  await Promise.all(Array.from({ length: 16 }, (_, n) => cloneTo(site.folder, site.remote, n)))
  assert.equal((await site.packs()) - before, 1)
  const { miss, bypassed = 0 } = await site.sources()
  assert.deepEqual([miss, bypassed], [1, 0])
  for (let n = 0; n < 16; n++) await git(join(site.folder, `copy-${n}`), ['fsck', '--strict'])
})

test('over SSH, too', { ...exhaustive, skip: without('openssh') }, async () => {
  await using site = await startFetchSite({ env: withSsh })
  await pushHistory(site)
  await using user = await createSshUser(site.service, site.service.admin)
  const before = await site.packs()
  await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      user.git(site.folder, 'clone', '--quiet', user.remote('site'), `copy-${n}`),
    ),
  )
  assert.equal((await site.packs()) - before, 1)
  await until('all are counted', async () => {
    const { hit = 0, coalesced = 0, miss } = await site.sources('ssh')
    return miss === 1 && hit + coalesced === 7
  })
  for (let n = 0; n < 8; n++) await git(join(site.folder, `copy-${n}`), ['fsck', '--strict'])
  const { text } = await site.service.admin.get('/metrics')
  assert.match(text, /^svc_fetch_cache_entries\{process="ssh"\} 1$/m)
  assert.match(text, /^svc_fetch_cache_bytes\{process="ssh"\} [1-9]\d+$/m)
})

test('repeating a shallow clone needs no git process, for any client', exhaustive, async () => {
  await using site = await createSite()
  await pushHistory(site)
  const reader = await site.service.client({ permissions: ['repo:read', 'admin'] })
  const clone = (n: number, ...args: string[]) => cloneTo(site.folder, site.remote, n, ...args)
  await clone(0, '--depth=1')
  const before = await site.packs()
  await clone(1, '--depth=1')
  await git(site.folder, ['clone', '--quiet', '--depth=1', reader.remote(site.name), 'theirs'])
  assert.equal(await site.packs(), before)
  await clone(2, '--depth=2')
  assert.equal(await site.packs(), before + 1)
  for (const name of ['copy-1', 'copy-2', 'theirs']) {
    await git(join(site.folder, name), ['fsck', '--strict'])
  }
})

test('new pushes are cloned and fetched, with their tags', async () => {
  await using site = await createSite()
  await site.push('HEAD:main')
  await site.settle()
  await cloneTo(site.folder, site.remote, 0)
  for (let n = 1; n < 6; n++) {
    const id = await site.project.commit(`file-${n}`)
    await site.project.git('tag', '-m', 'a tag', `v${n}`)
    await site.push('HEAD:main', `v${n}`)
    if (n % 2 === 0) await site.settle()
    await cloneTo(site.folder, site.remote, n)
    await git(join(site.folder, 'copy-0'), ['pull', '--quiet'])
    for (const name of ['copy-0', `copy-${n}`]) {
      const { stdout } = await git(join(site.folder, name), ['rev-parse', 'HEAD', `v${n}^{commit}`])
      assert.equal(stdout, `${id}\n${id}`)
    }
  }
})

test('a new tag is in a repeated clone', async () => {
  await using site = await createSite()
  await site.push('HEAD:main')
  const id = await site.project.git('rev-parse', 'HEAD')
  await site.settle()
  const before = await site.fetch(cloneOf(id))
  assert.equal((await site.fetch(cloneOf(id))).said, before.said)
  await site.project.git('tag', '-m', 'heavy', 'v1')
  await site.push('v1')
  const after = await site.fetch(cloneOf(id))
  assert.notEqual(after.said, before.said)
  await site.settle()
  assert.equal((await site.fetch(cloneOf(id))).said, after.said)
})

test('new objects of the server are acknowledged', async () => {
  await using site = await createSite()
  await site.push('HEAD:main')
  const main = await site.project.git('rev-parse', 'HEAD')
  const ahead = await site.project.commit('ahead')
  const body = fetchBody(`want ${main}`, `have ${ahead}`)
  await site.settle()
  for (let n = 0; n < 3; n++) assert.doesNotMatch((await site.fetch(body)).said, /ACK/)
  assert.equal((await site.sources()).hit, 2)
  await site.push('HEAD:ahead')
  assert.match((await site.fetch(body)).said, new RegExp(`ACK ${ahead}`))
})

test('when the first of many clones disconnects, the others are complete', exhaustive, async () => {
  await using site = await createSite()
  const body = await pushLarge(site, largeBytes)
  const { leader, followers } = await shareOne(site, body, 4)
  leader.leave()
  await site.release()
  const whole = (await site.fetch(body)).said
  for (const { status, said, isCut } of await Promise.all(followers.map(readAll))) {
    assert.deepEqual([status, isCut, said], [200, false, whole])
  }
  assert.equal((await site.sources()).miss, 1)
})

test('when the last of many clones disconnects, git ends', async () => {
  await using site = await createSite()
  const body = await pushLarge(site, largeBytes)
  const { leader, followers } = await shareOne(site, body, 2)
  leader.leave()
  followers[0]?.leave()
  assert.notDeepEqual(site.gits(), [])
  followers[1]?.leave()
  await until('no git is left', () => processesIn(site.service.dataDir).length === 0)
  await site.release()
  assert.equal((await site.fetch(body)).isCut, false)
  assert.deepEqual(await site.sources(), { miss: 2, coalesced: 2 })
})

test('when git is killed, all its clones fail, and nothing is stored', exhaustive, async () => {
  await using site = await startFetchSite()
  const body = await pushLarge(site, largeBytes)
  const { leader, followers } = await shareOne(site, body, 2)
  const clones = [leader, ...followers]
  await Promise.all(clones.map(({ answered }) => answered))
  const answers = clones.map(readAll)
  for (const pid of site.gits()) signal(pid, 'SIGKILL')
  for (const { status, isCut, bytes } of await Promise.all(answers)) {
    assert.deepEqual([status, isCut], [200, true])
    assert.ok(bytes.length <= mib)
  }
  assert.match(await metrics(site), /^svc_fetch_cache_entries\{process="main"\} 0$/m)
  await site.release()
  assert.equal((await site.fetch(body)).isCut, false)
  assert.equal((await site.sources()).miss, 2)
})

test('a client that stops reading is cut off, and the others are not', exhaustive, async () => {
  await using site = await startFetchSite({ env: { SVC_GIT_STALL_SECONDS: '5' } })
  const body = await pushLarge(site, largeBytes)
  const { leader, followers } = await shareOne(site, body, 2)
  await site.release()
  const others = await Promise.all(followers.map(readAll))
  assert.deepEqual(
    others.map(({ isCut }) => isCut),
    [false, false],
  )
  await until('it is counted', async () =>
    /operations_total\{kind="fetch",via="http",outcome="cut_off"\} 1/.test(await metrics(site)),
  )
  assert.equal((await readAll(leader)).isCut, true)
})

test('an error response is sent to each client, and never stored', async () => {
  await using site = await createSite()
  await site.push('HEAD:main')
  await site.settle()
  for (let n = 1; n <= 3; n++) {
    const { bytes } = await site.fetch(cloneOf('1'.repeat(idDigits)))
    assert.match(bytes.toString(), /ERR upload-pack: not our ref/)
    assert.deepEqual(await site.sources(), { miss: n })
  }
})

test('pruned objects are not served, whichever process pruned them', {
  ...exhaustive,
  skip: onlyLocal,
}, async () => {
  await using site = await createSite()
  await site.push('HEAD:main')
  const main = cloneOf(await site.project.git('rev-parse', 'HEAD'))
  const lost = await site.project.commit('lost')
  await site.push('HEAD:side')
  await site.push(':side')
  const { stdout } = await git(site.directory, [
    'for-each-ref',
    '--format=delete %(refname)',
    'refs/svc',
  ])
  await updateRefs(site.directory, stdout.split('\n'))
  await site.settle()
  for (let n = 0; n < 3; n++) {
    for (const body of [main, cloneOf(lost)])
      assert.match((await site.fetch(body)).said, /packfile/)
  }
  assert.equal((await site.sources()).hit, 4)
  await site.maintain('quick')
  await site.settle()
  assert.match((await site.fetch(cloneOf(lost))).said, /packfile/)
  await site.maintain('full', Date.now() + dayMs)
  for (let n = 0; n < 3; n++) {
    assert.match((await site.fetch(cloneOf(lost))).said, new RegExp(`not our ref ${lost}`))
    assert.match((await site.fetch(main)).said, /packfile/)
    await site.settle()
  }
})

test('after maintenance, responses are computed again', async () => {
  await using site = await createSite()
  await site.push('HEAD:main')
  const main = cloneOf(await site.project.git('rev-parse', 'HEAD'))
  await site.settle()
  for (let n = 0; n < 3; n++) await site.fetch(main)
  const before = await site.packs()
  await site.fetch(main)
  assert.equal(await site.packs(), before)
  await site.maintain('quick')
  await site.settle()
  for (let n = 0; n < 3; n++) assert.match((await site.fetch(main)).said, /packfile/)
  assert.equal(await site.packs(), before + 1)
})

test('a client without access gets no stored responses', async () => {
  await using site = await createSite()
  await site.push('HEAD:main')
  const body = cloneOf(await site.project.git('rev-parse', 'HEAD'))
  await site.settle()
  for (let n = 0; n < 2; n++) assert.equal((await site.fetch(body)).status, 200)
  const stranger = await site.service.client({ permissions: ['repo:read'] })
  assert.equal((await site.fetch(body, stranger)).status, 404)
  const outsider = await site.service.client({ permissions: ['webhook:read'] })
  assert.equal((await site.fetch(body, outsider)).status, 403)
  await site.service.admin.delete(`/repos/${site.name}`)
  assert.equal((await site.fetch(body)).status, 404)
  await site.service.admin.post('/repos', { name: site.name, objectFormat })
  assert.match((await site.fetch(body)).bytes.toString(), /not our ref/)
})

test('a request that is coalesced uses no permit, even if it waited for one', async () => {
  await using site = await startFetchSite({
    env: { SVC_FETCHES_AT_ONCE: '1', SVC_GIT_WAITING: '2' },
  })
  await site.push('HEAD:main')
  const body = cloneOf(await site.project.git('rev-parse', 'HEAD'))
  await site.settle()
  await site.hold(0)
  const other = site.ask(fetchBody(`want ${'2'.repeat(idDigits)}`, 'done'))
  await until('it has the turn', () => site.gits().length > 0)
  const waiting = [site.fetch(body), site.fetch(body)]
  await until('two wait', async () => /limiter_waiting\{kind="fetch"\} 2/.test(await metrics(site)))
  other.leave()
  await until('one has its turn, and the other is coalesced', async () => {
    const { miss, coalesced } = await site.sources()
    return miss === 2 && coalesced === 1
  })
  const [third, fourth] = [site.fetch(body), site.fetch(body)]
  await until('others are coalesced', async () => (await site.sources()).coalesced === 3)
  await site.release()
  const answers = await Promise.all([...waiting, third, fourth])
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200, 200],
  )
  assert.equal(new Set(answers.map(({ said }) => said)).size, 1)
})

test('clones work with a full disk', { ...exhaustive, skip: await withoutMounts() }, async () => {
  await using disk = await smallDisk('96m')
  await using site = await startFetchSite({ dataDir: join(disk.path, 'data') })
  const body = await pushLarge(site, largeBytes)
  await disk.fill(4 * mib)
  const answers = await Promise.all(Array.from({ length: 4 }, () => site.fetch(body)))
  for (const { status, isCut, said } of answers) {
    assert.deepEqual([status, isCut, said], [200, false, answers[0]?.said])
  }
  await disk.empty()
  assert.equal((await site.fetch(body)).said, answers[0]?.said)
})

test('a killed server leaves no file of a response', exhaustive, async () => {
  await using folder = await temporaryFolder()
  await using site = await startFetchSite({ dataDir: join(folder.path, 'data') })
  const body = await pushLarge(site, 8 * mib)
  for (let n = 0; n < 3; n++) await site.fetch(body)
  assert.match(await metrics(site), /^svc_fetch_cache_bytes\{process="main"\} 8\d{6}$/m)
  const staging = join(site.service.dataDir, 'staging')
  assert.deepEqual(await readdir(staging), [])
  await site.service.end('SIGKILL')
  assert.deepEqual(await readdir(staging), [])
})

test('with a cache size of 0 nothing is stored, and concurrent requests are still coalesced', async () => {
  await using site = await startFetchSite({ env: { SVC_FETCH_CACHE_SIZE: '0' } })
  await site.push('HEAD:main')
  const body = cloneOf(await site.project.git('rev-parse', 'HEAD'))
  await site.settle()
  for (let n = 0; n < 3; n++) await site.fetch(body)
  assert.deepEqual(await site.sources(), { miss: 3 })
  await site.hold(0)
  const { leader, followers } = await shareOne(site, body, 1)
  await site.release()
  const [one, other] = await Promise.all([leader, ...followers].map(readAll))
  assert.equal(one?.said, other?.said)
})

type Asked = ReturnType<FetchSite['ask']>

/** One clone for which git has said 1 MiB, and others that share it. */
async function shareOne(site: FetchSite, body: Buffer, count: number) {
  await site.hold(mib)
  const leader = site.ask(body)
  await until('the first has its git', () => site.gits().length > 0)
  const followers = Array.from({ length: count }, () => site.ask(body))
  await until('the others are coalesced', async () => (await site.sources()).coalesced === count)
  return { leader, followers }
}

async function readAll({ answered }: Asked): Promise<Fetched> {
  return readWhole(await answered)
}

/** Pushes a commit with files of a size; returns the request of a clone. */
async function pushLarge(site: FetchSite, bytes: number): Promise<Buffer> {
  await using project = await createLargeProject(bytes)
  await project.git('push', '--quiet', site.remote, '+HEAD:main')
  await site.settle()
  return cloneOf(await project.git('rev-parse', 'HEAD'))
}

async function pushHistory(site: FetchSite): Promise<void> {
  await using folder = await temporaryFolder()
  await git(folder.path, ['init', '--quiet', '--bare'])
  await importHistory(folder.path, { commits: 300 })
  await git(folder.path, ['push', '--quiet', site.remote, 'main'])
  await site.settle()
}

function cloneTo(folder: string, remote: string, n: number, ...args: string[]) {
  return git(folder, ['clone', '--quiet', ...args, remote, `copy-${n}`])
}

async function metrics({ service }: FetchSite): Promise<string> {
  return (await service.admin.get('/metrics')).text
}
