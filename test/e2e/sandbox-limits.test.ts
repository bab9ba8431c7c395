import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { exhaustive } from '../support/exhaustive.ts'
import { without } from '../support/programs.ts'
import { openTestSandbox, runScript } from '../support/sandbox.ts'
import { smallDisk, withoutMounts } from '../support/small-disk.ts'
import { testAsUnprivilegedUser, withoutUnprivilegedUser } from '../support/unprivileged-user.ts'

const file = fileURLToPath(import.meta.url)
const options = { skip: without('bubblewrap'), timeout: 600_000 }
const nothing = { processes: [], files: [] }
const megabytes = 1024 ** 2

test('one process is limited in memory', options, async () => {
  await using sandbox = await openTestSandbox({ limits: { memoryMaxBytes: 100 * megabytes } })
  const { exitCode, reason } = await sandbox.run(`perl -e '$x = "a" x (1 << 30); sleep 1000'`)
  assert.equal(reason === 'out-of-memory' || exitCode !== 0, true)
  assert.deepEqual(await sandbox.close(), nothing)
})

test('processes that take more memory together than the limit are ended', options, async () => {
  await using sandbox = await openTestSandbox({ limits: { memoryMaxBytes: 200 * megabytes } })
  const hog = `perl -e '$x = "a" x (80 << 20); sleep 1000' &`
  const { exitCode, reason, detail } = await sandbox.run(`${hog} ${hog} ${hog} ${hog} wait`)
  assert.deepEqual([exitCode, reason], [null, 'out-of-memory'])
  assert.match(detail, /200 MiB/)
  assert.deepEqual(await sandbox.close(), nothing)
})

test('memory that processes share is counted once', { ...exhaustive, ...options }, async () => {
  await using sandbox = await openTestSandbox({ limits: { memoryMaxBytes: 200 * megabytes } })
  const script = `perl -e '$x = "a" x (60 << 20); fork for 1..3; sleep 1; print length $x'`
  const { exitCode, reason } = await sandbox.run(script)
  assert.deepEqual([exitCode, reason], [0, 'exited'])
})

test('memory that no process has mapped is counted', { ...exhaustive, ...options }, async () => {
  const kinds = {
    'memory of System V that is detached': `for (1..4) {
      $id = shmget(0, 80 << 20, 01600) // die; shmwrite($id, "x" x (80 << 20), 0, 80 << 20) }`,
    'files in memory that are open': `$name = "hog"; for $i (1..8) {
      $fd = syscall(${process.arch === 'arm64' ? 279 : 319}, $name, 0); open $files[$i], ">&=", $fd;
      syswrite $files[$i], "x" x (1 << 20) for 1..40 }`,
  }
  const isRoot = process.getuid?.() === 0
  for (const [kind, script] of Object.entries(kinds)) {
    if (!isRoot && kind.includes('System V')) continue
    await using sandbox = await openTestSandbox({ limits: { memoryMaxBytes: 250 * megabytes } })
    const { reason, output } = await sandbox.run(`exec perl -e '${script}; sleep 1000'`)
    assert.equal(reason, 'out-of-memory', `${kind}: ${output}`)
    assert.deepEqual(await sandbox.close(), nothing)
  }
})

test('/dev/shm is on disk', options, async () => {
  await using sandbox = await openTestSandbox()
  await sandbox.run('head -c 40000000 /dev/zero >/dev/shm/hog')
  const shm = join(sandbox.workspace.outside.workspace, '..', 'shm')
  assert.deepEqual(await readdir(shm), ['hog'])
  assert.deepEqual(await sandbox.close(), nothing)
})

test('each workspace has its own limit of processes', { ...exhaustive, ...options }, async () => {
  await using sandbox = await openTestSandbox({ limits: { processesMax: 40 } })
  await using other = await sandbox.sandbox.openWorkspace()
  const script = 'for i in $(seq 60); do sleep 0.5 & done 2>/dev/null; jobs -r | wc -l; wait'
  const outputs = [sandbox.workspace, other].map((workspace) =>
    runScript(workspace, `(${script}) 2>/dev/null`),
  )
  for (const { output } of await Promise.all(outputs)) {
    const count = Number(output.trim() || 0)
    assert.ok(count <= 40, output)
  }
  assert.equal((await sandbox.run('echo next')).output, 'next\n')
})

test('a file grows to its limit and no further', options, async () => {
  await using sandbox = await openTestSandbox({ limits: { fileMaxBytes: megabytes } })
  const { output } = await sandbox.run(
    'head -c 9000000 /dev/zero >huge 2>&1; echo $?; stat -c %s huge',
  )
  assert.match(output, /153\n1048576\n$/)
})

test('a step that leaves too little of the disk is ended', {
  ...options,
  skip: options.skip || (await withoutMounts()),
}, async () => {
  await using disk = await smallDisk('64m')
  const limits = { freeSpaceMinBytes: 24 * megabytes }
  await using sandbox = await openTestSandbox({ folder: join(disk.path, 'workspaces'), limits })
  const fill = 'head -c 45000000 /dev/zero >full; sleep 1000'
  const { exitCode, reason, detail } = await sandbox.run(fill)
  assert.deepEqual([exitCode, reason], [null, 'out-of-disk'])
  assert.match(detail, /24 MiB/)
  assert.equal((await sandbox.run('true')).reason, 'out-of-disk')
  assert.deepEqual(await sandbox.close(), nothing)
})

test(
  'all of this holds for an ordinary user',
  { ...exhaustive, ...options, skip: options.skip || (await withoutUnprivilegedUser(file)) },
  () => testAsUnprivilegedUser(file),
)
