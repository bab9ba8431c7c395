// Tags: exhaustive
import assert from 'node:assert/strict'
import { readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { without } from '../support/programs.ts'
import { openTestSandbox, runningIn, runScript, until } from '../support/sandbox.ts'
import { testAsUnprivilegedUser, withoutUnprivilegedUser } from '../support/unprivileged-user.ts'

const file = fileURLToPath(import.meta.url)
const options = { skip: without('bubblewrap'), timeout: 600_000 }
const nothing = { processes: [], files: [] }

test('a step has its exit code, and its output and errors in one order', options, async () => {
  await using sandbox = await openTestSandbox()
  const script = 'echo one; echo two >&2; echo three >/dev/stdout; echo four >/dev/stderr; exit 7'
  const { exitCode, reason, output } = await sandbox.run(script)
  assert.deepEqual([exitCode, reason, output], [7, 'exited', 'one\ntwo\nthree\nfour\n'])
  assert.equal((await sandbox.run('kill -SEGV $$')).exitCode, 139)
  assert.deepEqual(await sandbox.close(), nothing)
})

test('files persist between steps, and are removed with the workspace', options, async () => {
  await using sandbox = await openTestSandbox()
  await sandbox.run(
    'for folder in /workspace /home/runner /tmp /svc /dev/shm; do date >$folder/a; done',
  )
  const { output } = await sandbox.run('ls -d {dev/shm,home/runner,svc,tmp,workspace}/a', {
    cwd: '/',
  })
  assert.equal(output, 'dev/shm/a\nhome/runner/a\nsvc/a\ntmp/a\nworkspace/a\n')
  await sandbox.run('exit', { cwd: '/tmp' })
  assert.deepEqual(await sandbox.close(), nothing)
})

test('a step gets its whole environment, with any names and lengths', options, async () => {
  await using sandbox = await openTestSandbox()
  const long = 'x'.repeat(100_000)
  const many = Object.fromEntries(Array.from({ length: 2000 }, (_, index) => [`V${index}`, 'v']))
  const env = { PATH: '/usr/bin', 'WITH-DASH': 'a\nb', LONG: long, ...many }
  const { output } = await sandbox.run('env | wc -l; printenv WITH-DASH; printenv LONG | wc -c', {
    env,
  })
  assert.match(output, /^20\d\d\na\nb\n100001\n$/)
  const tooMany = Object.fromEntries(Array.from({ length: 4000 }, (_, index) => [`V${index}`, 'v']))
  const refused = await sandbox.run('true', { env: { ...env, ...tooMany } })
  assert.equal(refused.reason, 'not-started')
  assert.match(refused.detail, /too many variables/)
})

test('a missing program is named, and a missing folder, too', options, async () => {
  await using sandbox = await openTestSandbox()
  const absent = await sandbox.run('', { command: ['pwsh', '-c', 'x'] })
  assert.deepEqual([absent.reason, absent.exitCode], ['not-started', null])
  assert.match(absent.detail, /pwsh was not found in \/usr\/bin:\/bin/)
  const lost = await sandbox.run('true', { cwd: '/workspace/nowhere' })
  assert.equal(lost.reason, 'not-started')
  assert.match(lost.detail, /nowhere/)
})

test('a step may leave its input unread', options, async () => {
  await using sandbox = await openTestSandbox()
  const whole = await sandbox.run('wc -c', { stdin: Readable.from([Buffer.alloc(3_000_000)]) })
  assert.equal(whole.output.trim(), '3000000')
  const part = await sandbox.run('exit 3', { stdin: Readable.from([Buffer.alloc(3_000_000)]) })
  assert.equal(part.exitCode, 3)
  assert.equal((await sandbox.run('cat; echo end')).output, 'end\n')
})

const holders = {
  'a step that sleeps for ever': 'sleep 1000',
  'one that ignores SIGTERM': 'trap "" TERM; while :; do sleep 1; done',
  'one that has stopped itself': 'kill -STOP $$',
  'one that writes without end': 'yes',
  'a fork bomb': ':(){ :|:& };:; sleep 1000',
}
for (const [what, script] of Object.entries(holders)) {
  test(`${what} is ended by its timeout, with all its processes`, options, async () => {
    await using sandbox = await openTestSandbox()
    const { reason, exitCode } = await sandbox.run(script, { timeoutMs: 300 })
    assert.deepEqual([reason, exitCode], ['timed-out', null])
    assert.deepEqual(runningIn(sandbox.workspace), [])
    assert.equal((await sandbox.run('echo next')).output, 'next\n')
    assert.deepEqual(await sandbox.close(), nothing)
  })
}

test('a cancelled step can clean up', options, async () => {
  await using sandbox = await openTestSandbox()
  const stop = new AbortController()
  const script = 'trap "echo cleaned; exit 0" TERM; echo ready; sleep 1000 & wait'
  let output = ''
  const { reason } = await sandbox.run(script, {
    signal: stop.signal,
    onOutput(bytes) {
      output += bytes
      if (output === 'ready\n') stop.abort()
    },
  })
  assert.equal(reason, 'cancelled')
  assert.match(output, /^ready\n(Terminated\n)?cleaned\n$/)
})

test('removing a workspace ends its processes', options, async () => {
  await using sandbox = await openTestSandbox()
  const run = sandbox.run('trap "" TERM; echo ready; sleep 1000; sleep 1000')
  await until(() => runningIn(sandbox.workspace).length > 3)
  assert.deepEqual(await sandbox.close(), nothing)
  assert.equal((await run).reason, 'cancelled')
  await assert.rejects(sandbox.run('true'), /one command at a time/)
})

const leavers = {
  'a background process': 'sleep 1000 & echo done',
  'a double-forked child in a session of its own': '(setsid sleep 1000 &) ; echo done',
  'a background process that ignores all signals': '(trap "" TERM HUP INT; sleep 1000) & echo done',
}
for (const [what, script] of Object.entries(leavers)) {
  test(`${what} neither holds a step open nor outlives it`, options, async () => {
    await using sandbox = await openTestSandbox()
    const { exitCode, output } = await sandbox.run(script)
    assert.deepEqual([exitCode, output], [0, 'done\n'])
    assert.deepEqual(runningIn(sandbox.workspace), [])
    assert.deepEqual(await sandbox.close(), nothing)
  })
}

test('a step that closes its output runs on', options, async () => {
  await using sandbox = await openTestSandbox()
  const { exitCode, output } = await sandbox.run(
    'echo a; exec >&- 2>&-; sleep 0.2; touch b; exit 5',
  )
  assert.deepEqual([exitCode, output], [5, 'a\n'])
  assert.deepEqual(await readdir(sandbox.workspace.outside.workspace), ['b'])
})

test('a slow reader gets all of the output, and makes the step wait', options, async () => {
  await using sandbox = await openTestSandbox()
  let bytes = 0
  const { exitCode } = await sandbox.run('head -c 3000000 /dev/zero', {
    async onOutput(chunk) {
      bytes += chunk.length
      await sleep(1)
    },
  })
  assert.deepEqual([exitCode, bytes], [0, 3_000_000])
})

test('a reader that fails ends the step', options, async () => {
  await using sandbox = await openTestSandbox()
  const onOutput = () => Promise.reject(new Error('the log is full'))
  await assert.rejects(sandbox.run('yes', { onOutput }), /the log is full/)
  assert.deepEqual(runningIn(sandbox.workspace), [])
})

const spoilers = {
  'with inaccessible folders': 'mkdir -p a/b/c; touch a/b/c/d; chmod 000 a/b/c a/b a . ..',
  'without its files': 'rm -rf /workspace /home/runner /tmp /svc /workspace/.* 2>/dev/null; true',
  'with a tree deeper than the longest path':
    'perl -e \'for (1..3000) { mkdir "deeeeeeep"; chdir "deeeeeeep" or die }\'',
  'with names of any bytes, pipes and links out of it':
    "touch $'a\\nb' $'\\xff\\xfe' -- -rf; mkfifo pipe; ln -s /etc/passwd link; ln -s / root",
}
for (const [how, script] of Object.entries(spoilers)) {
  test(`a workspace that a step left ${how} is removed`, options, async () => {
    await using sandbox = await openTestSandbox()
    await writeFile(join(sandbox.folder, '..', 'outside'), 'stays')
    await symlink('/usr', join(sandbox.workspace.outside.workspace, 'usr'))
    await sandbox.run(script)
    assert.deepEqual(await sandbox.close(), nothing)
    assert.deepEqual((await readdir(join(sandbox.folder, '..'))).sort(), ['outside', 'workspaces'])
  })
}

test('workspaces run concurrently', options, async () => {
  await using sandbox = await openTestSandbox()
  await using other = await sandbox.sandbox.openWorkspace()
  const ends = await Promise.all([sandbox.run('sleep 0.1; echo a'), runScript(other, 'echo b')])
  assert.deepEqual(
    ends.map(({ output }) => output),
    ['a\n', 'b\n'],
  )
})

test(
  'all of this holds for an ordinary user',
  {
    ...options,
    skip: options.skip || (await withoutUnprivilegedUser(file)),
  },
  () => testAsUnprivilegedUser(file),
)
