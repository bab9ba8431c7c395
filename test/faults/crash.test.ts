// Tags: exhaustive
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { newTokenString } from '#base/token-string.ts'
import type { RefUpdate } from '#git/refs/refs.ts'
import { createCommitPool } from '../support/commit-pool.ts'
import { until } from '../support/condition.ts'
import { createProject, git, temporaryFolder } from '../support/git.ts'
import { createOddSource } from '../support/import-sources.ts'
import { createLedger } from '../support/ledger.ts'
import { leftoversIn, repositoryFolders, untilTidy } from '../support/leftovers.ts'
import { copyPrefix, createLoad, type Session } from '../support/load.ts'
import { newSshKey, sshCommand } from '../support/openssh.ts'
import { importingGits, killTree, leftBehind, processesIn, signal } from '../support/processes.ts'
import { without } from '../support/programs.ts'
import { openPushRecords } from '../support/push-records.ts'
import { createRandom, type Random } from '../support/random.ts'
import { gitHeaders, pushBody } from '../support/raw-git.ts'
import { connectRaw } from '../support/raw-http.ts'
import { keptFaults, partRefs } from '../support/retained-commits.ts'
import { toRounds } from '../support/rounds.ts'
import { launcher, type Service, startServiceWithSsh } from '../support/service.ts'

const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)
const rounds = toRounds(3)
const sharedRepositories = 2
const commitsPerRound = 200

type Kept = { dataDir: string; env: Record<string, string> }

test(`acknowledged pushes survive kill -9 (SVC_CRASH_SEED=${seed})`, async (t) => {
  const random = createRandom(seed)
  await using folder = await temporaryFolder()
  await using commits = await createCommitPool(rounds * commitsPerRound)
  const kept = keepIn(folder.path)
  const ledger = createLedger()
  const key = without('openssh') ? undefined : await newSshKey(join(folder.path, 'key'))
  const knownHosts = join(folder.path, 'known')
  const ssh = key && sshCommand({ key: key.path, knownHosts })
  await using source = await createOddSource()
  const load = createLoad({ random, ledger, commits, sshCommand: ssh, source: source.path })
  const check = createCheck(load, ledger, await refsOf(source.path))

  for (let round = 0; round < rounds; round++) {
    await using service = await startServiceWithSsh(kept)
    await check(service)
    const session: Session = { service, isDying: false, answers: 0 }
    if (round === 0) {
      if (key) await service.admin.post('/keys', { name: 'load', publicKey: key.publicKey })
      await load.prepare(session, sharedRepositories)
    }
    const moment = moments[round % moments.length] ?? afterSomeAnswers
    try {
      await Promise.all([load.run(session), killAt(t, moment, session, random)])
    } finally {
      session.isDying = true
    }
    if (random.chance(0.3)) await dieWhileStarting(kept, random)
  }

  await using service = await startServiceWithSsh(kept)
  await check(service)
  assert.equal(await service.end('SIGTERM'), 0)
})

test('a git that outlives its server moves no ref under the next one', async () => {
  await using folder = await temporaryFolder()
  await using commits = await createCommitPool(1)
  const kept = keepIn(folder.path)
  await using service = await startServiceWithSsh(kept)
  await service.admin.post('/repos', { name: 'site' })
  const commit = commits.next()
  using records = openPushRecords(kept.dataDir)
  let number = 0
  await until('git is stopped when it may move refs and has not', async () => {
    // Git moves the refs only where there are several.
    const targets = [number++, number++].map((name) => `${commit}:refs/heads/branch-${name}`)
    const push = git(commits.path, ['push', service.admin.remote('site'), ...targets])
    await Promise.race([whileAPushIsUnfinished({ service }), push])
    const gits = processesIn(kept.dataDir)
    for (const pid of gits) signal(pid, 'SIGSTOP')
    if (gits.length > 0 && records.unfinished().length > 0 && !records.hasMovedRefs()) {
      push.catch(() => {}) // Its server will be killed.
      return true
    }
    for (const pid of gits) signal(pid, 'SIGCONT')
    await push
    return false
  })
  await service.end('SIGKILL')

  await using again = await startServiceWithSsh(kept)
  assert.deepEqual(leftBehind(again), [])
  const recorded = records.eventsAfter(0).pushes.map(({ ref, after }) => `${after}\t${ref}`)
  const { stdout } = await git('/', ['ls-remote', again.admin.remote('site'), 'refs/*'])
  assert.equal(stdout.split('\n').sort().join('\n'), recorded.sort().join('\n'))
})

test('a start ends the git processes that a killed server left in the middle of a push', async () => {
  await using folder = await temporaryFolder()
  await using project = await createProject()
  const kept = keepIn(folder.path)
  await using service = await startServiceWithSsh(kept)
  await service.admin.post('/repos', { name: 'site' })
  // Git starts before a push of several refs has arrived.
  const body = await pushBody(project.path, 'main', 'other')
  using connection = await connectRaw(service.url)
  const headers = gitHeaders('git-receive-pack', service.adminToken, body.length)
  connection.request('POST /repos/site.git/git-receive-pack', headers)
  connection.socket.write(body.subarray(0, -10))
  await until('git takes the pack', async () => (await leftoversIn(kept.dataDir)).length > 0)
  const orphans = processesIn(kept.dataDir)
  assert.notDeepEqual(orphans, [])
  for (const pid of orphans) signal(pid, 'SIGSTOP')
  await service.end('SIGKILL')

  await using again = await startServiceWithSsh(kept)
  assert.deepEqual(leftBehind(again), [])
  await untilTidy(kept.dataDir)
  assert.equal((await again.admin.get('/repos/site')).body.empty, true)
})

test('the start finalizes each push that a killed server had authorized', async () => {
  await using folder = await temporaryFolder()
  await using commits = await createCommitPool(2)
  const kept = keepIn(folder.path)
  const [a, b, none] = [commits.next(), commits.next(), '0'.repeat(40)]
  await using service = await startServiceWithSsh(kept)
  const { body: site } = await service.admin.post('/repos', { name: 'site' })
  const specs = [`${a}:refs/heads/moved`, `${b}:refs/heads/replaced`, `${a}:refs/heads/kept`]
  await git(commits.path, ['push', service.admin.remote('site'), ...specs])
  using records = openPushRecords(kept.dataDir)
  await until('the push is finished', () => records.unfinished().length === 0)
  await service.end('SIGKILL')
  const { numbers } = records.eventsAfter(0)
  const allowed = [
    { ref: 'refs/heads/moved', before: none, after: a },
    { ref: 'refs/heads/replaced', before: none, after: a },
    { ref: 'refs/heads/replaced', before: a, after: b },
    { ref: 'refs/heads/deleted', before: a, after: none },
    { ref: 'refs/heads/missing', before: none, after: a },
    { ref: 'refs/heads/kept', before: a, after: none },
  ]
  allowPushes(kept.dataDir, site.id, allowed)

  await using _again = await startServiceWithSsh(kept)
  const { pushes } = records.eventsAfter(numbers.length)
  const recorded = pushes.map(({ ref, before, after }) => ({ ref, before, after }))
  assert.deepEqual(recorded, allowed.slice(0, 4))
  assert.deepEqual(records.unfinished(), [])
})

function keepIn(folder: string): Kept {
  return { dataDir: join(folder, 'data'), env: { SVC_ADMIN_TOKEN: newTokenString() } }
}

/** Records pushes of one ref each as allowed and unfinished, as a server does that is killed just then. */
function allowPushes(dataDir: string, repositoryId: string, updates: RefUpdate[]): void {
  using database = new DatabaseSync(join(dataDir, 'svc.db'), { timeout: 5000 })
  const insert = database.prepare(
    `insert into pushes (id, repository_id, actor_id, actor_username, updates, judged_at)
     values (?, ?, 'nobody', 'nobody', ?, ?)`,
  )
  for (const [index, update] of updates.entries()) {
    insert.run(`push-${index}`, repositoryId, JSON.stringify([update]), Date.now())
  }
}

/** Compares what a server that has just started has with what was asked for and acknowledged before. */
function createCheck(
  load: ReturnType<typeof createLoad>,
  ledger: ReturnType<typeof createLedger>,
  refsOfSource: Map<string, string>,
) {
  let lastEvent = 0

  return async function check(service: Service): Promise<void> {
    const { admin, dataDir, log } = service
    using records = openPushRecords(dataDir)
    assert.deepEqual(records.unfinished(), [], 'pushes are unfinished after the start')
    assert.deepEqual(leftBehind(service), [], 'gits of the killed server still run')
    assert.deepEqual(importingGits(dataDir), [], 'imports of the killed server still run')
    await untilTidy(dataDir)

    const { body: repositories } = await admin.get('/repos')
    const paths = repositories.map(({ path }: { path: string }) => path)
    assert.deepEqual(paths.sort(), await repositoryFolders(dataDir))
    const faults = load.settle(repositories)

    const { numbers, pushes } = records.eventsAfter(lastEvent)
    const allPushes = Map.groupBy(records.eventsAfter(0).pushes, (event) => event.repositoryId)
    assert.deepEqual(
      numbers,
      numbers.map((_, index) => lastEvent + 1 + index),
    )
    lastEvent = numbers.at(-1) ?? lastEvent
    for (const { id, name, path, state } of repositories) {
      assert.equal(state, 'ready', name)
      const { visible: refs, kept } = partRefs(await refsOf(path))
      if (name.startsWith(copyPrefix)) assert.deepEqual(refs, refsOfSource, name)
      faults.push(...ledger.settle(id, refs, pushes))
      faults.push(...keptFaults(kept, allPushes.get(id) ?? []))
      await git('/', ['-c', 'safe.directory=*', '--git-dir', path, 'fsck', '--full', '--strict'])
    }
    assert.deepEqual(faults, [], log())
  }
}

async function refsOf(path: string): Promise<Map<string, string>> {
  const format = '--format=%(refname) %(objectname)'
  const { stdout } = await git('/', ['--git-dir', path, 'for-each-ref', format])
  const lines = stdout.split('\n').filter((line) => line !== '')
  return new Map(lines.map((line) => line.split(' ') as [string, string]))
}

type ConsistentSnapshot = (session: Session, random: Random) => Promise<unknown>

const afterSomeAnswers = (session: Session, random: Random) => {
  const enough = random.below(20)
  return until('clients got answers', () => session.answers >= enough)
}

const whileAPushIsUnfinished = async ({ service }: Pick<Session, 'service'>) => {
  using records = openPushRecords(service.dataDir)
  await until('a push is allowed', () => records.unfinished().length > 0)
}

/** Stops the server as soon as it has recorded what a push may do, and lets git do it. */
const whenRefsHaveMovedUnseen = async ({ service }: Session) => {
  using records = openPushRecords(service.dataDir)
  await until('refs have moved and the server does not know', async () => {
    if (records.unfinished().length === 0) return false
    signal(service.pid, 'SIGSTOP')
    for (let looks = 0; looks < 20; looks++) {
      if (records.hasMovedRefs()) return true
      await setTimeout(5)
    }
    signal(service.pid, 'SIGCONT')
    return false
  })
}

const whileARepositoryComesOrGoes = ({ service }: Session) =>
  until('a repository comes or goes', async () => {
    const folders = ['staging', 'trash'].map((name) => readdir(join(service.dataDir, name)))
    return (await Promise.all(folders)).flat().length > 0
  })

const moments: ConsistentSnapshot[] = [
  afterSomeAnswers,
  whileAPushIsUnfinished,
  whenRefsHaveMovedUnseen,
  whileARepositoryComesOrGoes,
]

/** Kills the server: alone, with its gits, or alone with gits that are stuck at just that time. */
async function killAt(
  t: TestContext,
  moment: ConsistentSnapshot,
  session: Session,
  random: Random,
): Promise<void> {
  const { service } = session
  const victims = random.pick(['server', 'server', 'server and gits', 'server and gits', 'stuck'])
  const delayMs = random.below(10)
  await moment(session, random)
  await setTimeout(delayMs)
  session.isDying = true
  if (victims === 'stuck') {
    const gits = [...processesIn(service.dataDir), ...importingGits(service.dataDir)]
    for (const pid of gits) signal(pid, 'SIGSTOP')
  }
  if (victims === 'server and gits') killTree(service.pid)
  await service.end('SIGKILL')
  t.diagnostic(`killed ${victims} ${moment.name} after ${session.answers} answers`)
}

/** Starts the server and kills it in the middle of its repairs. */
async function dieWhileStarting({ dataDir, env }: Kept, random: Random): Promise<void> {
  const server = spawn(launcher, ['serve'], {
    env: {
      PATH: process.env.PATH,
      SVC_PORT: '0',
      SVC_SSH_PORT: '0',
      SVC_DATA_DIR: dataDir,
      ...env,
    },
    stdio: 'ignore',
  })
  const ended = once(server, 'exit')
  await setTimeout(100 + random.below(400))
  server.kill('SIGKILL')
  await ended
}
