import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'
import { without } from '../../../test/support/programs.ts'

const skip = without('bubblewrap') || without('python')
let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

/** A job of these steps. */
function job(steps: string, more = ''): string {
  return `on: push\njobs:\n  build:\n    runs-on: ubuntu-latest\n${more}    steps:\n${steps.replace(/^\n/, '')}`
}

test('after a failure only steps with a status function run, and the job fails', async () => {
  const result = await engine.run({
    workflows: job(`
      - name: fails
        run: exit 3
      - name: usual
        run: echo no
      - name: always
        if: always()
        run: echo status \${{ job.status }}
      - name: on failure
        if: failure() && github.ref_name == 'main'
        run: echo failed
      - name: on success
        if: success()
        run: echo no
`),
  })
  assert.equal(result.conclusion, 'failure')
  assert.deepEqual(result.stepConclusions, {
    fails: 'failure',
    usual: 'skipped',
    always: 'success',
    'on failure': 'success',
    'on success': 'skipped',
  })
  assert.equal(result.outputOf('always'), 'status failure\n')
  assert.equal(result.steps[0]?.exitCode, 3)
  assert.match(result.log, /✗ exit code 3\n/)
})

test('a failure with continue-on-error does not fail the job, and is visible in outcome', async () => {
  const result = await engine.run({
    workflows: job(`
      - name: flaky
        id: flaky
        continue-on-error: true
        run: exit 1
      - name: after
        run: echo \${{ steps.flaky.outcome }} \${{ steps.flaky.conclusion }}
`),
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.equal(result.outputOf('after'), 'failure success\n')
  assert.equal(result.steps[0]?.conclusion, 'success')
  assert.equal(result.steps[0]?.exitCode, 1)
})

test('variables, PATH directories and outputs are passed between steps', async () => {
  const result = await engine.run({
    workflows: `
env:
  A: workflow
  B: workflow
  C: workflow
jobs:
  build:
    env: { B: job, C: job, D: "\${{ github.actor }}-job" }
    steps:
      - name: first
        env: { C: step }
        run: |
          echo "$A $B $C $D"
          echo B=file >> "$GITHUB_ENV"
          echo C=file >> "$GITHUB_ENV"
          printf 'LONG<<EOF\\none\\ntwo\\nEOF\\n' >> "$GITHUB_ENV"
          mkdir -p tools
          printf '#!/bin/sh\\necho tool runs\\n' > tools/my-tool
          chmod +x tools/my-tool
          echo "$PWD/tools" >> "$GITHUB_PATH"
          echo GITHUB_SHA=other >> "$GITHUB_ENV"
          echo '# Done' >> "$GITHUB_STEP_SUMMARY"
      - name: second
        env: { C: again }
        run: |
          echo "$A $B $C $LONG \${{ env.B }}"
          my-tool
          echo "$GITHUB_SHA $CI $GITHUB_ACTIONS $GITHUB_REPOSITORY $RUNNER_OS $SVC_COMMIT $GITHUB_JOB"
on: push
`,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.match(result.outputOf('first'), /^workflow job step ada-job\n/)
  assert.match(result.outputOf('first'), /GITHUB_SHA cannot be changed/)
  const commit = 'c'.repeat(40)
  assert.equal(
    result.outputOf('second'),
    `workflow file again one\ntwo file\ntool runs\n${commit} true true ada/site Linux ${commit} build\n`,
  )
  assert.equal(result.steps[0]?.summary, '# Done\n')
})

test('an invalid environment file fails its step with the line', async () => {
  const result = await engine.run({
    workflows: job(`
      - name: bad
        run: echo word >> "$GITHUB_OUTPUT"
      - name: options
        if: always()
        run: echo NODE_OPTIONS=--x >> "$GITHUB_ENV"
      - name: linked
        if: always()
        run: ln -sf /etc/passwd "$GITHUB_OUTPUT"
      - name: piped
        if: always()
        run: rm "$GITHUB_ENV" && mkfifo "$GITHUB_ENV"
      - name: large
        if: always()
        run: head -c 1100000 /dev/zero > "$GITHUB_OUTPUT"
      - name: gone
        if: always()
        run: rm "$GITHUB_ENV" "$GITHUB_OUTPUT"
`),
  })
  assert.equal(result.conclusion, 'failure')
  const faults = Object.fromEntries(result.steps.map(({ name, fault }) => [name, fault]))
  assert.match(faults.bad ?? '', /^\$GITHUB_OUTPUT, line 1: `word` is neither/)
  assert.match(faults.options ?? '', /^NODE_OPTIONS cannot be set/)
  assert.match(faults.linked ?? '', /no longer a regular file/)
  assert.match(faults.piped ?? '', /no longer a regular file/)
  assert.match(faults.large ?? '', /larger than/)
  assert.equal(faults.gone, '')
})

test('a variable that is too long is named', async () => {
  const result = await engine.run({
    workflows: job(`
      - name: set
        run: printf 'BIG=%s\\n' "$(head -c 200000 /dev/zero | tr '\\0' x)" >> "$GITHUB_ENV"
      - name: get
        run: echo no
`),
  })
  assert.equal(result.conclusion, 'failure', result.log)
  assert.match(result.steps[1]?.fault ?? '', /^The variable BIG exceeds 128 KiB/)
})

test('variables that no process can have are named', { skip }, async () => {
  const set = (text: string) => `
      - name: set
        run: ${text}
      - name: get
        run: echo "$COUNT"
`
  const many = `for n in $(seq 30); do printf 'BIG%s=%s\\n' $n "$(head -c 100000 /dev/zero | tr '\\0' x)"; done > all; head -c 1000000 all >> "$GITHUB_ENV"; exit 0`
  const cases: [script: string, fault: RegExp][] = [
    [`printf 'A=x\\0y\\n' >> "$GITHUB_ENV"`, /^\$GITHUB_ENV, line 1: the value holds a NUL/],
    [
      `printf 'A<<E\\nx\\0y\\nE\\n' >> "$GITHUB_ENV"`,
      /^\$GITHUB_ENV, line 1: the value holds a NUL/,
    ],
    [`printf 'a\\n/b\\0\\n' >> "$GITHUB_PATH"`, /^\$GITHUB_PATH, line 2: the folder holds a NUL/],
  ]
  for (const [script, fault] of cases) {
    const result = await engine.run({ workflows: job(set(JSON.stringify(script))) })
    assert.match(result.steps[0]?.fault ?? result.log, fault)
  }
  const result = await engine.run({
    workflows: job(`
      - run: ${JSON.stringify(many)}
      - run: ${JSON.stringify(many.replaceAll('BIG', 'GREAT'))}
      - name: get
        run: echo no
`),
  })
  const last = result.steps.find(({ conclusion }) => conclusion === 'failure')
  assert.match(
    last?.fault ?? result.log,
    /^The \d+ variables of the step have \d+ bytes; .* The largest are (BIG|GREAT)\d+, /,
  )
})

test('shells and working directories are those requested', { skip }, async () => {
  const result = await engine.run({
    files: { 'sub/x.txt': 'x' },
    workflows: job(
      `
      - name: defaults
        run: ls; echo \${BASH_VERSION:+bash}
      - name: pipe
        continue-on-error: true
        run: 'false | true'
      - name: strict
        shell: bash
        continue-on-error: true
        run: 'false | true'
      - name: plain
        shell: sh
        working-directory: ..
        run: pwd
      - name: python
        shell: python
        run: |
          import os
          print(os.environ["HOME"])
      - name: custom
        shell: awk -f {0}
        run: BEGIN { print 6 * 7 }
      - name: nowhere
        continue-on-error: true
        working-directory: none
        run: pwd
      - name: nothing
        shell: no-such-shell {0}
        run: x
`,
      '    defaults: { run: { working-directory: sub } }\n',
    ),
  })
  assert.equal(result.conclusion, 'failure', result.log)
  assert.equal(result.outputOf('defaults'), 'x.txt\nbash\n')
  assert.deepEqual(
    result.steps.slice(1, 3).map(({ exitCode }) => exitCode),
    [0, 1],
  )
  assert.equal(result.outputOf('plain'), '/\n')
  assert.equal(result.outputOf('python'), '/home/runner\n')
  assert.equal(result.outputOf('custom'), '42\n')
  assert.match(result.steps[6]?.fault ?? '', /^The working directory \S+\/none does not exist/)
  assert.match(result.steps[7]?.fault ?? '', /no-such-shell was not found/)
})

test('a composite action has its own inputs, outputs and steps', { skip }, async () => {
  const result = await engine.run({
    actions: {
      '.github/actions/greet': `
name: Greet
inputs:
  who: { description: whom, required: true }
  word: { default: "hello from \${{ github.ref_name }}" }
outputs:
  said: { value: "\${{ steps.say.outputs.text }}" }
runs:
  using: composite
  steps:
    - name: say
      id: say
      shell: bash
      run: |
        echo "text=\${{ inputs.word }}, $INPUT_WHO ($OUTER)" >> "$GITHUB_OUTPUT"
        echo "$GITHUB_ACTION_PATH"
    - uses: ./.github/actions/inner
      with: { n: 2 }
`,
      '.github/actions/inner': `
name: Inner
inputs: { n: {} }
runs:
  using: composite
  steps:
    - name: count
      shell: bash
      run: echo "n is \${{ inputs.n }}" && echo FROM_INNER=yes >> "$GITHUB_ENV"
`,
    },
    workflows: job(`
      - uses: actions/checkout@v4
      - name: Greet
        id: greet
        uses: ./.github/actions/greet
        env: { OUTER: outer }
        with: { who: Ada }
      - name: after
        run: echo "\${{ steps.greet.outputs.said }} $FROM_INNER \${{ steps.greet.outcome }}"
`),
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.deepEqual(Object.keys(result.stepConclusions), [
    'Run actions/checkout',
    'Greet / say',
    'Greet / Run ./.github/actions/inner / count',
    'after',
  ])
  assert.equal(result.outputOf('Greet / say'), '/workspace/.github/actions/greet\n')
  assert.equal(result.outputOf('Greet / Run ./.github/actions/inner / count'), 'n is 2\n')
  assert.equal(result.outputOf('after'), 'hello from main, Ada (outer) yes success\n')
})

test('a failure in an action skips the rest of it, and fails the step that uses it', async () => {
  const action = `
name: Fails
runs:
  using: composite
  steps:
    - { name: one, shell: bash, run: exit 4 }
    - { name: two, shell: bash, run: echo no }
    - { name: three, if: failure(), shell: bash, run: echo cleaned }
`
  const result = await engine.run({
    actions: { act: action },
    workflows: job(`
      - { name: passed, id: passed, uses: ./act, continue-on-error: true }
      - { name: used, uses: ./act }
      - { name: after, run: echo no }
      - { name: late, if: "always()", uses: ./act, continue-on-error: true }
`),
  })
  assert.equal(result.conclusion, 'failure')
  assert.deepEqual(result.stepConclusions, {
    'passed / one': 'success',
    'passed / two': 'skipped',
    'passed / three': 'success',
    'used / one': 'failure',
    'used / two': 'skipped',
    'used / three': 'success',
    after: 'skipped',
    'late / one': 'success',
    'late / two': 'skipped',
    'late / three': 'success',
  })
})

test('a step that exceeds its time limit is ended, and the run is timed out', async () => {
  const result = await engine.run({
    workflows: job(`
      - name: long
        timeout-minutes: 0.005
        run: trap '' TERM; sleep 100
      - name: after
        if: failure()
        run: echo cleaned
`),
  })
  assert.equal(result.conclusion, 'timed_out', result.log)
  assert.match(result.steps[0]?.fault ?? '', /time limit of 0.3 seconds/)
  assert.equal(result.outputOf('after'), 'cleaned\n')
})

test('a job that exceeds its time limit is ended, except for always() steps', async () => {
  const result = await engine.run({
    workflows: job(
      `
      - { name: long, run: sleep 100 }
      - { name: usual, run: echo no }
      - { name: always, if: always(), run: echo cleaned }
`,
      '    timeout-minutes: 0.01\n',
    ),
  })
  assert.equal(result.conclusion, 'timed_out', result.log)
  const { long = '', ...others } = result.stepConclusions
  // Skipped if the time is over before it begins.
  assert.match(long, /^(timed_out|skipped)$/)
  assert.deepEqual(others, { usual: 'skipped', always: 'success' })
  assert.match(result.jobs[0]?.fault ?? '', /The job exceeded its time limit/)
})

test('hashFiles reads the current workspace', async () => {
  const result = await engine.run({
    files: { 'a/package-lock.json': '{}', 'b/package-lock.json': '{}' },
    workflows: job(`
      - { name: first, run: 'echo "\${{ hashFiles(''**/package-lock.json'') }}"' }
      - { name: none, run: 'echo "[\${{ hashFiles(''*.none'') }}]"' }
      - { run: echo x >> b/package-lock.json }
      - { name: changed, run: 'echo "\${{ hashFiles(''**/package-lock.json'') }}"' }
`),
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.match(result.outputOf('first'), /^[0-9a-f]{64}\n$/)
  assert.equal(result.outputOf('none'), '[]\n')
  assert.notEqual(result.outputOf('changed'), result.outputOf('first'))
})

test('an expression that fails is reported with its position', async () => {
  const result = await engine.run({
    workflows: job(`
      - name: bad
        run: echo \${{ fromJSON('{') }}
`),
  })
  assert.equal(result.conclusion, 'failure')
  assert.match(result.steps[0]?.fault ?? '', /^\.svc\/workflows\/ci\.yml:7:22: fromJSON/)
})

test('steps have the variables of the runner, which workflows override and secrets do not', async () => {
  const stepEnv = {
    MIRROR: 'https://mirror.example',
    LEVEL: 'runner',
    TOKEN: 'runner',
    HOME: '/nowhere',
  }
  const result = await engine.run({
    stepEnv,
    plan: { secrets: { TOKEN: 'correct-horse' } },
    workflows: `
on: push
env: { LEVEL: workflow }
steps:
  - { name: show, run: 'echo "$MIRROR $LEVEL $TOKEN $HOME"' }
`,
  })
  assert.equal(result.outputOf('show'), 'https://mirror.example workflow runner /home/runner\n')
})

test('the env of a workflow and of a job can name the workspace', async () => {
  const result = await engine.run({
    workflows: `
on: push
env: { TOP: "\${{ github.workspace }}" }
jobs:
  one:
    env: { SOURCES: "\${{ github.workspace }}/src" }
    steps:
      - { name: show, run: 'echo "$TOP $SOURCES"' }
`,
  })
  assert.equal(result.outputOf('show'), '/workspace /workspace/src\n')
})
