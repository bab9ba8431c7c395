import assert from 'node:assert/strict'
import { chmod, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../support/condition.ts'
import { exhaustive } from '../support/exhaustive.ts'
import { processesNaming } from '../support/processes.ts'
import { createRandom } from '../support/random.ts'
import { endOf, outputOf } from '../support/runner.ts'
import type { Mishap, ServedRun } from '../support/runner-server.ts'
import { startRunnerSite } from '../support/runner-site.ts'

test('a run is claimed, executed and reported in order', async () => {
  await using site = await startRunnerSite()
  const run = await site.queue(`
steps:
  - name: Greet
    run: echo "hello from $GITHUB_REF_NAME"; cat readme.txt; echo; git status --short --branch
  - run: exit 3
`)
  const end = await ended(run)
  assert.equal(end.conclusion, 'failure')
  assert.equal(outputOf(run.entries), 'hello from main\nreadme.txt\n## main...origin/main\n')
  const steps = run.entries.filter((entry) => entry.kind === 'step-ended')
  assert.deepEqual(
    steps.map(({ conclusion, exitCode }) => [conclusion, exitCode]),
    [
      ['success', 0],
      ['failure', 3],
    ],
  )
  assert.deepEqual(site.server.faults, [])
})

test('nothing is lost or repeated when connections break', exhaustive, async () => {
  const random = createRandom(5)
  const mishap = ({ path }: { path: string }): Mishap | undefined => {
    if (path === '/runner/claim' || random.chance(0.5)) return undefined
    return random.pick<Mishap>(['cut', 'mute', { status: 502 }, { status: 503 }])
  }
  await using site = await startRunnerSite({ server: { mishap } })
  const run = await site.queue(`
steps:
  - run: for n in $(seq 300); do echo "line $n"; sleep 0.01; done
`)
  assert.equal((await ended(run)).conclusion, 'success')
  const lines = Array.from({ length: 300 }, (_, n) => `line ${n + 1}\n`)
  assert.equal(outputOf(run.entries), lines.join(''))
  assert.equal(run.claims, 1)
  assert.deepEqual(site.server.faults, [])
})

test('a run that is taken back is ended, and the runner continues with the next', async () => {
  await using site = await startRunnerSite()
  const run = await site.queue('steps: [{ run: echo begun; exec sleep 4711001 }]')
  await until('it has begun', () => outputOf(run.entries) === 'begun\n')
  run.token = ''
  run.state = 'completed'
  await until('its step has ended', () => processesNaming('4711001').length === 0)
  const next = await site.queue('steps: [{ run: echo next }]')
  assert.equal((await ended(next)).conclusion, 'success')
  assert.equal(endOf(run.entries), undefined)
  assert.deepEqual(run.releases, [])
  assert.match(site.runner.log(), /"run lost"/)
})

test('a run is cancelled when the server says so', async () => {
  await using site = await startRunnerSite()
  const run = await site.queue('steps: [{ run: echo begun; sleep 4711002 }]')
  await until('it has begun', () => outputOf(run.entries) === 'begun\n')
  run.cancel = 'Cancelled by ada.'
  const end = await ended(run)
  assert.equal(end.conclusion, 'cancelled')
  assert.match(end.fault, /Cancelled by ada\./)
  assert.deepEqual(processesNaming('4711002'), [])
})

test('a run that is killed ends at once', async () => {
  await using site = await startRunnerSite()
  const run = await site.queue(`
steps:
  - run: trap '' TERM; echo begun; while true; do sleep 1; done
  - if: always()
    run: sleep 4711003
`)
  await until('it has begun', () => outputOf(run.entries) === 'begun\n')
  run.kill = true
  run.cancel = 'The repository was deleted.'
  assert.equal((await ended(run)).conclusion, 'cancelled')
  const started = run.entries.filter(({ kind }) => kind === 'step-started')
  assert.equal(started.length, 1)
})

test('a missing commit is reported', async () => {
  await using site = await startRunnerSite()
  const commit = 'e'.repeat(40)
  const run = await site.queue('steps: [{ run: echo never }]', { commit })
  const end = await ended(run)
  assert.equal(end.conclusion, 'failure')
  const faults = run.entries.map((entry) => ('fault' in entry ? entry.fault : '')).join('\n')
  assert.match(faults, /The commit e{40} could not be fetched: The commit is gone\./)
  assert.equal(outputOf(run.entries), '')
})

test('an invalid pack is reported', async () => {
  await using site = await startRunnerSite()
  site.server.breakSources(Buffer.from('PACK and then nothing'))
  const run = await site.queue('steps: [{ run: echo never }]')
  await ended(run)
  const faults = run.entries.map((entry) => ('fault' in entry ? entry.fault : '')).join('\n')
  assert.match(faults, /could not be checked out: .*pack/)
})

test("files are checked out as committed, regardless of the machine's git configuration", async () => {
  await using site = await startRunnerSite()
  const { path } = site.project
  await writeFile(join(path, 'run.sh'), '#!/bin/sh\necho it runs\n')
  await chmod(join(path, 'run.sh'), 0o755)
  await symlink('run.sh', join(path, 'link'))
  await site.project.git('add', '.')
  await site.project.commit('.gitattributes', '* filter=strange\n*.txt text eol=crlf\n')
  const run = await site.queue(
    `
steps:
  - run: |
      ./link
      readlink link
      git symbolic-ref -q HEAD || echo detached
      git describe --tags
      git status --short
      git config remote.origin.url
      git log --format=%s
      ls .git
`,
    { ref: 'refs/tags/v1' },
  )
  assert.equal((await ended(run)).conclusion, 'success')
  assert.equal(
    outputOf(run.entries),
    [
      'it runs',
      'run.sh',
      'detached',
      'v1',
      'https://git.example/repos/site.git',
      'Add .gitattributes',
      'HEAD',
      'config',
      'index',
      'objects',
      'packed-refs',
      'refs',
      'shallow',
      '',
    ].join('\n'),
  )
})

test('each job has the files, and all jobs of all runs share the limit', async () => {
  await using site = await startRunnerSite({ args: ['--jobs', '2'] })
  const text = `
on: workflow_dispatch
jobs:
  count:
    runs-on: ubuntu-latest
    strategy: { matrix: { n: [1, 2, 3] } }
    steps:
      - uses: actions/checkout@v4
      - run: cat readme.txt && touch readme.txt.$RANDOM && ls | wc -l
`
  const runs = [await site.queue(text), await site.queue(text), await site.queue(text)]
  for (const run of runs) {
    assert.equal((await ended(run)).conclusion, 'success')
    assert.equal(outputOf(run.entries).match(/^readme\.txt2$/gm)?.length, 3)
  }
})

test('jobs can require labels of the runner', async () => {
  await using site = await startRunnerSite({ args: ['--label', 'gpu', 'big', '--name', 'den'] })
  const text = (label: string) => `
on: workflow_dispatch
jobs:
  one:
    runs-on: [self-hosted, ${label}]
    steps: [{ run: echo "on $RUNNER_NAME" }]
`
  const [good, bad] = [await site.queue(text('gpu')), await site.queue(text('tpu'))]
  assert.equal((await ended(good)).conclusion, 'success')
  assert.equal(outputOf(good.entries), 'on den\n')
  assert.equal((await ended(bad)).conclusion, 'failure')
})

function ended(run: ServedRun) {
  return until('the run has ended', () => endOf(run.entries))
}
