import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkAlone } from '../../../test/support/faults.ts'
import { checkFiles } from './checker.ts'
import { parseFile } from './reading/parse.ts'

/** What no runner can do in a job, as keys of the job and as a step. */
const jobs: [lines: string, message: RegExp][] = [
  ['container: node:22, steps: [{ run: x }]', /^Jobs do not run in containers\./],
  ['services: { db: { image: x } }, steps: [{ run: x }]', /^Jobs have no service containers\./],
  ['snapshot: x, steps: [{ run: x }]', /^Runner images are not supported\./],
  ['runs-on: { group: large }, steps: [{ run: x }]', /^Groups of runners are not supported\./],
  ['runs-on: windows-latest, steps: [{ run: x }]', /^All runners have Linux, not windows-latest\./],
  ['uses: a/b/.github/workflows/c.yml@v1', /^Workflows of other repositories/],
  ['steps: [{ parallel: [{ run: x }] }]', /^Steps do not run concurrently: "parallel"/],
  ['steps: [{ run: x, background: true }]', /^Steps do not run concurrently: "background"/],
  ['defaults: { run: { shell: pwsh } }, steps: [{ run: x }]', /^The shell "pwsh"/],
]

const steps: [step: string, message: RegExp][] = [
  ['uses: a/b@v1', /^Actions of other repositories, such as "a\/b@v1"/],
  ['uses: docker://x', /^Steps cannot run containers\./],
  ['uses: actions/github-script@v8', /cannot be used here/],
  ['uses: gradle/gradle-build-action@v3', /cannot be used here/],
  ['uses: actions/checkout@v5, with: { submodules: true }', /^Submodules are not fetched\./],
  ['uses: actions/checkout@v5, with: { repository: a/b }', /^Only the repository of the run/],
  ['uses: actions/download-artifact@v5, with: { run-id: 1 }', /^"run-id" is not supported/],
  ['run: x, shell: cmd', /^The shell "cmd"/],
]

const unsupported = [
  ...jobs,
  ...steps.map(([step, message]) => [`steps: [{ ${step} }]`, message] as const),
]

test('a job that cannot run here is skipped with a note, beside one that can', () => {
  for (const [job, message] of unsupported) {
    const { workflow, faults, notes } = checkAlone(
      `on: push\njobs:\n  odd: { ${job} }\n  usual: { steps: [{ run: x }] }\n`,
    )
    assert.deepEqual(faults, [], job)
    const [note = { line: 0, message: '' }, ...others] = notes
    assert.deepEqual([note.line, others], [3, []], job)
    assert.match(note.message, message)
    assert.match(note.message, / The job is skipped, and those that need it\.$/)
    assert.deepEqual(
      workflow?.jobs.map((one) => one.steps.length),
      [0, 1],
    )
  }
})

test('a file without any other job is refused, also if the others need it', () => {
  for (const [job, message] of unsupported) {
    const { faults, notes } = checkAlone(
      `on: push\njobs:\n  after: { needs: odd, if: always(), steps: [{ run: x }] }\n  odd: { ${job} }\n`,
    )
    assert.equal(faults.length, 1, job)
    assert.match(faults[0]?.message ?? '', message)
    assert.match(faults[0]?.instead ?? '', /^[A-Z]/)
    assert.deepEqual(notes, [])
  }
})

test('a step that cannot run here is left alone where its condition never holds', () => {
  const matrix = 'strategy: { matrix: { os: [ubuntu-latest, windows-2025], n: [1] } }'
  const runsOn = 'runs-on: "${{ matrix.os }}"'
  const isRefused = (condition: string, lines = `${matrix}, ${runsOn}`) => {
    for (const [step] of steps) {
      const { workflow, faults } = checkAlone(
        `jobs:\n  a: { ${lines}, steps: [{ ${step}, if: "${condition}" }, { run: x }] }\n`,
      )
      const names = workflow?.jobs[0]?.steps.map(({ kind }) => kind).length
      assert.equal(names, faults.length > 0 ? 0 : 2, step)
      if (step === steps[0]?.[0]) continue
      assert.equal(faults.length > 0, isFirstRefused(condition, lines), `${condition}: ${step}`)
    }
    return isFirstRefused(condition, lines)
  }
  const isFirstRefused = (condition: string, lines: string) =>
    checkAlone(
      `jobs:\n  a: { ${lines}, steps: [{ ${steps[0]?.[0]}, if: "${condition}" }, { run: x }] }\n`,
    ).faults.length > 0
  for (const never of [
    "runner.os == 'Windows'",
    "${{ runner.os != 'Linux' }}",
    "always() && runner.os == 'macos'",
    "matrix.os == 'windows-2025'",
    "startsWith(matrix.os, 'windows') && matrix.n == 1",
    "(matrix.os == 'windows-2025' || runner['os'] == 'Windows') && success()",
    'contains(fromJSON(\'[\\"Windows\\", \\"macOS\\"]\'), runner.os)',
    "github.event_name == 'release'",
    "!startsWith(matrix.os, 'ubuntu')",
    'false',
  ])
    assert.equal(isRefused(never), false, never)
  for (const possible of [
    "runner.os == 'linux'",
    'matrix.n == 2',
    "github.event_name == 'pull_request'",
    "github.event_name != 'release'",
    "github.event_name == 'schedule'",
    "runner.os == 'Windows' || failure()",
    "!(runner.os == 'Windows' && failure())",
    "matrix.os == 'ubuntu-latest'",
    "runner.arch == 'X86'",
    "inputs.os == 'windows'",
    'always()',
    '',
  ])
    assert.equal(isRefused(possible), true, possible)
  assert.equal(isRefused("matrix.os == 'windows-2025'", 'runs-on: "${{ matrix.on }}"'), true)
  const unknown = 'strategy: { matrix: { os: [ubuntu-latest, "${{ vars.OS }}"] } }'
  assert.equal(isRefused("matrix.os == 'windows-2025'", `${unknown}, ${runsOn}`), true)
})

test('what actions and called workflows need counts for the jobs that use them', async () => {
  const file = (path: string, text: string) => ({ path, text })
  const action = (text: string) => `runs: { using: composite, steps: [{ ${text} }] }`
  const callee = (job: string) => `on: workflow_call\njobs:\n  a: { ${job} }\n`
  const check = async (text: string) => {
    const checked = await checkFiles(async (kind, one) => parseFile(kind, one), {
      files: [file('ci.yml', `on: push\njobs:\n${text}`)],
      actions: [
        file('outer/action.yml', action('uses: ./inner')),
        file('inner/action.yml', action('uses: a/b@v1')),
        file('docker/action.yml', 'runs: { using: docker, image: Dockerfile, args: [x] }'),
        file('good/action.yml', action('run: x, shell: bash')),
      ],
      called: [
        file('.github/workflows/never.yml', callee('container: x, steps: [{ run: x }]')),
        file(
          '.github/workflows/partly.yml',
          `${callee('container: x, steps: [{ run: x }]')}  b: { steps: [{ uses: ./good }] }\n`,
        ),
      ],
    })
    const all = [...checked.workflows, ...checked.called, ...checked.actions]
    return {
      faults: all.flatMap(({ faults }) => faults.map(({ file: path }) => path)),
      notes: all.flatMap(({ notes }) => notes.map(({ file: path }) => path)),
    }
  }
  const usual = '  usual: { steps: [{ uses: ./good }] }\n'
  const called = ['.github/workflows/never.yml', '.github/workflows/partly.yml']
  for (const [job, path] of [
    ['steps: [{ uses: ./outer }]', 'inner/action.yml'],
    ['steps: [{ uses: ./docker }]', 'docker/action.yml'],
  ]) {
    assert.deepEqual(await check(`  odd: { ${job} }\n`), { faults: [path], notes: called })
    const { faults, notes } = await check(`  odd: { ${job} }\n${usual}`)
    assert.deepEqual([faults, notes], [[], [...called, path]])
  }
  const never = '  call: { uses: ./.github/workflows/never.yml }\n'
  const partly = '  call: { uses: ./.github/workflows/partly.yml }\n'
  const vain = await check(`${never}  after: { needs: call, steps: [{ run: x }] }\n`)
  assert.deepEqual(vain, { faults: [called[0]], notes: [called[1]] })
  assert.deepEqual((await check(never + usual)).faults, [])
  assert.deepEqual((await check(partly)).faults, [])
})

test('an input that an action of the repository does not have is noted', async () => {
  const checked = await checkFiles(async (kind, one) => parseFile(kind, one), {
    files: [
      {
        path: 'ci.yml',
        text: 'steps:\n  - { uses: ./a, with: { Known: 1, other: 2 } }\n  - { uses: ./a, with: "${{ github.event }}" }\n',
      },
    ],
    actions: [
      {
        path: 'a/action.yml',
        text: 'inputs: { known: {} }\nruns: { using: composite, steps: [{ run: x, shell: sh }] }',
      },
    ],
    called: [],
  })
  assert.deepEqual(
    checked.workflows.flatMap(({ notes }) => notes.map(({ line, message }) => [line, message])),
    [[2, 'The action ./a has no input "other". It has no effect.']],
  )
})
