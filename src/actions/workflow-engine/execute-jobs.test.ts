import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'
import type { RunEntry } from './plan.ts'

let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

test('a failure skips dependent jobs, except those with a status function', async () => {
  const result = await engine.run({
    workflows: `
on: push
jobs:
  test: { runs-on: ubuntu-latest, steps: [{ run: exit 1 }] }
  build: { needs: test, runs-on: ubuntu-latest, steps: [{ run: echo no }] }
  release: { needs: build, runs-on: ubuntu-latest, steps: [{ run: echo no }] }
  report:
    needs: [test, release]
    if: always()
    runs-on: ubuntu-latest
    steps:
      - name: report
        run: echo "\${{ needs.test.result }} \${{ needs.release.result }} \${{ toJSON(needs.release.outputs) }}"
  alarm: { needs: release, if: failure(), runs-on: ubuntu-latest, steps: [{ run: echo alarm }] }
  usual: { runs-on: ubuntu-latest, steps: [{ run: echo fine }] }
  cleanup: { needs: test, if: "!cancelled()", runs-on: ubuntu-latest, steps: [{ run: echo clean }] }
`,
  })
  assert.equal(result.conclusion, 'failure', result.log)
  assert.deepEqual(result.jobConclusions, {
    test: 'failure',
    build: 'skipped',
    release: 'skipped',
    report: 'success',
    alarm: 'success',
    usual: 'success',
    cleanup: 'success',
  })
  assert.equal(result.outputOf('report'), 'failure skipped {}\n')
})

test('the matrix and the name of a skipped job are not evaluated', async () => {
  const result = await engine.run({
    workflows: `
on: push
jobs:
  list: { if: false, runs-on: ubuntu-latest, outputs: { v: no }, steps: [{ run: true }] }
  build:
    needs: list
    name: build \${{ fromJSON(needs.list.outputs.v).name }}
    runs-on: ubuntu-latest
    strategy: { matrix: { v: "\${{ fromJSON(needs.list.outputs.v) }}" } }
    steps: [{ run: true }]
  never:
    if: github.event_name == 'schedule'
    name: never at all
    runs-on: ubuntu-latest
    strategy: { matrix: { v: "\${{ fromJSON(github.event.versions) }}" } }
    steps: [{ run: true }]
  known: { if: false, runs-on: ubuntu-latest, strategy: { matrix: { n: [1, 2] } }, steps: [{ run: true }] }
  many: { needs: list, runs-on: ubuntu-latest, strategy: { matrix: { n: [1, 2] } }, steps: [{ run: true }] }
  after: { needs: build, if: always(), runs-on: ubuntu-latest, steps: [{ name: after, run: 'echo \${{ needs.build.result }}' }] }
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.deepEqual(result.jobConclusions, {
    list: 'skipped',
    'never at all': 'skipped',
    known: 'skipped',
    after: 'success',
    build: 'skipped',
    many: 'skipped',
  })
  assert.equal(result.outputOf('after'), 'skipped\n')
})

test('jobs are reported after those of a matrix that they need', async () => {
  const result = await engine.run({
    workflows: `
on: push
jobs:
  check: { runs-on: ubuntu-latest, steps: [{ run: exit 0 }] }
  test: { needs: check, runs-on: ubuntu-latest, strategy: { matrix: { n: [1, 2] } }, steps: [{ run: exit 1 }] }
  deploy: { needs: test, runs-on: ubuntu-latest, steps: [{ run: exit 0 }] }
  announce: { needs: deploy, runs-on: ubuntu-latest, steps: [{ run: exit 0 }] }
  lint: { needs: check, runs-on: ubuntu-latest, steps: [{ run: exit 0 }] }
  report: { needs: [test, lint], if: always(), runs-on: ubuntu-latest, steps: [{ run: exit 0 }] }
`,
  })
  assert.equal(result.conclusion, 'failure', result.log)
  const names = result.jobs.map(({ name }) => name)
  const expected = ['check', 'lint', 'test (1)', 'test (2)', 'deploy', 'announce', 'report']
  assert.deepEqual(names, expected)
})

test('a matrix runs its combinations, with include, and passes on the outputs of the last', async () => {
  const result = await engine.run({
    workflows: `
on: push
jobs:
  build:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        node: [18, 20]
        os: [linux, mac]
        exclude: [{ node: 18, os: mac }]
        include: [{ node: 20, extra: yes }, { node: 22, os: linux }]
    outputs: { last: "\${{ matrix.node }}" }
    steps:
      - name: show
        run: echo "\${{ matrix.node }}-\${{ matrix.os }}-\${{ matrix.extra }} \${{ strategy.job-index }}/\${{ strategy.job-total }}"
  named:
    needs: build
    name: named \${{ needs.build.result }}
    runs-on: ubuntu-latest
    strategy: { matrix: { n: "\${{ fromJSON('[1,2]') }}" }, max-parallel: 1 }
    steps: [{ run: true }]
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.deepEqual(
    result.jobs.map(({ name }) => name),
    [
      'build (18, linux)',
      'build (20, linux)',
      'build (20, mac)',
      'build (22, linux)',
      'named success',
      'named success',
    ],
  )
  const shown = result.outputOf('show').split('\n').sort().slice(1)
  assert.deepEqual(shown, ['18-linux- 0/4', '20-linux-yes 1/4', '20-mac-yes 2/4', '22-linux- 3/4'])
})

test('a failed job of a matrix cancels the others, unless fail-fast is false', async () => {
  const matrix = (failFast: boolean) => `
on: push
jobs:
  build:
    runs-on: ubuntu-latest
    strategy: { fail-fast: ${failFast}, matrix: { wait: [0, ${failFast ? 100 : 1}] } }
    steps:
      - run: sleep \${{ matrix.wait }}; test \${{ matrix.wait }} != 0
`
  const fast = await engine.run({ workflows: matrix(true) })
  assert.equal(fast.conclusion, 'failure', fast.log)
  assert.deepEqual(fast.jobConclusions, { 'build (0)': 'failure', 'build (100)': 'cancelled' })
  const slow = await engine.run({ workflows: matrix(false) })
  assert.deepEqual(slow.jobConclusions, { 'build (0)': 'failure', 'build (1)': 'success' })
})

test('a job with continue-on-error does not fail the run, and dependent jobs run', async () => {
  const result = await engine.run({
    workflows: `
on: push
jobs:
  try:
    runs-on: ubuntu-latest
    continue-on-error: \${{ matrix.experimental }}
    strategy: { fail-fast: true, matrix: { experimental: [true] } }
    steps: [{ run: exit 1 }]
  after: { needs: try, runs-on: ubuntu-latest, steps: [{ name: after, run: 'echo \${{ needs.try.result }}' }] }
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.deepEqual(result.jobConclusions, { 'try (true)': 'failure', after: 'success' })
  assert.equal(result.outputOf('after'), 'success\n')
})

/** Options of a run that is cancelled as soon as a step prints `begun`. */
function cancelledWhenBegun(reason: string) {
  const cancel = new AbortController()
  return {
    signal: cancel.signal,
    onEntry(entry: RunEntry) {
      if (entry.kind === 'output' && entry.text.includes('begun')) cancel.abort(reason)
    },
  }
}

test('a cancellation ends running steps, and always() steps still run', async () => {
  const result = await engine.run({
    ...cancelledWhenBegun('Ada cancelled it.'),
    workflows: `
on: push
jobs:
  long:
    runs-on: ubuntu-latest
    steps:
      - { name: long, run: echo begun; sleep 100 }
      - { name: usual, run: echo no }
      - { name: cleanup, if: cancelled(), run: 'echo cleaned, \${{ job.status }}' }
  after: { needs: long, runs-on: ubuntu-latest, steps: [{ run: echo no }] }
  report: { needs: long, if: always(), runs-on: ubuntu-latest, steps: [{ name: report, run: 'echo \${{ needs.long.result }}' }] }
`,
  })
  assert.equal(result.conclusion, 'cancelled', result.log)
  assert.equal(result.fault, 'Ada cancelled it.')
  assert.deepEqual(result.stepConclusions, {
    long: 'cancelled',
    usual: 'skipped',
    cleanup: 'success',
    'Run echo no': 'skipped',
    report: 'success',
  })
  assert.equal(result.outputOf('cleanup'), 'cleaned, cancelled\n')
  assert.equal(result.outputOf('report'), 'cancelled\n')
  assert.deepEqual(result.jobConclusions, {
    long: 'cancelled',
    after: 'skipped',
    report: 'success',
  })
})

test('a step that would go on for what it has written meanwhile is cancelled', async () => {
  const result = await engine.run({
    ...cancelledWhenBegun('Enough.'),
    workflows: `
on: push
jobs:
  long:
    runs-on: ubuntu-latest
    steps:
      - name: long
        if: always() && (success() || hashFiles('new') != '')
        run: echo x > new; echo begun; sleep 100
`,
  })
  assert.deepEqual(result.stepConclusions, { long: 'cancelled' }, result.log)
})

test('a second cancellation ends everything at once', async () => {
  const [cancel, kill] = [new AbortController(), new AbortController()]
  const result = await engine.run({
    signal: cancel.signal,
    kill: kill.signal,
    onEntry(entry) {
      if (entry.kind !== 'output') return
      if (entry.text.includes('first')) cancel.abort('Enough.')
      if (entry.text.includes('second')) kill.abort('Enough!')
    },
    workflows: `
steps:
  - { name: first, run: echo first; sleep 100 }
  - { name: second, if: always(), run: "trap '' TERM; echo second; sleep 100" }
  - { name: third, if: always(), run: echo no }
`,
  })
  assert.equal(result.conclusion, 'cancelled', result.log)
  assert.deepEqual(result.stepConclusions, {
    first: 'cancelled',
    second: 'cancelled',
    third: 'skipped',
  })
})

test('a run that takes too long is timed out', async () => {
  const limits = { runTimeoutMs: 400, stepTimeoutMs: 60_000, outputMaxBytes: 10_000 }
  const result = await engine.run({
    plan: { limits },
    workflows: 'steps:\n  - { name: long, run: sleep 100 }\n',
  })
  assert.equal(result.conclusion, 'timed_out', result.log)
  assert.equal(result.fault, 'The run exceeded its time limit of 0.4 seconds.')
})

test('jobs of an earlier attempt are reused with their outputs', async () => {
  const file = '.svc/workflows/ci.yml'
  const matrix = (n: number) => JSON.stringify({ n }, null, 2)
  const result = await engine.run({
    plan: {
      kept: [
        { file, id: 'a', name: 'a', conclusion: 'success', outputs: { x: '1' }, matrix: '' },
        { file, id: 'b', name: 'b (1)', conclusion: 'success', outputs: {}, matrix: matrix(1) },
      ],
    },
    workflows: `
on: push
jobs:
  a: { runs-on: ubuntu-latest, outputs: { x: no }, steps: [{ run: exit 1 }] }
  b: { runs-on: ubuntu-latest, strategy: { matrix: { n: [1, 2] } }, steps: [{ run: 'test \${{ matrix.n }} = 2' }] }
  c: { needs: [a, b], runs-on: ubuntu-latest, steps: [{ name: c, run: 'echo \${{ needs.a.outputs.x }}' }] }
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.equal(result.outputOf('c'), '1\n')
  const started = result.entries.filter(({ kind }) => kind === 'job-started')
  assert.equal(started.length, 2)
})

test('several files run concurrently, and an invalid one prevents all from running', async () => {
  const good = 'steps:\n  - run: echo fine\n'
  const result = await engine.run({ workflows: { 'a.yml': good, 'b.yml': good } })
  assert.equal(result.conclusion, 'success')
  assert.equal(result.jobs.length, 2)
  const bad = await engine.run({ workflows: { 'a.yml': good, 'b.yml': 'step: []\n' } })
  assert.equal(bad.conclusion, 'failure')
  assert.match(bad.fault ?? '', /^\.svc\/workflows\/b\.yml:1:1: /)
  assert.equal(bad.jobs.length, 0)
})

test('a missing label is reported with the existing ones', async () => {
  const jobs = (label: string) => `
on: push
jobs:
  a: { runs-on: [self-hosted, "${label}"], steps: [{ run: true }] }
`
  const result = await engine.run({ workflows: jobs('tpu'), labels: ['gpu'] })
  assert.equal(result.conclusion, 'failure')
  assert.match(result.jobs[0]?.fault ?? '', /does not have the label tpu; it has gpu/)
  const fine = await engine.run({ workflows: jobs('GPU'), labels: ['gpu'] })
  assert.equal(fine.conclusion, 'success', fine.log)
})

test('no more jobs run concurrently than are allowed', async () => {
  let [running, most] = [0, 0]
  const result = await engine.run({
    maxJobs: 2,
    onEntry({ kind }) {
      if (kind === 'job-started') most = Math.max(most, ++running)
      if (kind === 'job-ended') running--
    },
    workflows: `
on: push
jobs:
  a: { runs-on: ubuntu-latest, strategy: { matrix: { n: [1, 2, 3, 4, 5] } }, steps: [{ run: sleep 0.1 }] }
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.equal(most, 2)
})

test('when reporting fails, the run ends', async () => {
  const deaf = new Error('the lease is lost')
  const run = engine.run({
    onEntry(entry) {
      if (entry.kind === 'output') throw deaf
    },
    workflows: "steps:\n  - run: trap '' TERM; echo begun; sleep 100\n",
  })
  await assert.rejects(run, deaf)
})

test('an expression in place of a mapping gives its names and values', async () => {
  const result = await engine.run({
    workflows: `
on: push
jobs:
  list:
    outputs: { strategy: "\${{ steps.list.outputs.strategy }}" }
    steps:
      - id: list
        run: echo 'strategy={"matrix":{"Size":["small","LARGE"],"exclude":[{"size":"large"}]}}' >> "$GITHUB_OUTPUT"
  build:
    needs: list
    runs-on: { labels: [ubuntu-latest, 64] }
    strategy: "\${{ fromJSON(needs.list.outputs.strategy) }}"
    steps: [{ name: size, run: 'echo \${{ matrix.size }}' }]
  env:
    strategy: { matrix: { env: [{ A: one, B: 2 }, ~] } }
    env: "\${{ matrix.env }}"
    steps:
      - run: ""
      - { name: env, run: 'echo "<$A$B$C>"', env: '\${{ fromJSON(''{"C":null}'') }}' }
      - { uses: ./show, with: "\${{ matrix.env }}" }
  wrong:
    env: "\${{ github.ref }}"
    steps: [{ run: true }]
`,
    labels: ['64'],
    actions: {
      show: 'inputs: { a: {} }\nruns: { using: composite, steps: [{ name: show, shell: bash, run: "echo [${{ inputs.a }}]" }] }',
    },
  })
  assert.equal(result.conclusion, 'failure', result.log)
  assert.deepEqual(result.jobConclusions, {
    list: 'success',
    'build (small)': 'success',
    'env (one, 2)': 'success',
    env: 'success',
    wrong: 'failure',
  })
  assert.equal(result.outputOf('size'), 'small\n')
  assert.deepEqual(result.outputOf('env').split('\n').sort(), ['', '<>', '<one2>'])
  assert.match(result.log, /wrong \| ✗ .*is not an object of names and texts/)
})
