// Tags: exhaustive
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { openSandbox } from '#actions/sandbox/open-sandbox.ts'
import type { Folders } from '#actions/sandbox/sandbox.ts'
import { fuzzing } from '../support/fuzz.ts'
import { temporaryFolder } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { createRandom } from '../support/random.ts'
import { sampleOf, toRounds } from '../support/rounds.ts'
import { pathWithoutBubblewrap, runningIn, systemPath, until } from '../support/sandbox.ts'
import { testAsUnprivilegedUser, withoutUnprivilegedUser } from '../support/unprivileged-user.ts'

const file = fileURLToPath(import.meta.url)
const program = fileURLToPath(new URL('../support/sandbox-program.ts', import.meta.url))
const options = { skip: without('bubblewrap'), timeout: 600_000 }
const script = `trap "" TERM HUP; (setsid sleep 1000 &) ; sleep 1000 & touch "$HOME/ready"; sleep 1000; sleep 1000`

test('when a runner is killed, all processes of its steps end', options, async () => {
  await using folder = await temporaryFolder()
  const { runner, outside } = await startRunner(folder.path, systemPath)
  await until(() => existsSync(join(outside.home, 'ready')))
  assert.ok(runningIn({ outside }).length > 4)
  runner.kill('SIGKILL')
  await until(() => runningIn({ outside }).length === 0)
  await assertCleared(folder.path, outside)
})

test(
  'leftovers of a runner killed while a step starts are ended by the next one',
  options,
  async () => {
    await using folder = await temporaryFolder()
    for (const waitMs of sampleOf([0, 2, 4, 6, 8, 10, 12, 15, 18, 22], 4)) {
      const { runner, outside } = await startRunner(folder.path, systemPath)
      await sleep(waitMs)
      runner.kill('SIGKILL')
      await once(runner, 'exit')
      await assertCleared(folder.path, outside)
    }
  },
)

test('a runner killed at any moment of a start leaves no process', options, async () => {
  const random = createRandom(fuzzing().seed)
  await using folder = await temporaryFolder()
  const rounds = toRounds(6)
  for (let round = 0; round < rounds; round++) {
    const { runner, outside } = await startRunner(folder.path, systemPath)
    await sleep(random.below(30))
    runner.kill('SIGKILL')
    await once(runner, 'exit')
    await until(() => runningIn({ outside }).length === 0)
    // What was about to start would be there by now.
    await sleep(10)
    assert.deepEqual(runningIn({ outside }), [])
    // The control group of the last one would stay for good.
    if (round === rounds - 1) await assertCleared(folder.path, outside)
  }
})

test(
  'without bubblewrap, the next runner ends the processes of a killed one',
  options,
  async () => {
    await using folder = await temporaryFolder()
    await using programs = await temporaryFolder()
    const path = await pathWithoutBubblewrap(programs.path)
    const { runner, outside, isolation } = await startRunner(folder.path, path)
    assert.equal(isolation, 'none')
    await until(() => existsSync(join(outside.home, 'ready')))
    runner.kill('SIGKILL')
    await once(runner, 'exit')
    await assertCleared(folder.path, outside)
  },
)

test(
  'all of this holds for an ordinary user',
  {
    ...options,
    skip: options.skip || (await withoutUnprivilegedUser(file)),
  },
  () => testAsUnprivilegedUser(file),
)

async function startRunner(folder: string, path: string) {
  const runner = spawn(process.execPath, [program, folder, path, script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for await (const line of createInterface(runner.stdout)) {
    const started: { isolation: string; outside: Folders } = JSON.parse(line)
    return { runner, ...started }
  }
  throw new Error('The runner ended before it had a workspace.')
}

async function assertCleared(folder: string, outside: Folders): Promise<void> {
  await openSandbox({
    ...{ folder, path: systemPath, network: 'none', mode: 'require', readOnlyPaths: [] },
    hiddenPaths: [],
    limits: {
      memoryMaxBytes: 1024 ** 3,
      processesMax: 100,
      fileMaxBytes: 1024,
      freeSpaceMinBytes: 0,
    },
  })
  assert.deepEqual(runningIn({ outside }), [])
  assert.deepEqual(await readdir(folder), [])
  assert.ok(!existsSync(outside.workspace))
}
