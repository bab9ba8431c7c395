import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertFaults, checkAlone, type FaultCase } from '../../../test/support/faults.ts'
import { parseWorkflow } from './reading/parse.ts'
import { formatFault } from './source/fault-list.ts'

test('faults of a workflow file have lines and columns', () => {
  for (const [text, ...expected] of workflows) {
    assertFaults(text, checkAlone(text).faults, expected)
  }
})

test('all faults are reported, in the order of the file, at most 50', () => {
  const lines = Array.from({ length: 60 }, (_, number) => `  - { run: x, foo${number}: 1 }\n`)
  const { faults } = parseWorkflow({ path: 'ci.yml', text: `steps:\n${lines.join('')}` })
  assert.deepEqual(
    faults.map(({ line }) => line),
    Array.from({ length: 50 }, (_, index) => index + 2),
  )
})

test('a formatted fault is one line, for any file name', () => {
  const fault = { file: 'a\n\u001b[31m.yml', line: 1, column: 2, message: 'No.', instead: 'Yes.' }
  assert.equal(formatFault(fault), 'a\ufffd\ufffd[31m.yml:1:2: No. Instead: Yes.')
})

const workflows: FaultCase[] = [
  ['', '1:1 The file is empty.'],
  ['# nothing\n', '1:1 The file is empty.'],
  ['- run: x', '1:1 The file is a list, not a mapping.'],
  ['jobs: {}', '1:1 There are no jobs.'],
  ['jobs:', '1:1 "jobs" is empty, not a mapping.'],
  ['steps: []', '1:1 There are no steps.'],
  ['steps:', '1:1 "steps" is empty, not a list.'],
  ['name: x', '1:1 The workflow has no jobs or steps.'],
  [
    'network: [https://a.b, none, "a b", "c:0", d.e]\nsteps: [{ run: x }]',
    '1:11 In "network", "https://a.b" is more than a host.',
    '1:24 In "network", "none" stands in a list.',
    '1:30 In "network", "a b" is no host.',
    '1:37 In "network", "c:0" has an invalid port.',
  ],
  ['network: { a: b }\nsteps: [{ run: x }]', '1:10 "network" is a mapping, not a string.'],
  [
    `network: [${Array(101).fill('a').join()}]\nsteps: [{ run: x }]`,
    '1:10 "network" has 101 hosts; the maximum is 100.',
  ],
  ['name: [x]\nsteps: [{ run: x }]', '1:7 "name" is a list, not a string.'],
  ['name: ${{ github.ref }}\nsteps: [{ run: x }]', '1:7 "name" cannot contain expressions.'],
  ['step:\n  - run: x\n', '1:1 Unexpected key "step" in a workflow.'],
  [
    'steps: [{ run: x }]\njobs: { a: { steps: [{ run: x }] } }',
    '1:1 A workflow has "steps" or "jobs", not both.',
  ],
  ['true: push\nsteps: [{ run: x }]', '1:1 Unexpected key "true" in a workflow.'],
  ['runs-on: x\nsteps: [{ run: x }]', '1:1 "runs-on" is a key of a job.'],
  ['env: [A]\nsteps: [{ run: x }]', '1:6 "env" is a list, not a mapping.'],
  ['env: { "A B": 1 }\nsteps: [{ run: x }]', '1:8 "A B" is not a valid environment variable name.'],
  ['env: { A: [1] }\nsteps: [{ run: x }]', '1:11 "A" is a list, not a string.'],
  [
    'env: { A: "${{ matrix.x }}" }\nsteps: [{ run: x }]',
    "1:16 The context `matrix` cannot be used in the workflow's `env`.",
  ],
  ['defaults: { shell: bash }\nsteps: [{ run: x }]', '1:13 Unexpected key "shell" in "defaults".'],
  [
    'defaults: { run: { shell: pwsh } }\nsteps: [{ run: x }]',
    '1:27 The shell "pwsh" is not supported.',
  ],
  [
    'concurrency: { cancel-in-progress: true }\nsteps: [{ run: x }]',
    '1:1 "concurrency" has no group.',
  ],
  [
    'concurrency: { group: a, cancel-in-progress: 1 }\nsteps: [{ run: x }]',
    '1:46 "cancel-in-progress" is a number.',
  ],
  [
    'permissions: write\nsteps: [{ run: x }]',
    '1:14 "permissions" is a string that is no access level.',
  ],
  [
    'permissions: { contents: read, id-token: read }\nsteps: [{ run: x }]',
    '1:42 This is not an access level of "id-token".',
  ],
  [
    'permissions: { content: read }\nsteps: [{ run: x }]',
    '1:16 Unexpected key "content" in "permissions".',
  ],
  [
    'secrets: [A, "B-C"]\nsteps: [{ run: x }]',
    '1:14 An item of "secrets" is not a valid secret name.',
  ],
  [
    'run-name: ${{ secrets.A }}\nsteps: [{ run: x }]',
    '1:15 The context `secrets` cannot be used in `run-name`.',
  ],
  ['on:\nsteps: [{ run: x }]', '1:1 "on" does not name an event.'],
  [
    'on: pull_request_target\nsteps: [{ run: x }]',
    '1:5 Runs with secrets for commits that everybody may propose are not supported.',
  ],
  [
    'on: [pull_request_review, release]\nsteps: [{ run: x }]',
    '1:6 None of the events "pull_request_review" and "release" happens here.',
  ],
  ['on: { pull_request: { tags: [v1] } }\nsteps: [{ run: x }]', '1:23 Changes are for branches.'],
  [
    'on: { merge_group: { paths: [a] } }\nsteps: [{ run: x }]',
    '1:22 Unexpected key "paths" in "merge_group".',
  ],
  ['on: { pish: }\nsteps: [{ run: x }]', '1:7 "pish" is not a supported event.'],
  ['on: issues\nsteps: [{ run: x }]', '1:5 Issues are not supported.'],
  ['on: {}\nsteps: [{ run: x }]', '1:5 "on" does not name an event.'],
  ['on: []\nsteps: [{ run: x }]', '1:5 "on" does not name an event.'],
  [
    'on: { push: { branches: [a], branches-ignore: [b] } }\nsteps: [{ run: x }]',
    '1:30 "branches" and "branches-ignore" cannot be used together.',
  ],
  [
    'on: { push: { paths: ["[a"] } }\nsteps: [{ run: x }]',
    '1:23 The pattern "[a" has an invalid character range.',
  ],
  [
    'on: { push: { paths: ["+a"] } }\nsteps: [{ run: x }]',
    '1:23 The pattern "+a" has "+" with nothing before it to repeat.',
  ],
  ['on: { push: { paths: [] } }\nsteps: [{ run: x }]', '1:15 "paths" is an empty list.'],
  [
    'on: { push: { branch: main } }\nsteps: [{ run: x }]',
    '1:15 Unexpected key "branch" in "push".',
  ],
  [
    'on: { workflow_dispatch: { inputs: { a: { type: choice } } } }\nsteps: [{ run: x }]',
    '1:38 The input "a" has no options.',
  ],
  [
    'on: { workflow_dispatch: { inputs: { a: { type: boolean, default: "x" } } } }\nsteps: [{ run: x }]',
    '1:67 "default" must be true or false.',
  ],
  [
    'on: { workflow_dispatch: { inputs: { a: , A: } } }\nsteps: [{ run: x }]',
    '1:43 The name "A" is already used in line 1; names are case-insensitive.',
  ],
  [
    'on: { workflow_dispatch: { inputs: { a: { required: "yes" } } } }\nsteps: [{ run: x }]',
    '1:53 "required" is a string.',
  ],
  ['on: { schedule: }\nsteps: [{ run: x }]', '1:7 "schedule" has no "cron" entries.'],
  ['on: schedule\nsteps: [{ run: x }]', '1:5 "schedule" has no "cron" entries.'],
  [
    'on: { schedule: [{ cron: "@daily" }] }\nsteps: [{ run: x }]',
    '1:26 Names such as "@daily" are not supported.',
  ],
  [
    'on: { schedule: [{ cron: "* * * *" }] }\nsteps: [{ run: x }]',
    '1:26 "* * * *" has 4 fields, not 5.',
  ],
  [
    'on: { schedule: [{ cron: "61 * * * *" }] }\nsteps: [{ run: x }]',
    '1:26 "61 * * * *" is not a valid schedule: a value is out of range.',
  ],
  [
    'on: { schedule: [{ cron: "0 0 30 2 *" }] }\nsteps: [{ run: x }]',
    '1:26 The schedule "0 0 30 2 *" never matches.',
  ],
  [
    'on: { schedule: [{ cron: "0 0 L * *" }] }\nsteps: [{ run: x }]',
    '1:26 "L" is not a valid cron field.',
  ],
  [
    'on: { schedule: [{ cron: "0 0 * * *", timezone: Mars/X }] }\nsteps: [{ run: x }]',
    '1:49 Unknown time zone "Mars/X".',
  ],
  ['on: { schedule: [{}] }\nsteps: [{ run: x }]', '1:18 This schedule has no "cron".'],
  ['jobs: { a: }', '1:9 The job "a" is empty, not a mapping.'],
  ['jobs: { a: { run: x } }', '1:9 The job "a" has no steps.', '1:14 "run" is a key of a step.'],
  ['jobs: { 1a: { steps: [{ run: x }] } }', '1:9 "1a" is not a valid identifier.'],
  ['jobs: { __a: { steps: [{ run: x }] } }', '1:9 "__a" is not a valid identifier.'],
  [
    'jobs:\n  a:\n    services: {}\n    steps: [{ run: x }]',
    '3:5 Jobs have no service containers.',
  ],
  ['jobs:\n  a:\n    container: x\n    steps: [{ run: x }]', '3:5 Jobs do not run in containers.'],
  [
    'jobs:\n  a:\n    runs-on: windows-latest\n    steps: [{ run: x }]',
    '3:14 All runners have Linux, not windows-latest.',
  ],
  ['jobs:\n  a:\n    needs: b\n    steps: [{ run: x }]', '3:12 There is no job "b".'],
  ['jobs:\n  a:\n    needs: a\n    steps: [{ run: x }]', '3:12 The job "a" needs itself.'],
  [
    'jobs:\n  a:\n    needs: [[a]]\n    steps: [{ run: x }]',
    '3:13 An item of "needs" is a list, not a string.',
  ],
  ['jobs:\n  a:\n    timeout-minutes: 0\n    steps: [{ run: x }]', '3:22 "timeout-minutes" is 0.'],
  [
    'jobs:\n  a:\n    timeout-minutes: x\n    steps: [{ run: x }]',
    '3:22 "timeout-minutes" is "x".',
  ],
  [
    'jobs:\n  a:\n    timeout-minutes: "${{ secrets.X }}"\n    steps: [{ run: x }]',
    "3:27 The context `secrets` cannot be used in a job's `timeout-minutes`.",
  ],
  [
    'jobs:\n  a:\n    continue-on-error: 1\n    steps: [{ run: x }]',
    '3:24 "continue-on-error" is a number.',
  ],
  [
    'jobs:\n  a:\n    strategy: { matrix: {} }\n    steps: [{ run: x }]',
    '3:25 The matrix is empty.',
  ],
  [
    'jobs:\n  a:\n    strategy: { matrix: { a: [] } }\n    steps: [{ run: x }]',
    '3:30 "a" has no values.',
  ],
  [
    'jobs:\n  a:\n    strategy: { matrix: { a: 1 } }\n    steps: [{ run: x }]',
    '3:30 "a" is a number.',
  ],
  [
    'jobs:\n  a:\n    strategy: { matrix: { a: [1], include: [1] } }\n    steps: [{ run: x }]',
    '3:45 An item of "include" is a number, not a mapping.',
  ],
  [
    'jobs:\n  a:\n    strategy: { max-parallel: 1.5 }\n    steps: [{ run: x }]',
    '3:31 "max-parallel" is 1.5.',
  ],
  [
    'jobs:\n  a:\n    strategy: { fail-fast: never }\n    steps: [{ run: x }]',
    '3:28 "fail-fast" is "never".',
  ],
  ['jobs:\n  a:\n    strategy: { matrix: x }\n    steps: [{ run: x }]', '3:25 "matrix" is "x".'],
  [
    'jobs:\n  a:\n    runs-on: { group: x }\n    steps: [{ run: x }]',
    '3:16 Groups of runners are not supported.',
  ],
  ['jobs:\n  a:\n    runs-on: []\n    steps: [{ run: x }]', '3:14 "runs-on" is an empty list.'],
  ['jobs:\n  a:\n    if: foo\n    steps: [{ run: x }]', '3:9 Unknown context `foo`.'],
  ['jobs:\n  a:\n    if: github.ref =\n    steps: [{ run: x }]', '3:20 Unexpected `=`.'],
  [
    'jobs:\n  a:\n    permissions: { checks: maybe }\n    steps: [{ run: x }]',
    '3:28 This is not an access level of "checks".',
  ],
  ['jobs:\n  a:\n    neds: [x]\n    steps: [{ run: x }]', '3:5 Unexpected key "neds" in a job.'],
  [
    'jobs:\n  a:\n    env: { A: "${{ steps.x }}" }\n    steps: [{ run: x }]',
    "3:20 The context `steps` cannot be used in a job's `env`.",
  ],
  [
    'jobs:\n  a: { needs: b, steps: [{ run: x }] }\n  b: { needs: c, steps: [{ run: x }] }\n  c: { needs: b, steps: [{ run: x }] }',
    '3:15 The jobs "b" and "c" depend on each other.',
  ],
  ['steps:\n  - x', '2:5 A step is a string, not a mapping.'],
  ['steps:\n  - {}', '2:5 This step has neither "run" nor "uses".'],
  ['steps:\n  - { run: [x] }', '2:12 "run" is a list, not a string.'],
  ['steps:\n  - { run: x, uses: ./x }', '2:15 A step has "run" or "uses", not both.'],
  ['steps:\n  - { run: x, with: { a: 1 } }', '2:15 "with" cannot be combined with "run".'],
  ['steps:\n  - { run: x, shell: pwsh }', '2:22 The shell "pwsh" is not supported.'],
  ['steps:\n  - { run: x, id: "a b" }', '2:19 "a b" is not a valid identifier.'],
  ['steps:\n  - { run: x, timeout-minutes: -1 }', '2:32 "timeout-minutes" is -1.'],
  [
    'steps:\n  - { run: x, if: "${{ true }} x" }',
    '2:23 The text around `${{ }}` would make this condition always true.',
  ],
  ['steps:\n  - { uses: ./x, shell: bash }', '2:18 "shell" cannot be combined with "uses".'],
  [
    'steps:\n  - { uses: ../x }',
    '2:13 The path "../x" does not start at the root of the repository.',
  ],
  ['steps:\n  - { uses: ./x/../y }', '2:13 The path of an action cannot contain "..".'],
  ['steps:\n  - { uses: /x }', '2:13 The path "/x" does not start at the root of the repository.'],
  ['steps:\n  - { uses: ./x/action.yml }', '2:13 This is the file of the action.'],
  ['steps:\n  - { uses: ./.svc/workflows/x.yml }', '2:13 A step cannot use a workflow.'],
  ['steps:\n  - { uses: x }', '2:13 "x" is not a valid action reference.'],
  ['steps:\n  - { uses: docker://x }', '2:13 Steps cannot run containers.'],
  ['steps:\n  - { uses: a/setup-x@v4 }', '2:13 "a/setup-x@v4" cannot be used here.'],
  [
    'steps:\n  - { uses: actions/setup-java@v4, with: { java-version: 21 } }',
    '2:13 The action actions/setup-java requires the input "distribution".',
  ],
  [
    'steps:\n  - { uses: actions/cache@v4 }',
    '2:7 The action actions/cache needs the input "path".',
    '2:7 The action actions/cache needs the input "key".',
  ],
  [
    'steps:\n  - { uses: actions/download-artifact@v4, with: { run-id: 1, x: 2 } }',
    '2:51 "run-id" is not supported: artifacts are those of this run, by their names.',
  ],
  [
    'steps:\n  - { uses: a/b@v1 }',
    '2:13 Actions of other repositories, such as "a/b@v1", are not supported.',
  ],
  [
    'steps:\n  - { uses: actions/checkout@v4, with: { submodules: true, lfs: true, paht: y } }',
    '2:42 Submodules are not fetched.',
    '2:60 Files of LFS are not fetched.',
  ],
  [
    'steps:\n  - { uses: actions/checkout@v4, with: { repository: a/b, path: a/../.., fetch-depth: all } }',
    '2:42 Only the repository of the run can be checked out.',
    '2:59 "path" is "a/../..", which is not below the workspace.',
    '2:74 "fetch-depth" is "all".',
  ],
  [
    'steps:\n  - { uses: actions/checkout@v4, with: { path: /src, fetch-tags: some, clean: 1 } }',
    '2:42 "path" is "/src", which is not below the workspace.',
    '2:54 "fetch-tags" is "some".',
    '2:72 "clean" is "1".',
  ],
  ['steps:\n  - { run: x, name: "${{ x }" }', '2:22 This `${{` is not closed.'],
  ['steps:\n  - { run: x, secrets: [A] }', '2:15 Unexpected key "secrets" in a step.'],
  ['steps:\n  - { uses: "${{ matrix.x }}" }', '2:13 "uses" cannot contain expressions.'],
  [
    'steps:\n  - { run: x, id: a }\n  - { run: x, id: A }',
    '3:19 The name "A" is already used in line 2; names are case-insensitive.',
  ],
  ['a: b: c', '1:4 Invalid YAML: nested mappings are not allowed in compact mappings.'],
  [
    'steps: [',
    '1:9 Invalid YAML: flow sequence in block collection must be sufficiently indented and end with a ].',
  ],
  ['a: "x', '1:6 Invalid YAML: missing closing "quote.'],
  ['\ta: 1', '1:1 Invalid YAML: tabs are not allowed as indentation.'],
  ['a: *b', '1:4 There is no anchor &b above this alias.'],
  [
    'a: &a [*a]',
    '1:1 Unexpected key "a" in a workflow.',
    '1:8 The alias *a is inside the value that it refers to.',
  ],
  ['a: !!str x', '1:4 YAML tags are not supported, such as "!!str".'],
  ['%YAML 1.1\n---\na: 1', '1:1 YAML directives are not supported, such as "%YAML 1.1".'],
  ['a: 1\n---\nb: 1', '2:1 A second YAML document begins here.'],
  ['a: 1\na: 2', '1:1 Unexpected key "a" in a workflow.', '2:1 Duplicate key "a".'],
  ['<<: { a: 1 }', '1:1 Merge keys (<<) are not supported.'],
  ['? [a]\n: 1', '1:3 This key is not a string.'],
  ['__proto__: 1', '1:1 The key "__proto__" is not allowed.'],
  ['? \n: 1', '1:3 This key is not a string.'],
  ['a: "\\q"', '1:4 This double-quoted string contains the unknown escape \\q.'],
  ['a: \u0007', '1:4 Unexpected control character.'],
  ['a: �', '1:4 This is not valid UTF-8.'],
  ['env: { A: .inf }\nsteps: [{ run: x }]', '1:11 This number is not finite.'],
  ['steps:\n  - run: |\n      a\n      b ${{ nope.x }}\n', '4:13 Unknown context `nope`.'],
]
