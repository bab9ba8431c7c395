import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { exhaustive } from '../support/exhaustive.ts'
import { assertRecovered, startHostileSite } from '../support/hostile-site.ts'
import { assertFrugal } from '../support/memory.ts'
import { without } from '../support/programs.ts'
import { smallDisk, withoutMounts } from '../support/small-disk.ts'

const options = { skip: without('bubblewrap'), timeout: 600_000 }
const mib = 1024 * 1024

test('the head and the tail of endless output are kept, in bounded memory', {
  ...exhaustive,
  ...options,
}, async () => {
  await using site = await startHostileSite({ SVC_STEP_OUTPUT_MAX: '64KiB' })
  // The runner has its memory from then on.
  await assertRecovered(site)
  await assertFrugal(
    site.service(),
    async () => {
      const lines = 'yes "another line of very many" | head -c 200000000'
      const { step, log } = await site.attack(
        'site',
        `steps: [{ run: 'echo head; ${lines}; echo; echo tail; exit 4' }]`,
      )
      assert.deepEqual([step.conclusion, step.exitCode], ['failure', 4])
      assert.match(step.output, /^head\nanother line/)
      assert.match(step.output, /\n… \d{9} bytes omitted …\nanother line/)
      assert.match(step.output, /\ntail\n$/)
      assert.ok(Buffer.byteLength(log) < 70_000)
    },
    96 * mib,
  )
  await assertRecovered(site)
})

test('an endless line is kept in part, in bounded memory', options, async () => {
  await using site = await startHostileSite({ SVC_STEP_OUTPUT_MAX: '64KiB' })
  await assertRecovered(site)
  await assertFrugal(
    site.service(),
    async () => {
      const { step } = await site.attack(
        'site',
        `steps: [{ run: 'printf begin; tr "\\\\0" x </dev/zero', timeout-minutes: 0.05 }]`,
      )
      assert.equal(step.conclusion, 'timed_out')
      assert.match(step.output, /^beginxxx/)
      assert.ok(step.output.length < 70_000)
    },
    96 * mib,
  )
  await assertRecovered(site)
})

test('a step is limited by the setting, regardless of its own timeout', options, async () => {
  await using site = await startHostileSite({ SVC_STEP_SECONDS: '1' })
  const { run, step } = await site.attack(
    'site',
    'steps: [{ run: sleep 4715006, timeout-minutes: 60 }, { run: echo never }]',
  )
  assert.equal(run.conclusion, 'timed_out')
  assert.deepEqual(
    [step.conclusion, step.fault],
    ['timed_out', 'The step exceeded its time limit of 1 second.'],
  )
  assert.equal(run.result.steps[1].conclusion, 'skipped')
  assert.equal(run.failure.step, step.name)
  await assertRecovered(site)
})

test('a run is limited by the setting', { ...exhaustive, ...options }, async () => {
  // Enough for the run that shows that the server has recovered, on a busy machine, too.
  await using site = await startHostileSite({ SVC_RUN_SECONDS: '10' })
  const { run, step } = await site.attack('site', 'steps: [{ run: sleep 4715007 }]')
  assert.deepEqual(
    [run.conclusion, run.fault],
    ['timed_out', 'The run exceeded its time limit of 10 seconds.'],
  )
  assert.equal(step.conclusion, 'timed_out')
  await assertRecovered(site)
})

const skip = options.skip || (await withoutMounts())

test('a step that fills the disk is ended, with the reason recorded', {
  ...exhaustive,
  ...options,
  skip,
}, async () => {
  await using disk = await smallDisk('96m')
  const env = { SVC_FREE_SPACE_MIN: '16MiB' }
  await using site = await startHostileSite(env, join(disk.path, 'data'))
  const fill =
    'echo begun; for n in $(seq 1000); do head -c 100000 /dev/zero >file$n; done; echo never'
  const { run, step } = await site.attack('site', `steps: [{ run: '${fill}' }, { run: echo next }]`)
  assert.deepEqual([run.conclusion, step.conclusion, step.exitCode], ['failure', 'failure', null])
  assert.match(
    step.fault,
    /^The runner's disk is nearly full: \d+ MiB are free, and 16 MiB must stay free\.$/,
  )
  assert.match(step.output, /^begun\n/)
  await assertRecovered(site)
})

const fast = {
  'goes on': 'cat /dev/zero >huge; yes | head -c 3000000; sleep 4715008',
  'ends by itself': 'cat /dev/zero >huge; yes | head -c 3000000; exit 7',
  'does so with many files':
    'cd; for n in $(seq 40000); do echo >f$n; done 2>&1 | tail -n 1; yes | head -c 3000000',
  'does so in the folder of its files': 'cat /dev/zero >/svc/huge; yes | head -c 3000000; exit 7',
}

for (const [what, script] of Object.entries(fast)) {
  test(`a step that fills the disk quickly, and ${what}, is reported correctly`, {
    ...exhaustive,
    ...options,
    skip,
  }, async () => {
    await using disk = await smallDisk('96m')
    const env = { SVC_FREE_SPACE_MIN: '16MiB' }
    await using site = await startHostileSite(env, join(disk.path, 'data'))
    const { run, step, log } = await site.attack(
      'site',
      `steps: [{ run: 'set +e; echo begun; ${script}' }, { if: always(), run: echo next }]`,
    )
    assert.deepEqual([run.conclusion, step.conclusion, step.exitCode], ['failure', 'failure', null])
    assert.match(step.fault, /^The runner's disk (is nearly full|has space for only)/)
    assert.match(run.result.steps[1].fault, /^The files of the job were removed/)
    assert.match(log, /^begun$/m)
    assert.ok(!log.includes('queued again'))
    await assertRecovered(site)
  })
}
