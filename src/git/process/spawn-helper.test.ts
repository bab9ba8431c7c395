import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLog } from '#base/log.ts'
import { until } from '../../../test/support/condition.ts'
import { exhaustive } from '../../../test/support/exhaustive.ts'
import { temporaryFolder } from '../../../test/support/git.ts'
import { gitLimits } from '../../../test/support/git-limits.ts'
import { commandOf, familyOf, parentOf, signal } from '../../../test/support/processes.ts'
import { gitCommands } from './commands.ts'
import { createGit } from './git-process.ts'
import { createSpawnHelper } from './spawn-helper.ts'

const path = process.env.PATH ?? ''
const silent = createLog({ level: 'silent', output: process.stderr })

async function createSite() {
  await using resources = new AsyncDisposableStack()
  const { path: owner } = resources.use(await temporaryFolder())
  const helper = resources.use(createSpawnHelper({ owner, path, log: silent }))
  const git = createGit({ settings: gitLimits, owner, path, spawnHelper: helper })
  const directory = `${owner}/site.git`
  await git.run(gitCommands.init(directory))
  const all = resources.move()
  return { git, directory, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

// Between fork and exec, a child of the helper has the helper's command line.
function helpersHere(): number[] {
  const helpers = familyOf(process.pid).filter((pid) => /spawn-helper-main/.test(commandOf(pid)))
  return helpers.filter((pid) => parentOf(pid) === process.pid)
}

function onlyHelper(): number {
  const [pid, ...others] = helpersHere()
  assert.ok(pid !== undefined && others.length === 0)
  return pid
}

test('git processes are children of the spawn helper, have pipes to this process, and report how they ended', async () => {
  await using site = await createSite()
  await using reader = await site.git.start(gitCommands.readObjects(site.directory))
  const gits = () => familyOf(onlyHelper()).filter((pid) => /^git .*cat-file/.test(commandOf(pid)))
  await until('git runs', () => gits().length === 1)
  assert.equal(site.git.count(), 1)
  reader.stdin.write('info HEAD\nflush\n')
  for await (const answer of reader.stdout) {
    assert.equal(String(answer), 'HEAD missing\n')
    break
  }
  reader.stdin.end()
  assert.deepEqual(await reader.ended, { exitCode: 0, errorOutput: '' })
  assert.equal(site.git.count(), 0)
  await assert.rejects(site.git.run(gitCommands.packRefs('/nonexistent')), {
    isRefusal: true,
    message: /not a git repository/,
  })
})

test('more git processes than there are spare ones are started', async () => {
  await using site = await createSite()
  const runs = Array.from({ length: 40 }, () => site.git.run(gitCommands.version()))
  for (const text of await Promise.all(runs)) assert.match(text, /^git version/)
})

test('disposing a git process ends it with all its children', async () => {
  await using site = await createSite()
  const reader = await site.git.start(gitCommands.readObjects(site.directory))
  await reader[Symbol.asyncDispose]()
  assert.equal((await reader.ended).exitCode, null)
  assert.equal(site.git.count(), 0)
})

test('a killed spawn helper ends its git processes, and another one is started', async () => {
  await using site = await createSite()
  await using reader = await site.git.start(gitCommands.readObjects(site.directory))
  const before = onlyHelper()
  const family = familyOf(before)
  await until('git runs', () => family.some((pid) => /^git /.test(commandOf(pid))))
  signal(before, 'SIGKILL')
  assert.equal((await reader.ended).exitCode, null)
  await until('none is left', () => family.every((pid) => commandOf(pid) === ''))
  assert.match(await site.git.run(gitCommands.version()), /^git version/)
  assert.notEqual(onlyHelper(), before)
})

test('a spare process that is killed is not used', async () => {
  await using site = await createSite()
  const preforker = () => familyOf(onlyHelper()).filter((pid) => /^\/bin\/sh/.test(commandOf(pid)))
  await until('processes are ready', () => preforker().length > 0)
  const killed = preforker()
  for (const pid of killed) signal(pid, 'SIGKILL')
  await until('they are gone', () => killed.every((pid) => commandOf(pid) === ''))
  // The first ones may come before this process hears of the ends.
  await until('git runs again', async () =>
    /^git version/.test(await site.git.run(gitCommands.version()).catch(() => '')),
  )
})

test('a spawn helper that does not start fails its callers', async () => {
  const { execPath } = process
  using resources = new DisposableStack()
  resources.defer(() => {
    process.execPath = execPath
  })
  process.execPath = '/bin/false'
  await using helper = createSpawnHelper({ owner: 'nobody', path, log: silent })
  const { take } = helper.preforkerWith({})
  for (const outcome of await Promise.allSettled([take(), take(), take(), take(), take()])) {
    assert.equal(outcome.status, 'rejected')
  }
  await assert.rejects(take(), /has ended/)
})

test('a spawn helper that hangs is killed when disposed', exhaustive, async () => {
  const site = await createSite()
  const family = familyOf(onlyHelper())
  signal(onlyHelper(), 'SIGSTOP')
  await site[Symbol.asyncDispose]()
  await until('none is left', () => family.every((pid) => commandOf(pid) === ''))
})

test('a disposed spawn helper leaves no processes', async () => {
  const site = await createSite()
  const family = familyOf(onlyHelper())
  await site[Symbol.asyncDispose]()
  await until('none is left', () => family.every((pid) => commandOf(pid) === ''))
  await assert.rejects(site.git.run(gitCommands.version()), /stopping/)
})
