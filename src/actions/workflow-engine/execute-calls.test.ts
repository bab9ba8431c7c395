import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'
import type { Plan } from './plan.ts'

let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

const callee = `
on:
  workflow_call:
    inputs:
      level: { type: string, default: "\${{ github.ref_name }}-level" }
      size: { type: number, default: 3 }
      fast: { type: boolean }
    outputs:
      built: { value: "\${{ jobs.build.outputs.name }} of \${{ jobs.build.result }}" }
    secrets:
      KEY: { required: true }
env: { OWN: theirs }
jobs:
  build:
    outputs: { name: "\${{ steps.make.outputs.name }}" }
    steps:
      - id: make
        name: make
        run: |
          echo "\${{ inputs.level }} \${{ inputs.size }} \${{ inputs.fast }} \${{ toJSON(inputs.fast) }}"
          echo "$OWN/$CALLER/\${{ github.workflow }}/\${{ github.job }}"
          echo "name=app" >> "$GITHUB_OUTPUT"
  check:
    needs: build
    steps: [{ name: check, run: 'test "$KEY" = hunter22 && test -z "$OTHER"; echo checked' }]
`

function calling(text: string, called: Record<string, string>, plan: Partial<Plan> = {}) {
  const files = Object.entries(called).map(([name, content]) => ({
    path: `.github/workflows/${name}`,
    text: content,
  }))
  return engine.run({ workflows: text, plan: { called: files, ...plan } })
}

test('a job calls a workflow with inputs and secrets, and others need its outputs', async () => {
  const result = await calling(
    `
name: Main
on: push
env: { CALLER: ours }
jobs:
  first: { outputs: { size: 5 }, steps: [{ run: true }] }
  app:
    needs: first
    uses: ./.github/workflows/build.yml
    with: { size: "\${{ needs.first.outputs.size }}", fast: true }
    secrets: { KEY: "\${{ secrets.DEPLOY_KEY }}" }
  publish:
    needs: app
    steps: [{ name: publish, run: 'echo "\${{ needs.app.result }}: \${{ needs.app.outputs.built }}"' }]
`,
    { 'build.yml': callee },
    { secrets: { DEPLOY_KEY: 'hunter22', OTHER: 'more-secret' } },
  )
  assert.equal(result.conclusion, 'success', result.log)
  assert.deepEqual(result.jobConclusions, {
    first: 'success',
    publish: 'success',
    'app / build': 'success',
    'app / check': 'success',
  })
  assert.equal(result.outputOf('make'), 'main-level 5 true true\ntheirs//Main/build\n')
  assert.equal(result.outputOf('check'), 'checked\n')
  assert.equal(result.outputOf('publish'), 'success: app of success\n')
})

test('without "secrets" a called workflow has none, with "inherit" all of the caller', async () => {
  const called = `
on: workflow_call
jobs:
  list: { steps: [{ name: list, run: 'echo "[\${A:+a}\${B:+b}] [\${{ secrets.A && 1 }}\${{ secrets.B && 2 }}]"' }] }
`
  const run = (secrets: string) =>
    calling(
      `secrets: [A]\njobs: { call: { uses: ./.github/workflows/x.yml${secrets} } }`,
      { 'x.yml': called },
      { secrets: { A: 'alpha-value', B: 'beta-value' } },
    )
  assert.equal((await run('')).outputOf('list'), '[] []\n')
  assert.equal((await run(', secrets: inherit')).outputOf('list'), '[a] [1]\n')
})

test('with "inherit" a called workflow has the secrets that it names, also where its caller does not', async () => {
  const called = `
on: workflow_call
jobs:
  list: { steps: [{ name: list, run: 'echo "\${#BETA} $(env | grep -c "^ALP[H]A=")"' }] }
`
  const result = await calling(
    'jobs: { call: { uses: ./.github/workflows/x.yml, secrets: inherit } }',
    { 'x.yml': called },
    { secrets: { ALPHA: 'alpha-value', BETA: 'beta-value' } },
  )
  assert.equal(result.outputOf('list'), '10 0\n')
})

test('a secret in an output of a called workflow is omitted, and derived secrets are masked', async () => {
  const result = await calling(
    `
jobs:
  call:
    uses: ./.github/workflows/x.yml
    with: { text: "\${{ github.actor }}" }
    secrets: { PAIR: "user:\${{ secrets.A }}" }
  after: { needs: call, steps: [{ name: after, run: 'echo "<\${{ needs.call.outputs.leak }}>"' }] }
`,
    {
      'x.yml': `
on:
  workflow_call:
    inputs: { text: { type: string } }
    outputs: { leak: { value: "\${{ inputs.text }}" } }
    secrets: { PAIR: {} }
jobs: { show: { steps: [{ name: show, run: 'echo "$PAIR"' }] } }
`,
    },
    { secrets: { A: 'alpha-value' }, actor: 'alpha-value' },
  )
  assert.equal(result.outputOf('show'), '***\n')
  assert.equal(result.outputOf('after'), '<>\n')
  assert.match(result.log, /call: the output leak is omitted because it contains a secret/)
})

test('a matrix calls a workflow once for each combination, and fails with it', async () => {
  const result = await calling(
    `
jobs:
  call:
    strategy: { matrix: { n: [1, 2] }, fail-fast: false }
    uses: ./.github/workflows/x.yml
    with: { n: "\${{ matrix.n }}" }
  after: { needs: call, steps: [{ run: true }] }
  always: { needs: call, if: always(), steps: [{ name: always, run: 'echo "\${{ needs.call.result }}"' }] }
`,
    {
      'x.yml': `
on: { workflow_call: { inputs: { n: { type: number, required: true } } } }
jobs:
  one: { name: "run \${{ inputs.n }}", steps: [{ run: 'test \${{ inputs.n }} = 1' }] }
  two: { needs: one, strategy: { matrix: { m: [a] } }, steps: [{ run: true }] }
`,
    },
  )
  assert.equal(result.conclusion, 'failure', result.log)
  assert.deepEqual(result.jobConclusions, {
    after: 'skipped',
    always: 'success',
    'call (1) / run 1': 'success',
    'call (2) / run 2': 'failure',
    'call (1) / two (a)': 'success',
    'call (2) / two': 'skipped',
  })
  assert.equal(result.outputOf('always'), 'failure\n')
})

test('calls nest, at most four levels', async () => {
  const level = (next?: string) =>
    next
      ? `on: workflow_call\njobs: { deeper: { uses: ./.github/workflows/${next} } }`
      : 'on: workflow_call\njobs: { last: { steps: [{ run: true }] } }'
  const text = 'jobs: { top: { uses: ./.github/workflows/a.yml } }'
  const called = { 'a.yml': level('b.yml'), 'b.yml': level('c.yml') }
  const fine = await calling(text, { ...called, 'c.yml': level() })
  assert.equal(fine.conclusion, 'success', fine.log)
  assert.deepEqual(Object.keys(fine.jobConclusions), ['top / deeper / deeper / last'])
  const deep = await calling(text, { ...called, 'c.yml': level('d.yml'), 'd.yml': level() })
  assert.equal(deep.conclusion, 'failure')
  assert.match(deep.log, /more than 4 levels/)
  const circle = await calling(text, { 'a.yml': level('a.yml') })
  assert.equal(circle.conclusion, 'failure')
  assert.match(circle.log, /more than 4 levels/)
})

test('a skipped call is one job, and an unfit input fails it', async () => {
  const called = {
    'x.yml':
      'on: { workflow_call: { inputs: { n: { type: number } } } }\njobs: { a: { steps: [{ run: true }] } }',
  }
  const skipped = await calling(
    'jobs: { call: { if: false, uses: ./.github/workflows/x.yml } }',
    called,
  )
  assert.deepEqual(skipped.jobConclusions, { call: 'skipped' })
  assert.equal(skipped.conclusion, 'success')
  const text =
    'jobs: { call: { uses: ./.github/workflows/x.yml, with: { n: "${{ github.ref }}" } } }'
  const unfit = await calling(text, called)
  assert.deepEqual(unfit.jobConclusions, { call: 'failure' })
  assert.match(unfit.log, /"n" must be a number/)
})

test('a cancellation ends the jobs of a called workflow, except those with always()', async () => {
  const cancellation = new AbortController()
  const result = await engine.run({
    workflows: 'jobs: { call: { uses: ./.github/workflows/x.yml } }',
    plan: {
      called: [
        {
          path: '.github/workflows/x.yml',
          text: `
on: workflow_call
jobs:
  slow: { steps: [{ run: 'echo started; sleep 60' }] }
  last: { needs: slow, if: always(), steps: [{ name: last, run: echo last }] }
  never: { needs: slow, steps: [{ run: true }] }
`,
        },
      ],
    },
    signal: cancellation.signal,
    onEntry(entry) {
      if (entry.kind === 'output' && entry.text.includes('started')) cancellation.abort('Stop.')
    },
  })
  assert.equal(result.conclusion, 'cancelled')
  assert.deepEqual(result.jobConclusions, {
    'call / slow': 'cancelled',
    'call / last': 'success',
    'call / never': 'skipped',
  })
})

test('jobs of a called workflow are reused by their names', async () => {
  const job = { file: '.svc/workflows/ci.yml', conclusion: 'success', matrix: '' } as const
  const result = await calling(
    `
jobs:
  call: { uses: ./.github/workflows/x.yml }
  after: { needs: call, steps: [{ name: after, run: 'echo "\${{ needs.call.outputs.v }}"' }] }
`,
    {
      'x.yml': `
on: { workflow_call: { outputs: { v: { value: "\${{ jobs.a.outputs.v }}" } } } }
jobs: { a: { outputs: { v: new }, steps: [{ run: exit 1 }] } }
`,
    },
    { kept: [{ ...job, id: 'call/a', name: 'call / a', outputs: { v: 'old' } }] },
  )
  assert.equal(result.conclusion, 'success', result.log)
  assert.equal(result.outputOf('after'), 'old\n')
})

test('jobs that no runner can run are skipped, with those that need them, and are not evaluated', async () => {
  const result = await calling(
    `
on: push
jobs:
  contained:
    name: in a container
    container: node:22
    strategy: { matrix: { n: "\${{ fromJSON(github.ref) }}" } }
    steps: [{ run: true }]
  after: { needs: contained, steps: [{ run: true }] }
  always: { needs: contained, if: always(), steps: [{ name: always, run: 'echo \${{ needs.contained.result }}' }] }
  acting: { steps: [{ uses: ./outer }] }
  partly:
    strategy: { matrix: { on: [{ image: alpine }, { n: 1 }] } }
    name: partly \${{ matrix.on.image }}
    container: { image: "\${{ matrix.on.image }}" }
    steps: [{ run: true }]
  elsewhere: { uses: a/b/.github/workflows/c.yml@v1 }
  call: { uses: ./.github/workflows/partly.yml }
`,
    {
      'partly.yml':
        'on: workflow_call\njobs: { a: { services: { b: {} }, steps: [{ run: true }] }, c: { steps: [{ run: true }] } }',
    },
    {
      actions: [
        {
          path: 'outer/action.yml',
          text: 'runs: { using: composite, steps: [{ uses: ./inner }] }',
        },
        { path: 'inner/action.yml', text: 'runs: { using: docker, image: Dockerfile }' },
      ],
    },
  )
  assert.equal(result.conclusion, 'success', result.log)
  assert.deepEqual(result.jobConclusions, {
    'in a container': 'skipped',
    after: 'skipped',
    always: 'success',
    acting: 'skipped',
    'partly alpine': 'skipped',
    partly: 'success',
    elsewhere: 'skipped',
    'call / a': 'skipped',
    'call / c': 'success',
  })
  assert.equal(result.outputOf('always'), 'skipped\n')
  assert.match(result.log, /in a container \| ■ skipped: Jobs do not run in containers\./)
  assert.match(result.log, /acting \| ■ skipped: Actions that use "docker" are not supported\./)
})

test('jobs for other systems are skipped, with those that need them', async () => {
  const result = await engine.run({
    workflows: `
on: push
jobs:
  test:
    strategy: { matrix: { os: [ubuntu-latest, windows-2022, macos-14] } }
    runs-on: \${{ matrix.os }}
    steps: [{ run: true }]
  mac: { runs-on: [self-hosted, macOS], steps: [{ run: true }] }
  after: { needs: test, runs-on: ubuntu-latest, steps: [{ run: true }] }
  release: { needs: [test, mac], runs-on: ubuntu-latest, steps: [{ run: true }] }
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.deepEqual(result.jobConclusions, {
    'test (ubuntu-latest)': 'success',
    'test (windows-2022)': 'skipped',
    'test (macos-14)': 'skipped',
    mac: 'skipped',
    after: 'success',
    release: 'skipped',
  })
  assert.match(result.log, /test \(windows-2022\) \| ■ skipped: no runner has windows-2022/)
})
