import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkAlone } from '../../../test/support/faults.ts'
import { foreignEvent } from './reading/read-triggers.ts'
import { formatFaults, formatNotes } from './source/fault-list.ts'

const steps = 'steps: [{ run: x }]\n'

test('an event that never happens here is noted beside one that does', () => {
  const text = `on:\n  push: { branches: [main] }\n  pull_request_target:\n    types: [opened]\n${steps}`
  const { workflow, faults, notes } = checkAlone(text)
  assert.deepEqual(faults, [])
  assert.deepEqual(formatNotes(notes), [
    'ci.yml:3:3: note: "pull_request_target" starts no runs: runs with secrets for commits that everybody may propose are not supported.',
  ])
  assert.deepEqual(workflow?.on.push?.branches, ['main'])
})

test('in each form of "on", foreign events are noted', () => {
  const linesOf = (text: string) => checkAlone(text + steps).notes.map(({ line }) => line)
  assert.deepEqual(linesOf('on: [push, check_run, release]\n'), [1, 1])
  assert.deepEqual(linesOf('on:\n  - push\n  - create\n  - workflow_run\n'), [3, 4])
  assert.deepEqual(linesOf('on:\n  workflow_dispatch:\n  watch: { types: [started] }\n'), [3])
})

test('changes and the queue start workflows, and types that never happen are noted', () => {
  const on = `on:\n  pull_request: { branches: [main], types: [opened, closed] }\n  merge_group:\n`
  const { workflow, faults, notes } = checkAlone(on + steps)
  assert.deepEqual(faults, [])
  assert.deepEqual(formatNotes(notes), [
    'ci.yml:2:53: note: The type "closed" of "pull_request" starts no runs; here are opened, synchronize and reopened.',
  ])
  assert.deepEqual(workflow?.on.pullRequest?.branches, ['main'])
  assert.deepEqual(workflow?.on.pullRequest?.types, ['opened', 'closed'])
  assert.equal(workflow?.on.mergeGroup?.types, undefined)
})

test('without an event that happens here, a file is refused once', () => {
  const faultsOf = (on: string) =>
    checkAlone(`on: ${on}\n${steps}`).faults.map(({ message }) => message)
  assert.deepEqual(faultsOf('status'), ['Commit statuses are not supported.'])
  assert.deepEqual(faultsOf('[issues, fork, watch]'), [
    'None of the events "issues", "fork" and "watch" happens here.',
  ])
  assert.deepEqual(checkAlone(`on: [issues, fork]\n${steps}`).notes, [])
})

test('an unknown event is a fault, also beside foreign and supported ones', () => {
  const { faults, notes } = checkAlone(`on: [push, pusch, issues]\n${steps}`)
  assert.deepEqual(
    faults.map(({ column, instead }) => [column, instead]),
    [[12, 'Write "push".']],
  )
  assert.equal(notes.length, 1)
})

test('a filter that matches nothing is noted, for it can exclude all tags', () => {
  const { faults, notes } = checkAlone(
    `on: { push: { branches: ["**"], tags: ["!**"] } }\n${steps}`,
  )
  assert.deepEqual(faults, [])
  assert.deepEqual(formatNotes(notes), [
    'ci.yml:1:33: note: "tags" matches nothing: all its patterns start with "!".',
  ])
})

test('names of objects are not events', () => {
  for (const name of ['constructor', '__proto__', 'toString']) {
    assert.equal(foreignEvent(name), undefined)
  }
})

test('a cause that occurs several times in a file is one line', () => {
  const fault = { file: 'a.yml', column: 5, message: 'No.', instead: 'Yes.' }
  const at = (line: number, more = {}) => ({ ...fault, line, ...more })
  assert.deepEqual(
    formatFaults([at(1), at(1, { column: 9 }), at(2, { message: 'Other.' }), at(4), at(9)]),
    ['a.yml:1:5: No. Instead: Yes. (also lines 4, 9)', 'a.yml:2:5: Other. Instead: Yes.'],
  )
  assert.deepEqual(formatFaults([at(1), at(2), at(2, { file: 'b.yml' })]), [
    'a.yml:1:5: No. Instead: Yes. (also line 2)',
    'b.yml:2:5: No. Instead: Yes.',
  ])
  const [line = ''] = formatFaults(Array.from({ length: 50 }, (_, index) => at(index + 1)))
  assert.match(line, /\(also lines 2, 3, .*, 21, …\)$/)
})

test('keys of jobs and inputs of the checkout without effect are noted', () => {
  const { faults, notes } = checkAlone(`on: push
jobs:
  deploy:
    concurrency: { group: deploy }
    environment: { name: production, url: "\${{ steps.x.outputs.url }}" }
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0
          fetch-tags: true
          path: src/\${{ github.repository }}
          clean: false
          ref: \${{ github.ref }}
          repository: \${{ github.repository }}
          token: \${{ secrets.TOKEN }}
          submodules: false
          lfs: false
          persist-credentials: false
          sparse-checkout: docs
      - { uses: actions/checkout@v4, with: { ssh-key: x, persist-credentials: true } }
`)
  assert.deepEqual(faults, [])
  assert.deepEqual(formatNotes(notes), [
    'ci.yml:4:5: note: "concurrency" of a job has no effect; at the top level of the file it applies to whole runs.',
    'ci.yml:5:5: note: "environment" has no effect: the job waits for no approval, and has the secrets of the repository.',
    'ci.yml:19:11: note: "sparse-checkout" has no effect: the workspace has all files of the commit.',
    'ci.yml:20:46: note: "ssh-key" has no effect: commits are fetched without SSH, and "git push" uses the token of the job, or "token".',
  ])
})

test('commands that need root are noted', () => {
  const { faults, notes } = checkAlone(`on: push
jobs:
  a:
    steps:
      - run: sudo apt-get install valgrind
      - run: |
          make # without sudo make
          test -x tool || sudo make install
      - { name: sudo x, run: pseudo sudoku }
`)
  assert.deepEqual(faults, [])
  assert.deepEqual(formatNotes(notes), [
    'ci.yml:5:9: note: steps cannot become root, so "sudo" fails: leave it out, and let the administrator of the runner install what steps need. (also line 6)',
  ])
})

test('jobs for other systems are noted, also in a matrix', () => {
  const { faults, notes } = checkAlone(`on: push
jobs:
  a:
    strategy:
      matrix:
        os: [ubuntu-latest, windows-latest]
        include:
          - { os: macos-14, extra: true }
          - { os: "\${{ vars.OS }}" }
    runs-on: \${{ matrix.os }}
    steps: [{ run: x }]
  b: { runs-on: [self-hosted, windows-latest], steps: [{ run: x }] }
  c: { runs-on: "\${{ matrix.os }}", steps: [{ run: x }] }
`)
  assert.deepEqual(faults, [])
  assert.deepEqual(
    notes.map(({ line, message }) => [line, message.split(' are ')[0]]),
    [
      [6, 'Jobs that run on windows-latest'],
      [8, 'Jobs that run on macos-14'],
      [
        12,
        'All runners have Linux, not windows-latest. The job is skipped, and those that need it.',
      ],
    ],
  )
})

test('steps of jobs for other systems are not checked', () => {
  const { workflow, faults, notes } = checkAlone(`on: push
jobs:
  windows:
    runs-on: windows-latest
    steps: [{ uses: msys2/setup-msys2@v2 }, { run: x, shell: pwsh }]
  linux: { steps: [{ run: x }] }
`)
  assert.deepEqual(faults, [])
  assert.equal(notes.length, 1)
  assert.deepEqual(workflow?.jobs[0]?.steps, [])
})

test('steps that install or run a program use that of the runner', () => {
  const { workflow, faults, notes } = checkAlone(`on: push
steps:
  - { uses: taiki-e/install-action@nextest }
  - { uses: golangci/golangci-lint-action@v8, with: { args: --verbose, version: v2 }, env: { A: 1 } }
  - { name: Hack, uses: taiki-e/install-action@v2, with: { tool: "cargo-hack,cross@1" } }
`)
  assert.deepEqual(faults, [])
  assert.equal(notes.length, 3)
  const steps = workflow?.jobs[0]?.steps ?? []
  assert.deepEqual(
    steps.map(({ name, env }) => [
      name?.text,
      Object.entries(env).map(([variable, { text }]) => `${variable}=${text}`),
    ]),
    [
      ['Run taiki-e/install-action', ['TOOLS=nextest']],
      ['Run golangci/golangci-lint-action', ['A=1', 'ARGS=--verbose']],
      ['Hack', ['TOOLS=cargo-hack,cross@1']],
    ],
  )
})

test('actions without which a run is right are noted, and others refused with a replacement', () => {
  const uses = (action: string) => checkAlone(`steps:\n  - { uses: ${action}, with: { a: 1 } }`)
  for (const action of ['Swatinem/rust-cache@v2', 'codecov/codecov-action@0123abc']) {
    const { faults, notes } = uses(action)
    assert.deepEqual(faults, [])
    assert.match(notes[0]?.message ?? '', /^[\w-]+\/[\w-]+ does nothing here: it only /)
  }
  const [fault] = uses('actions-rs/cargo@v1').faults
  assert.equal(fault?.instead, 'Write "run: cargo" with its "command" and "args".')
  for (const action of ['constructor/x@v1', '__proto__/x@v1']) {
    assert.equal(uses(action).faults.length, 1)
  }
})
