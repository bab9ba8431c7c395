import assert from 'node:assert/strict'
import { test } from 'node:test'
import { usedActions } from '../action-graph.ts'
import type { Environment, Template, Workflow } from '../workflow.ts'
import { parseAction, parseWorkflow } from './parse.ts'

test('the short form is a workflow of one job', () => {
  const workflow = parsed(`
name: Checks
env: { LEVEL: 3, EMPTY: }
steps:
  - name: Build
    run: make
    working-directory: app
    if: env.LEVEL == 3
    timeout-minutes: 1.5
    continue-on-error: true
    shell: sh
  - run: true
`)
  assert.equal(workflow.name, 'Checks')
  assert.deepEqual(texts(workflow.env), { LEVEL: '3', EMPTY: '' })
  const [job, ...others] = workflow.jobs
  assert.deepEqual(others, [])
  assert.equal(job?.id, 'steps')
  const [build, second] = job?.steps ?? []
  assert.ok(build?.kind === 'run')
  assert.equal(build.name?.text, 'Build')
  assert.equal(build.workingDirectory?.text, 'app')
  assert.equal(build.if?.text, 'env.LEVEL == 3')
  assert.equal(build.timeoutMinutes, 1.5)
  assert.equal(build.continueOnError, true)
  assert.equal(build.shell?.text, 'sh')
  assert.ok(second?.kind === 'run')
  assert.equal(second.run.text, 'true')
})

test('`network` is none, a host or a list of hosts, of the file or of a job', () => {
  const networksOf = (file: string, job: string) => {
    const { network, jobs } = parsed(`${file}\njobs:\n  a: { ${job}steps: [{ run: x }] }\n`)
    return [network, jobs[0]?.network]
  }
  const all = { pattern: '*', ports: [80, 443] }
  assert.deepEqual(networksOf('', ''), [undefined, undefined])
  assert.deepEqual(networksOf('network: none', "network: '*', "), [[], [all]])
  assert.deepEqual(networksOf('network: []', 'network: none, '), [[], []])
  assert.deepEqual(networksOf('', "network: ['*.Example.com', 'b.c:22'], "), [
    undefined,
    [
      { pattern: '*.example.com', ports: [80, 443] },
      { pattern: 'b.c', ports: [22] },
    ],
  ])
})

test('a typical workflow of GitHub is parsed unchanged', () => {
  const workflow = parsed(`
name: CI
run-name: CI of \${{ github.ref_name }}
on:
  push:
    branches: [main, 'release/**']
    tags-ignore: 'v0*'
    paths:
      - 'src/**'
      - '!src/**/*.md'
  workflow_dispatch:
    inputs:
      level:
        description: How much
        type: choice
        options: [low, 2]
        default: 2
      dry: { type: boolean, required: true }
  schedule:
    - cron: '30 4 * * 1-5'
    - { cron: '0 0 1 JAN *', timezone: Europe/Berlin }
permissions:
  contents: read
concurrency:
  group: ci-\${{ github.ref }}
  cancel-in-progress: \${{ github.ref != 'refs/heads/main' }}
defaults:
  run:
    shell: bash
    working-directory: app
secrets: [NPM_TOKEN]
jobs:
  build:
    name: Build \${{ matrix.node }}
    runs-on: \${{ matrix.os }}
    timeout-minutes: 10
    continue-on-error: \${{ matrix.experimental == true }}
    strategy:
      fail-fast: false
      max-parallel: 2
      matrix:
        os: [ubuntu-latest]
        node: [20, 22.1]
        include:
          - { node: 24, experimental: true }
        exclude: \${{ fromJSON('[]') }}
    outputs:
      version: \${{ steps.version.outputs.version }}
    env:
      CI_LEVEL: \${{ inputs.level }}
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 1
          persist-credentials: false
      - id: version
        run: |
          echo "version=$(cat VERSION)" >> "$GITHUB_OUTPUT"
      - uses: ./.github//actions/./build/
        with: { target: "\${{ matrix.node }}", level: 3 }
  publish:
    needs: [build]
    if: \${{ always() && needs.build.result == 'success' }}
    runs-on: [self-hosted, linux]
    steps:
      - run: >-
          echo
          \${{ needs.build.outputs.version }}
`)
  assert.equal(workflow.runName?.text, 'CI of ${{ github.ref_name }}')
  assert.deepEqual(workflow.on.push, {
    branches: ['main', 'release/**'],
    branchesIgnore: undefined,
    tags: undefined,
    tagsIgnore: ['v0*'],
    paths: ['src/**', '!src/**/*.md'],
    pathsIgnore: undefined,
  })
  assert.deepEqual(workflow.on.dispatch?.inputs, {
    level: {
      type: 'choice',
      description: 'How much',
      required: false,
      default: '2',
      options: ['low', '2'],
    },
    dry: { type: 'boolean', description: '', required: true, default: undefined, options: [] },
  })
  assert.deepEqual(
    workflow.on.schedule.map(({ cron, timezone }) => [cron, timezone]),
    [
      ['30 4 * * 1-5', undefined],
      ['0 0 1 JAN *', 'Europe/Berlin'],
    ],
  )
  assert.deepEqual(workflow.secrets, ['NPM_TOKEN'])
  assert.equal(workflow.defaults.workingDirectory?.text, 'app')
  const [build, publish] = workflow.jobs
  assert.equal(build?.timeoutMinutes, 10)
  assert.equal(build?.strategy.failFast, false)
  assert.equal(build?.strategy.maxParallel, 2)
  assert.deepEqual(
    build?.steps.map(({ kind }) => kind),
    ['checkout', 'run', 'action'],
  )
  const action = build?.steps[2]
  assert.ok(action?.kind === 'action')
  assert.equal(action.path, '.github/actions/build')
  assert.deepEqual(texts(action.with), { target: '${{ matrix.node }}', level: '3' })
  assert.deepEqual(usedActions(workflow), ['.github/actions/build'])
  assert.deepEqual(publish?.needs, ['build'])
  assert.equal(publish?.if?.text, "${{ always() && needs.build.result == 'success' }}")
})

test('"on" has a form for one event, for several, and for none', () => {
  const triggers = (on: string) => parsed(`${on}\nsteps: [{ run: x }]`).on
  const allPushes = {
    branches: undefined,
    branchesIgnore: undefined,
    tags: undefined,
    tagsIgnore: undefined,
    paths: undefined,
    pathsIgnore: undefined,
  }
  assert.deepEqual(triggers('on: push').push, allPushes)
  assert.deepEqual(triggers('on: [push, workflow_dispatch]').dispatch, { inputs: {} })
  assert.deepEqual(triggers('on: { push: , workflow_dispatch: { inputs: } }').push, allPushes)
  assert.deepEqual(triggers(''), {
    push: undefined,
    pullRequest: undefined,
    mergeGroup: undefined,
    dispatch: undefined,
    schedule: [],
    call: undefined,
  })
})

test('texts have the position of their first character', () => {
  const text = [
    'steps:',
    "  - run: 'a'",
    '  - run: |',
    '      first',
    '      second',
    '  - run: |1',
    '      indented',
    '  - run: >-',
    '',
    '      folded',
    '  - run:',
    '      plain',
    '  - { run: "b" }',
  ].join('\n')
  const { steps = [] } = parsed(text).jobs[0] ?? {}
  const positions = steps.map((step) => (step.kind === 'run' ? step.run.position : undefined))
  assert.deepEqual(
    positions.map((position) => `${position?.line}:${position?.column}`),
    ['2:11', '4:7', '7:6', '9:7', '12:7', '13:13'],
  )
})

test('a byte order mark and the line ends of Windows make no difference', () => {
  const workflow = parsed('\ufeffname: x\r\nsteps:\r\n  - run: |\r\n      a\r\n      b\r\n')
  const [step] = workflow.jobs[0]?.steps ?? []
  assert.ok(step?.kind === 'run')
  assert.equal(step.run.text, 'a\nb\n')
  assert.deepEqual(step.position, { file: 'ci.yml', line: 3, column: 5 })
})

test('an alias has the value of its anchor', () => {
  const workflow = parsed(`
jobs:
  a: { env: &env { A: 1 }, steps: &steps [{ run: x }] }
  b: { env: *env, steps: *steps }
`)
  const [a, b] = workflow.jobs
  assert.deepEqual(b?.env, a?.env)
  assert.deepEqual(b?.steps, a?.steps)
})

test('names of Object.prototype are ordinary names', () => {
  const workflow = parsed(`
env: { constructor: a, toString: b }
jobs:
  constructor: { steps: [{ run: x }] }
  hasOwnProperty: { needs: constructor, steps: [{ id: valueOf, run: x }] }
`)
  assert.deepEqual(texts(workflow.env), { constructor: 'a', toString: 'b' })
  assert.deepEqual(
    workflow.jobs.map(({ id }) => id),
    ['constructor', 'hasOwnProperty'],
  )
})

test('a matrix is counted as GitHub does: excluded ones do not count, included ones that fit do not add', () => {
  const numbers = Array.from({ length: 17 }, (_, number) => number).join(', ')
  const file = (rest: string) => `
jobs:
  a:
    strategy:
      matrix:
        x: [${numbers}]
        y: [${numbers}]
${rest}
    steps: [{ run: x }]`
  const messages = (rest: string) =>
    parseWorkflow({ path: 'ci.yml', text: file(rest) }).faults.map(({ message }) => message)
  assert.deepEqual(messages(''), ['The matrix expands to 289 jobs; the maximum is 256.'])
  assert.deepEqual(messages('        exclude: [{ x: 0 }]'), [
    'The matrix expands to 272 jobs; the maximum is 256.',
  ])
  assert.deepEqual(messages('        exclude: [{ x: 0 }, { y: 1 }]'), [])
  // Names are the same without regard to case, as when the jobs are made.
  assert.deepEqual(messages('        exclude: [{ X: 0 }, { Y: 1 }]'), [])
  const excluded = '        exclude: [{ x: 0 }, { y: 1 }]\n'
  assert.deepEqual(messages(`${excluded}        include: [{ x: 1, z: 1 }, { z: 2 }]`), [])
  assert.deepEqual(messages(`${excluded}        include: [{ x: 99 }]`), [
    'The matrix expands to 257 jobs; the maximum is 256.',
  ])
  assert.deepEqual(messages("        exclude: ${{ fromJSON('[]') }}"), [])
})

test('a composite action is parsed', () => {
  const { action, faults } = parseAction({
    path: '.github/actions/build/action.yml',
    text: `
name: Build
description: Builds it.
author: us
branding: { icon: box, color: blue }
inputs:
  target: { description: What, required: true }
  level: { default: '\${{ github.ref_name }}' }
  bare:
outputs:
  file: { description: Where, value: '\${{ steps.make.outputs.file }}' }
runs:
  using: composite
  steps:
    - id: make
      run: make \${{ inputs.target }}
      shell: bash
    - uses: ./.github/actions/other
      with: { x: 1 }
`,
  })
  assert.deepEqual(faults, [])
  assert.ok(action)
  assert.equal(action.path, '.github/actions/build')
  assert.equal(action.inputs.target?.required, true)
  assert.equal(action.inputs.level?.default?.text, '${{ github.ref_name }}')
  assert.deepEqual(action.inputs.bare, { required: false, default: undefined })
  assert.equal(action.outputs.file?.text, '${{ steps.make.outputs.file }}')
  assert.deepEqual(usedActions(action), ['.github/actions/other'])
})

test('an action for Node.js has programs with conditions', () => {
  const { action, faults } = parseAction({
    path: 'tools/greet/action.yml',
    text: `
outputs: { said: { description: what it said } }
runs:
  using: node20
  main: dist/main.js
  post: dist/post.js
  post-if: success()
`,
  })
  assert.deepEqual(faults, [])
  assert.deepEqual(action?.steps, [])
  assert.equal(action?.program?.main, 'dist/main.js')
  assert.equal(action?.program?.using, 'node20')
  assert.equal(action?.program?.pre, undefined)
  assert.equal(action?.program?.post?.file, 'dist/post.js')
  assert.equal(action?.program?.post?.if?.text, 'success()')
})

function parsed(text: string): Workflow {
  const { workflow, faults } = parseWorkflow({ path: 'ci.yml', text })
  assert.deepEqual(faults, [])
  assert.ok(workflow)
  return workflow
}

function texts(templates: Environment): Record<string, string> {
  const entries = Object.entries(templates as Record<string, Template>)
  return Object.fromEntries(entries.map(([name, { text }]) => [name, text]))
}
