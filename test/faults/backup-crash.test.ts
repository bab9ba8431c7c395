// Tags: exhaustive
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { faultSteps } from '#base/fault-points.ts'
import { isLocked } from '#config/data-directory.ts'
import { createBackupOriginal } from '../support/backup-site.ts'
import {
  assertAgrees,
  assertRefused,
  assertWhole,
  contentOf,
  mustRun,
  mustRunInProcess,
  refsOf,
  verified,
} from '../support/backups.ts'
import { runSvc, startSvc } from '../support/command.ts'
import { runInProcess } from '../support/command-in-process.ts'
import { until } from '../support/condition.ts'
import { createPostgresDatabase } from '../support/databases.ts'
import type { Project } from '../support/git.ts'
import { without } from '../support/programs.ts'
import { createRandom } from '../support/random.ts'
import { sampleOf, toRounds } from '../support/rounds.ts'
import { startService } from '../support/service.ts'
import { smallDisk, withoutMounts } from '../support/small-disk.ts'

const seed = Number(process.env.SVC_CRASH_SEED ?? Date.now() % 1_000_000)
const kills = toRounds(1)
const mib = 1024 * 1024
const skip = await withoutMounts()
const stepsOf = (work: string) => faultSteps.filter((step) => step.startsWith(`${work}.`))

let original: Awaited<ReturnType<typeof createBackupOriginal>>

before(async () => {
  original = await createBackupOriginal()
})

after(() => original[Symbol.asyncDispose]())

test('a backup killed at any step leaves the previous or the new one, complete', async (t) => {
  await using site = await original.start()
  for (const step of sampleOf(stepsOf('backup'), 2)) {
    await t.test(step, async () => {
      await site.service.admin.post('/repos', { name: step })
      await site.push(step)
      const { id, repositories } = await site.backUp()
      await site.push('site')
      await site.service.admin.delete(`/repos/${step}`)
      const [deleted] = (await site.service.admin.get('/deleted-repos')).body
      await site.service.admin.delete(`/deleted-repos/${deleted.id}`)
      const env = { ...site.env, SVC_FAULT_POINT: step }
      assert.equal((await runSvc(['backup', site.backup], env)).signal, 'SIGKILL')
      const found = await verified(site.backup)
      assert.deepEqual(found.faults, [])
      const isNew = ['backup.named', 'backup.cleared'].includes(step)
      assert.equal(found.id !== id, isNew)
      await site.restored(async (again) => {
        await assertAgrees(again)
        const expected = isNew ? repositories - 1 : repositories
        assert.equal((await again.admin.get('/repos')).body.length, expected)
      })

      // The next one removes the leftovers of the killed one, whose locks do not block.
      await site.push('site', 'later')
      const named = await site.backUp()
      const files = [...(await contentOf(site.backup)).keys()]
      assert.equal(
        files.filter((path) => path.includes('/')).length,
        named.filesCopied + named.filesKept,
      )
      await assertWhole(site.backup)
      assert.deepEqual(await refsOf({ dataDir: await site.restore() }), await site.refs())
    })
  }
})

test('a first backup killed at any step can be repeated', async (t) => {
  await using site = await original.copy()
  const before = await site.refs()
  for (const step of sampleOf(stepsOf('backup'), 1)) {
    await t.test(step, async () => {
      await rm(site.backup, { recursive: true, force: true })
      const env = { ...site.env, SVC_FAULT_POINT: step }
      assert.equal((await runSvc(['backup', site.backup], env)).signal, 'SIGKILL')
      await site.backUp()
      await assertWhole(site.backup)
      assert.deepEqual(await refsOf({ dataDir: await site.restore() }), before)
    })
  }
})

test('a restore killed at any step leaves no usable data directory', async (t) => {
  await using site = await original.copy()
  await site.backUp()
  const before = await site.refs()
  for (const step of sampleOf(stepsOf('restore'), 2)) {
    await t.test(step, async () => {
      const dataDir = join(site.folder, step)
      const env = { SVC_DATA_DIR: dataDir }
      const killed = await runSvc(['restore', site.backup], { ...env, SVC_FAULT_POINT: step })
      assert.equal(killed.signal, 'SIGKILL')
      if (step !== 'restore.unmarked') {
        const sentence =
          /A restore into .* was interrupted.* remove that directory and restore again/
        assertRefused(
          await runSvc(['serve'], { ...env, SVC_PORT: '0', SVC_SSH_PORT: '0' }),
          sentence,
        )
        assertRefused(await runInProcess(['tokens', 'list'], env), sentence)
        assertRefused(await runInProcess(['backup', `${site.backup}-2`], env), sentence)
        assertRefused(await runInProcess(['restore', site.backup], env), sentence)
        await rm(dataDir, { recursive: true })
        await mustRunInProcess(['restore', site.backup], env)
      }
      const token = { SVC_ADMIN_TOKEN: site.adminToken }
      await using again = await startService({ dataDir, env: token })
      await assertAgrees(again)
      assert.deepEqual(await refsOf(again), before)
    })
  }
})

test('a restore into PostgreSQL killed before its rows are committed leaves the database empty', {
  skip: without('postgres'),
}, async () => {
  await using site = await original.copy()
  await site.backUp()
  const { url, drop } = await createPostgresDatabase({ isEmpty: true })
  const dataDir = join(site.folder, 'moved')
  const env = { SVC_DATA_DIR: dataDir, SVC_DATABASE_URL: url }
  for (const step of ['restore.marked', 'restore.copied']) {
    await runSvc(['restore', site.backup], { ...env, SVC_FAULT_POINT: step })
    assert.ok((await readdir(dataDir)).includes('restoring'))
    await rm(dataDir, { recursive: true })
  }
  await mustRun(['restore', site.backup], env)
  await drop()
})

test(`backups and restores survive kill -9 at any moment (SVC_CRASH_SEED=${seed})`, async (t) => {
  await using site = await original.start()
  const random = createRandom(seed)
  await addLargeFile(site.project, 16 * mib)
  await site.push('page')
  await site.backUp()
  const length = await lengthOf(() => mustRun(['backup', site.backup, '--recheck'], site.env))
  for (let round = 0; round < kills; round++) {
    await site.push('site', `round-${round}`)
    if (random.chance(0.3)) await site.service.admin.post('/repos', { name: `new-${round}` })
    const { child, ended } = startSvc(['backup', site.backup], site.env)
    await sleep(random.below(length))
    child.kill('SIGKILL')
    const { signal } = await ended
    await assertWhole(site.backup)
    t.diagnostic(`${signal ?? 'not killed'}`)
    if (round % 3 === 2) await site.backUp()

    const dataDir = join(site.folder, `killed-${round}`)
    const restoring = startSvc(['restore', site.backup], { SVC_DATA_DIR: dataDir })
    await sleep(random.below(length))
    restoring.child.kill('SIGKILL')
    await restoring.ended
    const entries: string[] = await readdir(dataDir).catch(() => [])
    if (entries.length === 0 || entries.includes('restoring')) continue
    const token = { SVC_ADMIN_TOKEN: site.adminToken }
    await using again = await startService({ dataDir, env: token })
    await assertAgrees(again)
  }
  await site.backUp()
  const before = await site.refs()
  await site.restored(async (again) => assert.deepEqual(await refsOf(again), before))
})

test('an interrupted backup leaves the previous one unchanged', async () => {
  await using site = await original.start()
  await site.backUp()
  const before = await contentOf(site.backup)
  await site.push('site')
  await until('a backup is interrupted at its work', async () => {
    const { child, ended } = startSvc(['backup', site.backup], site.env)
    await until('it is at work', async () => {
      return (await isLocked(site.dataDir, 'backup')) || child.exitCode !== null
    })
    child.kill('SIGTERM')
    const { code, err } = await ended
    if (code === 0) return false
    assert.equal(code, 143)
    // A slow backup has printed its progress before.
    assert.match(err, /^(?:[A-Z][\w ]+\n)*svc: interrupted\n$/)
    return true
  })
  const after = await contentOf(site.backup)
  if (after.get('manifest.json') === before.get('manifest.json')) assert.deepEqual(after, before)
  await assertWhole(site.backup)
})

test('a backup to a full disk fails with a message, and the previous one stays valid', {
  skip,
}, async () => {
  await using disk = await smallDisk('24m')
  await using site = await original.start()
  const to = join(disk.path, 'backup')
  await mustRun(['backup', to], site.env)
  const before = await contentOf(to)
  await addLargeFile(site.project, 4 * mib)
  await site.push('page')
  for (const free of [0, 4096, mib, 3 * mib]) {
    await disk.fill(free)
    assertRefused(
      await runInProcess(['backup', to], site.env),
      /The disk of .*\/backup is full\. The backup of .* in it was not changed/,
    )
    await assertWhole(to)
    assert.deepEqual(await contentOf(to), before)
    await disk.empty()
  }
  await mustRun(['backup', to], site.env)
  await assertWhole(to)
  const dataDir = join(site.folder, 'again')
  await mustRun(['restore', to], { SVC_DATA_DIR: dataDir })
})

test('a restore to a full disk fails with a message, and leaves nothing', {
  skip,
}, async () => {
  await using disk = await smallDisk('24m')
  await using site = await original.start()
  await addLargeFile(site.project, 4 * mib)
  await site.push('page')
  await site.backUp()
  const dataDir = join(disk.path, 'data')
  for (const free of [0, 64 * 1024, mib, 4 * mib]) {
    await disk.fill(free)
    const refused = await runInProcess(['restore', site.backup], { SVC_DATA_DIR: dataDir })
    assertRefused(
      refused,
      /is full; nothing was restored\. Free some space and try again|no space left/i,
    )
    await assert.rejects(stat(dataDir), { code: 'ENOENT' })
    await disk.empty()
  }
  await mustRun(['restore', site.backup], { SVC_DATA_DIR: dataDir })
  await using again = await startService({
    dataDir,
    env: { SVC_ADMIN_TOKEN: site.adminToken },
  })
  await assertAgrees(again)
})

/** How long something takes, in milliseconds. */
async function lengthOf(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await work()
  return Math.ceil(performance.now() - start)
}

/** Adds a file of noise, which does not get smaller. */
async function addLargeFile({ path, git }: Pick<Project, 'path' | 'git'>, bytes: number) {
  await git('config', 'core.compression', '0')
  await writeFile(join(path, 'large.bin'), randomBytes(bytes))
  await git('add', '.')
}
