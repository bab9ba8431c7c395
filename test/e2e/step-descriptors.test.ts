import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { exhaustive } from '../support/exhaustive.ts'
import { temporaryFolder } from '../support/git.ts'
import { inheriting } from '../support/inherited.ts'
import { without } from '../support/programs.ts'
import { openTestSandbox, pathWithoutBubblewrap, systemPath } from '../support/sandbox.ts'
import { testAsUnprivilegedUser, withoutUnprivilegedUser } from '../support/unprivileged-user.ts'

const execute = promisify(execFile)
const file = fileURLToPath(import.meta.url)
const program = fileURLToPath(new URL('../support/sandbox-program.ts', import.meta.url))
const options = { timeout: 120_000 }
const withBubblewrap = { ...options, skip: without('bubblewrap') }
const list = `exec perl -e 'for (0..1023) { $to = readlink "/proc/$$/fd/$_"; print "$_ $to\\n" if defined $to }'`
const pipesAlone = /^0 pipe:\[\d+\]\n1 (pipe:\[\d+\])\n2 \1\n$/

for (const [kind, skip] of [
  ['in bubblewrap', without('bubblewrap')],
  ['without bubblewrap', false],
] as const) {
  test(`a step ${kind} starts with only three pipes, regardless of the descriptors of its runner`, {
    ...options,
    skip,
  }, async () => {
    await using place = await createPlace(kind === 'in bubblewrap')
    const [command, ...args] = inheriting(place.inherited)
    const { stdout } = await execute(command, [
      ...args,
      ...[process.execPath, program, place.workspaces, place.path, list],
    ])
    const [about = '', end = ''] = stdout.split('\n')
    assert.equal(JSON.parse(about).isolation === 'bubblewrap', kind === 'in bubblewrap')
    assert.match(JSON.parse(end).output, pipesAlone)
  })
}

test('a step has empty input, even if an earlier one wrote to it', withBubblewrap, async () => {
  await using sandbox = await openTestSandbox()
  await sandbox.run('echo left >/proc/self/fd/0')
  assert.equal((await sandbox.run('cat; echo read')).output, 'read\n')
})

test('unread output of a step is not in that of the next', withBubblewrap, async () => {
  await using sandbox = await openTestSandbox()
  const refused = sandbox.run('yes', { onOutput: () => Promise.reject(new Error('refused')) })
  await assert.rejects(refused, /refused/)
  assert.equal((await sandbox.run('echo next')).output, 'next\n')
})

test('a step can reopen its output and input', withBubblewrap, async () => {
  await using sandbox = await openTestSandbox()
  const script =
    'echo a >/dev/stdout; echo b >/dev/stderr; cat </dev/stdin; echo c >>/proc/self/fd/1'
  assert.equal((await sandbox.run(script)).output, 'a\nb\nc\n')
})

test(
  'all of this holds for an ordinary user',
  {
    ...exhaustive,
    ...withBubblewrap,
    skip: withBubblewrap.skip || (await withoutUnprivilegedUser(file)),
  },
  () => testAsUnprivilegedUser(file),
)

async function createPlace(hasBubblewrap: boolean) {
  const folder = await temporaryFolder()
  // Steps of another user start with the programs in it.
  await chmod(folder.path, 0o755)
  const [workspaces, programs] = [join(folder.path, 'workspaces'), join(folder.path, 'programs')]
  for (const path of [workspaces, programs]) await mkdir(path, { mode: 0o700 })
  const inherited = join(folder.path, 'inherited')
  await writeFile(inherited, 'of the shell')
  return {
    workspaces,
    inherited,
    path: hasBubblewrap ? systemPath : await pathWithoutBubblewrap(programs),
    [Symbol.asyncDispose]: folder[Symbol.asyncDispose],
  }
}
