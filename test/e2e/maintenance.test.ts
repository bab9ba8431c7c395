import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cp, mkdir, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { dayMs } from '#base/clock.ts'
import { faultSteps } from '#base/fault-points.ts'
import { newTokenString } from '#base/token-string.ts'
import { maintain } from '#git/maintenance/maintain.ts'
import { createGit } from '#git/process/git-process.ts'
import { runSvc } from '../support/command.ts'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, git, type Project, spawnGit, temporaryFolder } from '../support/git.ts'
import { gitLimits } from '../support/git-limits.ts'
import { importHistory } from '../support/history.ts'
import { untilTidy } from '../support/leftovers.ts'
import { commandOf, killTree, processesIn, signal } from '../support/processes.ts'
import { createRandom } from '../support/random.ts'
import { isSoak, sampleOf, toRounds } from '../support/rounds.ts'
import { launcher, type Service, startService } from '../support/service.ts'

const execute = promisify(execFile)
const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)
const rounds = toRounds(1)
const stepsOfMaintenance = faultSteps.filter((step) => step.startsWith('maintenance.'))

test('a command makes the running server maintain a repository, and prints the result', async () => {
  await using service = await startService()
  await using project = await createProject()
  const site = await pushSome(service, project, 4)
  const { report, name } = JSON.parse(await svc(service, 'repos', 'maintain', 'site', '--json'))
  assert.deepEqual(
    [name, report.extent, report.packsBefore, report.packsAfter],
    ['site', 'quick', 5, 1],
  )
  const line = await svc(service, 'repos', 'maintain', '--all', '--full')
  assert.match(line, /^site: 1 pack of [\d.]+ KiB, now 1 pack of [\d.]+ KiB \([\d.]+ s\)\n$/)
  // It takes as much of its namespace as it does now.
  await service.admin.post('/namespaces', { name: 'acme' })
  await service.admin.patch('/repos/site', { name: 'acme/site' })
  const { bytes } = (await service.admin.get('/namespaces/acme/usage')).body
  assert.equal(bytes, (await service.admin.get('/repos/acme%2Fsite')).body.sizeBytes)
  await service.end('SIGTERM')
  assert.equal(service.log().match(/"repository maintained"/g)?.length, 2)
  await site.check()
})

test('without a server the command maintains the repository itself', async () => {
  await using folder = await temporaryFolder()
  await using service = await startService({ dataDir: join(folder.path, 'data') })
  await using project = await createProject()
  const site = await pushSome(service, project, 4)
  await service.end('SIGTERM')
  const { report } = JSON.parse(await svc(service, 'repos', 'maintain', 'site', '--full', '--json'))
  assert.deepEqual([report.extent, report.packsBefore, report.packsAfter], ['full', 5, 1])
  await site.check()
})

test('a command without a repository, or with too many, is a usage error', async () => {
  await using service = await startService()
  await assert.rejects(svc(service, 'repos', 'maintain'), /svc: Name one repository, or use --all/)
  await assert.rejects(svc(service, 'repos', 'maintain', 'x', '--all'), /svc: Name one repository/)
  await assert.rejects(svc(service, 'repos', 'maintain', 'x'), /svc: There is no repository "x"/)
})

test('a repository is maintained automatically after a number of pushes, also after a restart', async () => {
  await using folder = await temporaryFolder()
  const kept = keepIn(folder.path, { SVC_MAINTENANCE_PUSHES: '3' })
  await using service = await startService(kept)
  await using project = await createProject()
  await pushSome(service, project, 3)
  await service.admin.post('/repos', { name: 'quiet' })
  await project.git('push', '--quiet', service.admin.remote('quiet'), 'HEAD:main')
  await service.end('SIGTERM')

  await using again = await startService(kept)
  await until('the work is done', () => /"repository maintained"/.test(again.log()))
  const lines = again
    .log()
    .split('\n')
    .filter((line) => /"repository maintained"/.test(line))
  const done = lines.map((line) => JSON.parse(line))
  assert.deepEqual(
    done.map(({ name, packsBefore, packsAfter }) => [name, packsBefore, packsAfter]),
    [['site', 4, 1]],
  )
})

test(
  'a maintenance killed at any step leaves a valid repository, and continues after the next start',
  exhaustive,
  async (t) => {
    await using folder = await temporaryFolder()
    await using project = await createProject()
    const prepared = keepIn(join(folder.path, 'prepared'))
    await using service = await startService(prepared)
    const site = await pushSome(service, project, 4)
    await addOldObject(site.path)
    await service.end('SIGTERM')
    for (const step of sampleOf(stepsOfMaintenance, 2)) {
      await t.test(step, async () => {
        const kept = { ...prepared, dataDir: join(folder.path, step) }
        await cp(prepared.dataDir, kept.dataDir, { recursive: true, preserveTimestamps: true })
        const env = { SVC_FAULT_POINT: step }
        const killed = svc(kept, 'repos', 'maintain', 'site', '--full', env)
        await assert.rejects(
          killed,
          (error: Error & { signal?: string }) => error.signal === 'SIGKILL',
        )

        await using again = await startService(kept)
        const copy = site.in(kept.dataDir)
        await copy.check(again)
        const finished = JSON.parse(
          await svc(again, 'repos', 'maintain', 'site', '--full', '--json'),
        )
        assert.deepEqual([finished.report.extent, finished.report.packsAfter], ['full', 1])
        await untilTidy(again.dataDir)
        await copy.check(again)
        const change = await project.commit(step)
        await project.git('push', '--quiet', '--force', again.admin.remote('site'), 'HEAD:main')
        assert.match(await copy.refs(), new RegExp(change))
      })
    }
  },
)

test('a command continues the maintenance of a killed server', exhaustive, async () => {
  await using folder = await temporaryFolder()
  const kept = keepIn(folder.path, { SVC_FAULT_POINT: 'maintenance.expired' })
  await using service = await startService(kept)
  await using project = await createProject()
  const site = await pushSome(service, project, 4)
  await addOldObject(site.path)
  const { report } = JSON.parse(await svc(service, 'repos', 'maintain', 'site', '--full', '--json'))
  assert.deepEqual([report.extent, report.packsAfter], ['full', 1])
  assert.equal(await service.end('SIGTERM'), null)
  await untilTidy(service.dataDir)
  await site.check()
})

test(
  `kill -9 at any moment of a maintenance loses nothing (SVC_CRASH_SEED=${seed})`,
  exhaustive,
  async (t) => {
    const random = createRandom(seed)
    await using folder = await temporaryFolder()
    const kept = keepIn(folder.path)
    await using project = await createLongProject(2000)
    await using service = await startService(kept)
    const site = await pushSome(service, project, 6)
    await service.end('SIGTERM')

    for (let round = 0; round < rounds; round++) {
      await addOldObject(site.path)
      const extent = random.pick(['--full', '--full', '--all'])
      const args = extent === '--all' ? ['--all'] : ['site', extent]
      const working = execute(launcher, ['repos', 'maintain', ...args], {
        env: environment(service),
      })
      working.catch(() => {}) // It is killed.
      const ended = new Promise((resolve) => working.child.on('exit', resolve))
      const wanted = random.pick([
        'pack-refs',
        'commit-graph',
        'repack',
        'pack-objects',
        'multi-pack',
      ])
      await Promise.race([
        until(`git ${wanted} runs`, () => gitsOf(service, wanted).length > 0),
        ended,
      ])
      await setTimeout(random.below(60))
      const victims = random.pick(['command', 'all', 'git'])
      if (victims === 'git') for (const pid of processesIn(kept.dataDir)) signal(pid, 'SIGKILL')
      else if (victims === 'all') killTree(working.child.pid ?? 0)
      else working.child.kill('SIGKILL')
      await ended
      t.diagnostic(`killed ${victims} at ${wanted} with ${args.join(' ')}`)

      await using again = await startService(kept)
      await untilTidy(kept.dataDir)
      await site.check(again)
      await svc(again, 'repos', 'maintain', 'site')
      await site.check(again)
      await again.end('SIGTERM')
    }
  },
)

test(
  'clones, pushes, forced pushes and deletions work during maintenance',
  exhaustive,
  async (t) => {
    await using service = await startService()
    await using project = await createLongProject(500)
    const site = await pushSome(service, project, 10)
    const remote = service.admin.remote('site')
    const state = { isDone: false, pushes: 0, clones: 0 }
    // The clients go on for as long as the maintenance does: without pauses they would make it slow.
    const pauseMs = isSoak ? 0 : 400
    const wanted = new Map<string, string>()

    async function pushOn(branch: string): Promise<void> {
      await using mine = await createProject()
      while (!state.isDone) {
        wanted.set(`refs/heads/${branch}`, await mine.commit(randomBytes(4).toString('hex')))
        await mine.git('push', '--quiet', '--force', remote, `HEAD:${branch}`, `HEAD:${branch}-too`)
        if (state.pushes % 3 === 0) await mine.git('reset', '--hard', 'HEAD~')
        await mine.git('push', '--quiet', remote, `:${branch}-too`)
        state.pushes += 1
        await setTimeout(pauseMs)
      }
    }

    async function cloneOn(): Promise<void> {
      await using folder = await temporaryFolder()
      while (!state.isDone) {
        const copy = join(folder.path, 'copy')
        await git('/', ['clone', '--quiet', '--mirror', remote, copy])
        await git(copy, ['fsck', '--connectivity-only'])
        await rm(copy, { recursive: true })
        state.clones += 1
        await setTimeout(pauseMs)
      }
    }

    const [branches, clones] = isSoak ? [['a', 'b', 'c'], 2] : [['a'], 1]
    const storm = Promise.all([...branches.map(pushOn), ...Array.from({ length: clones }, cloneOn)])
    storm.catch(() => {}) // It is awaited in the end.
    try {
      await svc(service, 'repos', 'maintain', 'site')
      await svc(service, 'repos', 'maintain', 'site', '--full')
      for (let round = 0; round < toRounds(2); round++) {
        await maintain(site.path, {
          git: createGit({
            settings: gitLimits,
            owner: service.dataDir,
            path: process.env.PATH ?? '',
          }),
          extent: round % 2 === 0 ? 'full' : 'quick',
          expireBefore: Date.now() - 14 * dayMs,
          memoryMaxBytes: gitLimits.gitMemoryMaxBytes,
          watch: () => {},
          waitForOtherHolds: async () => true,
          faultPoint: () => {},
          signal: new AbortController().signal,
        })
      }
    } finally {
      state.isDone = true
    }
    await storm
    t.diagnostic(`${state.pushes} pushes and ${state.clones} clones`)
    const { stdout } = await git('/', ['ls-remote', remote])
    for (const [ref, id] of wanted) assert.match(stdout, new RegExp(`${id}\t${ref}`))
    assert.doesNotMatch(stdout, /-too/)
    await untilTidy(service.dataDir)
    await site.fsck()
    assert.doesNotMatch(service.log(), /"level":"(warn|error)"/)
  },
)

test(
  'a damaged repository is reported, does not delay others, and is retried later',
  exhaustive,
  async () => {
    await using service = await startService({ env: { SVC_MAINTENANCE_PUSHES: '1' } })
    await using project = await createProject()
    const site = await pushSome(service, project, 2)
    await service.admin.post('/repos', { name: 'other' })
    await project.git('push', '--quiet', service.admin.remote('other'), 'HEAD:main')
    const packs = join(site.path, 'objects/pack')
    for (const name of await readdir(packs)) {
      if (!name.endsWith('.pack')) continue
      await rm(join(packs, name))
      await writeFile(join(packs, name), 'not a pack')
    }
    const failed = svc(service, 'repos', 'maintain', '--all')
    await assert.rejects(failed, (error: Error & { stdout?: string; stderr?: string }) => {
      assert.match(error.stdout ?? '', /^site: git [\w-]+ ended with \d+: /m)
      assert.match(error.stdout ?? '', /^other: 1 pack of /m)
      assert.match(error.stderr ?? '', /^svc: 1 of 2 could not be maintained\.$/m)
      return true
    })
    await svc(service, 'repos', 'maintain', 'other')
    assert.match(service.log(), /"maintenance failed"/)
  },
)

test('a repository deleted during maintenance causes no error', exhaustive, async () => {
  await using service = await startService()
  await using project = await createLongProject(6000)
  const site = await pushSome(service, project, 2)
  const working = svc(service, 'repos', 'maintain', 'site', '--full')
  working.catch(() => {}) // It fails because the repository was deleted.
  await untilPacking(service)
  for (const pid of gitsOf(service, 'pack-objects')) signal(pid, 'SIGSTOP')
  await service.admin.delete('/repos/site')
  // As git does when it writes a file after the move.
  await mkdir(join(site.path, 'objects/pack'), { recursive: true })
  for (const pid of processesIn(service.dataDir)) signal(pid, 'SIGCONT')
  await assert.rejects(working, /could not be maintained/)
  await until('it is gone', async () => (await readdir(join(site.path, '..'))).length === 0)
  await untilTidy(service.dataDir)
  assert.doesNotMatch(service.log(), /"level":"error"/)
})

test('a stop ends a maintenance at once, and it is repeated later', exhaustive, async () => {
  await using folder = await temporaryFolder()
  const kept = keepIn(folder.path)
  await using service = await startService(kept)
  await using project = await createLongProject(6000)
  const site = await pushSome(service, project, 2)
  const working = svc(service, 'repos', 'maintain', 'site', '--full', '--json')
  await untilPacking(service)
  for (const pid of gitsOf(service, 'pack-objects')) signal(pid, 'SIGSTOP')
  assert.equal(await service.end('SIGTERM'), 0)
  // The command finds that it has to do it itself now.
  assert.equal(JSON.parse(await working).report.extent, 'full')
  await using again = await startService(kept)
  await untilTidy(kept.dataDir)
  await site.check(again)
})

/** A project with a long history, so that its maintenance takes a while. */
async function createLongProject(commits: number): Promise<Project> {
  const project = await createProject()
  await project.git('update-ref', '-d', 'refs/heads/main')
  await importHistory(project.path, { commits })
  await project.git('reset', '--quiet', '--hard')
  return project
}

function keepIn(folder: string, env: Record<string, string> = {}) {
  return {
    dataDir: join(folder, 'data'),
    env: { SVC_ADMIN_TOKEN: newTokenString(), ...env },
  }
}

/** Makes the repository `site` and pushes to it: `main`, and a branch for each of a number of pushes. */
async function pushSome(service: Service, project: Project, pushes: number) {
  const { body } = await service.admin.post('/repos', { name: 'site' })
  const path: string = body.path
  await project.git('push', '--quiet', service.admin.remote('site'), 'HEAD:main')
  for (let number = 0; number < pushes; number++) {
    await project.git('commit', '--quiet', '--allow-empty', '-m', `Push ${number}`)
    await project.git('push', '--quiet', service.admin.remote('site'), `HEAD:push-${number}`)
  }
  const { dataDir } = service
  const expected = (await gitIn(path, 'for-each-ref')).stdout
  return siteAt(path)

  function siteAt(path: string) {
    const refs = async () => (await gitIn(path, 'for-each-ref')).stdout
    const fsck = () => gitIn(path, 'fsck', '--full', '--strict')
    return {
      path,
      refs,
      fsck,
      /** The same in a copy of the data directory. */
      in: (copy: string) => siteAt(join(copy, relative(dataDir, path))),
      /** Fails unless all is there that was pushed; a server gives it to who clones, too. */
      async check(server?: Service): Promise<void> {
        assert.equal(await refs(), expected)
        const { stderr } = await fsck()
        assert.doesNotMatch(stderr, /error|missing|broken/)
        if (!server) return
        await using folder = await temporaryFolder()
        const copy = join(folder.path, 'copy')
        await git('/', ['clone', '--quiet', '--mirror', server.admin.remote('site'), copy])
        assert.equal((await git(copy, ['for-each-ref'])).stdout, expected)
        await git(copy, ['fsck', '--full', '--strict'])
      },
    }
  }
}

/** Adds an object that no ref leads to, and that is old enough to be pruned. */
async function addOldObject(path: string): Promise<void> {
  const child = spawnGit('/', ['--git-dir', path, 'hash-object', '-w', '--stdin'])
  const said = child.stdout.setEncoding('utf8').toArray()
  child.stdin.end(randomBytes(8))
  const id = (await said).join('').trim()
  const longAgo = new Date('2020-01-01')
  await utimes(join(path, 'objects', id.slice(0, 2), id.slice(2)), longAgo, longAgo)
}

function gitIn(path: string, ...args: string[]) {
  return git('/', ['-c', 'safe.directory=*', '--git-dir', path, ...args])
}

/** Waits for git to repack, which may take a fraction of a second. */
async function untilPacking(service: Service): Promise<void> {
  const isPacking = () => gitsOf(service, 'pack-objects').length > 0
  await until('git repacks', isPacking, { maxPauseMs: 5 })
}

function gitsOf({ dataDir }: Service, command: string): number[] {
  return processesIn(dataDir).filter((pid) => commandOf(pid).includes(command))
}

type Place = { dataDir: string }

function environment({ dataDir }: Place): Record<string, string> {
  return { PATH: process.env.PATH ?? '', SVC_DATA_DIR: dataDir, SVC_FREE_SPACE_MIN: '0' }
}

/** Runs a command beside a server; what it printed. */
async function svc(service: Place, ...words: (string | Record<string, string>)[]) {
  const args = words.filter((word) => typeof word === 'string')
  const env = Object.assign(
    environment(service),
    ...words.filter((word) => typeof word !== 'string'),
  )
  const { code, signal, out, err } = await runSvc(args, env)
  if (code !== 0) throw Object.assign(new Error(err), { stdout: out, stderr: err, signal })
  return out
}
