import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { createProject, type Project, temporaryFolder } from '../support/git.ts'
import {
  assertSameContent,
  createNoisyProject,
  startGate,
  startGitDaemon,
} from '../support/import-sources.ts'
import { repositoryFolders, untilTidy } from '../support/leftovers.ts'
import { importingGits, signal } from '../support/processes.ts'
import { launcher, type Service, startService } from '../support/service.ts'
import { openTables } from '../support/tables.ts'

const mib = 1024 * 1024

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let noisy: Project
let small: Project
let daemon: Awaited<ReturnType<typeof startGitDaemon>>
let service: Service
let env: Record<string, string>

before(async () => {
  folder = await temporaryFolder()
  noisy = await createNoisyProject()
  small = await createProject()
  await noisy.git('clone', '--quiet', '--bare', '.', join(folder.path, 'noisy.git'))
  await small.git('clone', '--quiet', '--bare', '.', join(folder.path, 'small.git'))
  daemon = await startGitDaemon(folder.path)
  const dataDir = join(folder.path, 'data')
  service = await startService({ dataDir })
  env = { SVC_DATA_DIR: dataDir, SVC_ADMIN_TOKEN: service.adminToken }
})

after(async () => {
  await service[Symbol.asyncDispose]()
  await daemon[Symbol.asyncDispose]()
  await small[Symbol.asyncDispose]()
  await noisy[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
})

test('a repository is imported beside a running server, for the given owner', async () => {
  const ada = await service.client({ username: 'ada' })
  const plain = await svc(join(folder.path, 'small.git'))
  assert.deepEqual([plain.exitCode, plain.stdout], [0, 'Imported small (0.0 MiB).\n'])
  const { body } = await service.admin.get('/repos/small')
  await assertSameContent(body.path, `${small.path}/.git`)

  const source = `${daemon.url}/small.git`
  const json = await svc(source, 'of-ada', '--username', 'ada', '--json')
  assert.equal(json.exitCode, 0, json.stderr)
  const { cloneUrls, maintenance, ...ofAda } = (await ada.get('/repos/of-ada')).body
  // Maintenance of the import may have started meanwhile.
  const shown = { ...JSON.parse(json.stdout), cloneUrls, maintenance }
  assert.deepEqual(shown, { ...ofAda, cloneUrls, maintenance })
  assert.equal(ofAda.ownerTokenId, ada.id)
  assert.equal((await service.client({ username: 'bob' })).username, 'bob')
  using tables = openTables(service.dataDir)
  const [event] = tables.events(body.id)
  assert.deepEqual(
    [event?.kind, event?.data],
    ['repository.imported', { name: 'small', source: join(folder.path, 'small.git') }],
  )
})

test('errors are one line with exit code 1, and change nothing', exhaustive, async () => {
  await service.admin.post('/repos', { name: 'taken' })
  const cases: [string[], RegExp][] = [
    [['/nonexistent', 'x'], /^svc: There is nothing at this path of the server\.\n$/],
    [['git://127.0.0.1:9/x'], /^svc: The source cannot be reached: Connection refused\.\n$/],
    [['./x'], /^svc: \/source is a relative path; .*\n$/],
    [[small.path, 'a..b'], /^svc: \/name cannot be "a\.\.b"; it must be 1 to 100 of .*\n$/],
    [[small.path, 'Taken'], /^svc: "Taken" is taken, in this or another case; .*\n$/],
    [[small.path, 'x', '--username', 'nobody'], /^svc: No valid token has the username "nobody"; /],
    [[service.dataDir, 'x'], /^svc: This path of the server may not be imported from\. .*\n$/],
  ]
  for (const [words, expected] of cases) {
    const { exitCode, stdout, stderr } = await svc(...words)
    assert.deepEqual([exitCode, stdout], [1, ''], words.join(' '))
    assert.match(stderr, expected)
  }
  // Maintenance of what was imported before may be running.
  await untilTidy(service.dataDir)
  using tables = openTables(service.dataDir)
  assert.deepEqual(tables.rows('imports'), [])
})

test('without a terminal each step of the progress is a line', exhaustive, async () => {
  using gate = await startGate(daemon.port, mib)
  const command = start(`git://127.0.0.1:${gate.port}/noisy.git`, 'in-lines')
  await gate.untilHeld()
  await command.untilSaid(/^Importing: receiving, [1-9]\d %\n/m)
  gate.open()
  const { exitCode, stdout, stderr } = await command.ended
  assert.deepEqual([exitCode, stdout], [0, 'Imported in-lines (6.3 MiB).\n'], stderr)
  assert.doesNotMatch(stderr, /\r|\x1b/)
})

test(
  'on a terminal the progress is one line, which is removed at the end',
  exhaustive,
  async (t) => {
    const script = '/usr/bin/script'
    if (!existsSync(script)) return t.skip('needs script, of util-linux')
    using gate = await startGate(daemon.port, mib)
    const words = [launcher, 'repos', 'import', `git://127.0.0.1:${gate.port}/noisy.git`, 'on-tty']
    const command = watch(
      spawn(script, ['-qec', `stty cols 40; ${words.join(' ')}`, '/dev/null'], {
        env: { PATH: process.env.PATH, ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
    )
    await gate.untilHeld()
    await command.untilSaid(/\r\x1b\[KImporting: receiving, [1-9]\d %/)
    gate.open()
    const { exitCode, stdout } = await command.ended
    assert.equal(exitCode, 0)
    assert.match(stdout, /\r\x1b\[KImported on-tty \(6\.3 MiB\)\.\r\n$/)
  },
)

for (const [name, exitCode] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  test(`${name} in the middle leaves nothing and ends the git processes`, async () => {
    using gate = await startGate(daemon.port, mib)
    const command = start(`git://127.0.0.1:${gate.port}/noisy.git`, 'interrupted')
    await gate.untilHeld()
    assert.equal((await service.admin.get('/repos/interrupted')).body.state, 'importing')
    signal(command.pid, name)
    const ended = await command.ended
    assert.equal(ended.exitCode, exitCode)
    assert.match(ended.stderr, /^svc: Interrupted; nothing was changed\.\n$/m)
    assert.deepEqual(importingGits(service.dataDir), [])
    await untilTidy(service.dataDir)
    assert.equal((await service.admin.post('/repos', { name: 'interrupted' })).status, 201)
    await service.admin.delete('/repos/interrupted')
  })
}

test(
  'starts, stops and kills of a server do not disturb the import of a command',
  exhaustive,
  async () => {
    await using own = await temporaryFolder()
    const dataDir = join(own.path, 'data')
    await using first = await startService({
      dataDir,
      env: { SVC_ADMIN_TOKEN: service.adminToken },
    })
    using gate = await startGate(daemon.port, mib)
    const source = `git://127.0.0.1:${gate.port}/noisy.git`
    const command = start(source, 'long', { SVC_DATA_DIR: dataDir })
    await gate.untilHeld()
    assert.equal(await first.end('SIGTERM'), 0)
    const options = { dataDir, env: { SVC_ADMIN_TOKEN: service.adminToken } }
    await using second = await startService(options)
    assert.equal((await second.admin.get('/repos/long')).body.state, 'importing')
    await second.end('SIGKILL')
    await using third = await startService(options)
    gate.open()
    const { exitCode, stderr } = await command.ended
    assert.equal(exitCode, 0, stderr)
    const { body } = await third.admin.get('/repos/long')
    assert.equal(body.state, 'ready')
    await assertSameContent(body.path, `${noisy.path}/.git`)
    await untilTidy(dataDir)
  },
)

test(
  'without a server an import works, and leftovers of a killed one are removed by the next start',
  exhaustive,
  async () => {
    await using own = await temporaryFolder()
    const dataDir = join(own.path, 'data')
    const options = { dataDir, env: { SVC_ADMIN_TOKEN: service.adminToken } }
    await using first = await startService(options)
    assert.equal(await first.end('SIGTERM'), 0)
    const here = { SVC_DATA_DIR: dataDir }
    const done = await start(small.path, 'done', here).ended
    assert.equal(done.exitCode, 0, done.stderr)

    using gate = await startGate(daemon.port, mib)
    const command = start(`git://127.0.0.1:${gate.port}/noisy.git`, 'killed', here)
    await gate.untilHeld()
    const gits = importingGits(dataDir)
    assert.notDeepEqual(gits, [])
    // Otherwise they would end by themselves when their pipes are closed.
    for (const pid of gits) signal(pid, 'SIGSTOP')
    signal(command.pid, 'SIGKILL')
    await until(
      'it has ended',
      async () => (await readdir(`/proc/${command.pid}`).catch(() => [])).length === 0,
    )
    assert.notDeepEqual(await readdir(join(dataDir, 'staging')), [])

    await using second = await startService(options)
    assert.deepEqual(importingGits(dataDir), [])
    const names = (await second.admin.get('/repos')).body.map((one: { name: string }) => one.name)
    assert.deepEqual(names, ['done'])
    assert.equal((await repositoryFolders(dataDir)).length, 1)
    await untilTidy(dataDir)
    const { body } = await second.admin.get('/repos/killed')
    assert.match(body.import.fault.detail, /interrupted because its program ended\. Start it again/)
    const again = await start(join(folder.path, 'noisy.git'), 'killed', here).ended
    assert.equal(again.exitCode, 0, again.stderr)
  },
)

function svc(...words: string[]) {
  const [source = '', ...rest] = words
  return start(source, rest).ended
}

/** Starts `svc repos import`. */
function start(source: string, rest: string | string[], more: Record<string, string> = {}) {
  const words = ['repos', 'import', source, ...[rest].flat()]
  const options = { env: { PATH: process.env.PATH, ...env, SVC_FREE_SPACE_MIN: '0', ...more } }
  return watch(spawn(launcher, words, options))
}

function watch(child: ChildProcess) {
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (piece: string) => {
      said += piece
    })
  }
  const read = async (stream: ChildProcess['stdout']) => (stream ? text(stream) : '')
  const ended = Promise.all([once(child, 'close'), read(child.stdout), read(child.stderr)]).then(
    ([[exitCode], stdout, stderr]) => ({ exitCode, stdout, stderr }),
  )
  return {
    pid: child.pid ?? 0,
    ended,
    untilSaid: (pattern: RegExp) => until(`it says ${pattern}`, () => pattern.test(said)),
  }
}
