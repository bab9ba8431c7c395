import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exhaustive } from '../../../test/support/exhaustive.ts'
import { createChecker, missingFaults } from './checker.ts'
import { formatFault } from './source/fault-list.ts'

// Guards against a check that never ends; a machine that is busy takes longer than the server allows.
const patient = { timeoutMs: 60_000 }

test('files are checked together, and missing actions are listed', async () => {
  await using checker = createChecker(patient)
  const workflow = {
    path: 'ci.yml',
    text: 'steps:\n  - uses: ./a\n  - uses: ./gone\n  - run: x\n',
  }
  const first = await checker.check([workflow, { path: 'bad.yml', text: 'stepz: []' }], [])
  assert.deepEqual(first.missingActions, ['a', 'gone'])
  assert.equal(first.workflows[0]?.workflow?.jobs[0]?.steps.length, 3)
  assert.equal(first.workflows[1]?.workflow, undefined)
  assert.match(first.workflows[1]?.faults[0]?.message ?? '', /Unexpected key "stepz"/)
  const second = await checker.check([workflow], [action('a', ['./b']), action('b', [])])
  assert.deepEqual(second.missingActions, ['gone'])
  assert.deepEqual(missingFaults(second).map(formatFault), [
    'ci.yml:3:5: There is no file action.yml in "./gone". Instead: Add one to the commit, or name the folder that has one.',
  ])
})

test('actions that use themselves, nest too deeply or have too many steps are faults', async () => {
  await using checker = createChecker(patient)
  const workflow = { path: 'ci.yml', text: 'steps: [{ uses: ./a0 }]' }
  const faults = async (actions: { path: string; text: string }[]) => {
    const checked = await checker.check([workflow], actions)
    return [...checked.workflows, ...checked.actions].flatMap((one) => one.faults.map(formatFault))
  }
  const circle = [action('a0', ['./a1']), action('a1', ['./a2']), action('a2', ['./a1'])]
  assert.deepEqual(await faults(circle), [
    'a2/action.yml:4:7: The action "./a1" uses itself, directly or indirectly. Instead: Remove this step.',
  ])
  const chain = (length: number) =>
    Array.from({ length }, (_, at) => action(`a${at}`, at + 1 < length ? [`./a${at + 1}`] : []))
  assert.deepEqual(await faults(chain(10)), [])
  assert.match((await faults(chain(11))).join(), /Actions are nested 11 levels deep/)
  const wide = [0, 1, 2].map((at) => action(`a${at}`, Array(10).fill(`./a${at + 1}`)))
  assert.match((await faults([...wide, action('a3', [])])).join(), /The workflow has 2222 steps/)
})

test('no file exhausts the memory, the stack or the time of the thread', exhaustive, async () => {
  await using checker = createChecker(patient)
  const files = Object.entries(bombs).map(([path, text]) => ({ path, text }))
  const { workflows } = await checker.check(files, [])
  for (const { path, faults } of workflows) {
    assert.ok(faults.length > 0, path)
    for (const { message } of faults) assert.doesNotMatch(message, /^The check of/, path)
  }
})

test('a file that takes too long gets a fault, and the next one is checked', async () => {
  await using checker = createChecker({ timeoutMs: 1 })
  const slow = { path: 'slow.yml', text: 'steps:\n'.padEnd(250_000, '- run: ${{ 1 }}\n') }
  const { workflows } = await checker.check([slow], [])
  assert.deepEqual(workflows[0]?.faults.map(formatFault), [
    'slow.yml:1:1: The check of this file took too long. Instead: Make the file simpler, or split it into several.',
  ])
  await using patientChecker = createChecker(patient)
  const after = await patientChecker.check([{ path: 'a.yml', text: 'steps: [{ run: x }]' }], [])
  assert.deepEqual(after.workflows[0]?.faults, [])
})

test('an idle thread is ended, and started again when needed', exhaustive, async () => {
  await using checker = createChecker({ ...patient, idleMs: 1 })
  const file = { path: 'a.yml', text: 'steps: [{ run: x }]' }
  for (let times = 0; times < 5; times++) {
    const { workflows } = await checker.check([file], [])
    assert.deepEqual(workflows[0]?.faults, [])
    await new Promise((resolve) => setTimeout(resolve, times))
  }
})

test('too many concurrent checks are rejected, and the others complete', async () => {
  await using checker = createChecker(patient)
  const file = { path: 'a.yml', text: 'steps: [{ run: x }]' }
  const all = await Promise.allSettled(Array.from({ length: 105 }, () => checker.check([file], [])))
  assert.equal(all.filter(({ status }) => status === 'fulfilled').length, 100)
})

test('disposing a checker ends all waits', async () => {
  const checker = createChecker(patient)
  const file = { path: 'a.yml', text: 'steps: [{ run: x }]' }
  const asked = checker.check([file, file], [])
  await checker[Symbol.asyncDispose]()
  const { workflows } = await asked
  for (const { faults } of workflows) assert.match(faults[0]?.message ?? '', /was stopped/)
})

function action(folder: string, uses: string[]) {
  const steps = [...uses.map((path) => `    - uses: ${path}\n`), '    - { run: x, shell: sh }\n']
  return {
    path: `${folder}/action.yml`,
    text: `runs:\n  using: composite\n  steps:\n${steps.join('')}`,
  }
}

const size = 250_000
const fill = (piece: string, length = size) => piece.repeat(length / piece.length)
const inStep = (text: string) => `steps:\n- run: |\n    ${text}\n`
const inMatrix = (text: string) =>
  `jobs:\n a:\n  strategy:\n   matrix:\n${text}\n  steps: [{ run: x }]\n`

const bombs: Record<string, string> = {
  brackets: fill('['),
  maps: fill('{a: '),
  dashes: fill('- '),
  questions: fill('? '),
  colons: fill('a: '),
  indented: Array.from({ length: 600 }, (_, depth) => `${' '.repeat(depth)}a:\n`).join(''),
  lines: fill('\n'),
  windowsLines: fill('\r\n'),
  comments: `a:\n${fill('  #\n')}`,
  commas: `[${fill(',')}`,
  // Just within the number of parts that are looked at.
  fewerCommas: `[${fill(',', 59_000)}`,
  fewerAnchors: fill('&a ', 80_000),
  fewerStars: fill('*a ', 80_000),
  fewerKeys: Array.from({ length: 14_000 }, (_, number) => `k${number}:`).join('\n'),
  sameKeys: fill('k:\n', 40_000),
  fewerSteps: `steps:\n${fill('- run: x\n', 78_000)}`,
  keys: Array.from({ length: 40_000 }, (_, number) => `${number}:`).join('\n'),
  closing: fill(']'),
  tags: fill('!a '),
  quotes: fill('"'),
  words: fill("'a' "),
  escapes: `a: "${fill('\\q')}"`,
  badHex: `a: "${fill('\\xzz')}"`,
  documents: fill('---\n'),
  directives: fill('%a\n'),
  blocks: fill('- |\n'),
  longKey: `${fill('k')}: 1`,
  tabs: fill('\t'),
  tenMegabytes: fill('a', 10_000_000),
  laughs: `a: &a [${fill('x,', 18)}]\n${[...'bcdefghij']
    .map((name, at) => `${name}: &${name} [${fill(`*${'abcdefghij'[at]},`, 27)}]\n`)
    .join('')}`,
  longLaugh: `a: &a "${fill('x', 200_000)}"\nsteps:\n- env:\n${Array.from(
    { length: 1000 },
    (_, number) => `    A${number}: *a\n`,
  ).join('')}`,
  expressions: inStep(fill('${{ x }} ')),
  open: inStep(fill('${{')),
  parentheses: inStep(`\${{ ${fill('(', 20_000)} }}`),
  negations: inStep(`\${{ ${fill('!', 20_000)}x }}`),
  indexes: inStep(`\${{ x${fill('[0]', 20_000)} }}`),
  calls: inStep(`\${{ ${fill('format(', 20_000)} }}`),
  jobs: `jobs:\n${Array.from(
    { length: 1800 },
    (_, number) => ` j${number}: {needs: [j${number + 1}], steps: [{run: x}]}\n`,
  ).join('')}`,
  matrix: inMatrix(
    Array.from({ length: 100 }, (_, at) => `    v${at}: [1,2,3,4,5,6,7]`).join('\n'),
  ),
  exclusions: inMatrix(
    `    a: [${fill('1,', 200)}]\n    b: [${fill('1,', 200)}]\n    exclude: [${fill('{a: 2},', 20_000)}]`,
  ),
  patterns: `on: { push: { branches: [${fill("'!**a',", 30_000)}] } }\nsteps: [{ run: x }]`,
  unknownKeys: `jobs:\n a:\n${Array.from({ length: 5000 }, (_, at) => `  stepz${at}: 1\n`).join('')}`,
}

const calling = (job: string) => ({
  path: '.svc/workflows/ci.yml',
  text: `on: push\njobs:\n  call:\n    uses: ./.github/workflows/a.yml\n${job}`,
})
const callee = (name: string, on: string, jobs = '  a: { steps: [{ run: x }] }') => ({
  path: `.github/workflows/${name}.yml`,
  text: `on: ${on}\njobs:\n${jobs}\n`,
})

test('calls are checked against the workflow that they call', async () => {
  await using checker = createChecker(patient)
  const target = callee(
    'a',
    '{ workflow_call: { inputs: { n: { type: number, required: true }, s: { type: string } }, secrets: { KEY: { required: true } } } }',
  )
  const faultsOf = async (job: string, called = [target]) => {
    const checked = await checker.check([calling(job)], [], called)
    const all = [...checked.workflows, ...checked.called].flatMap(({ faults }) => faults)
    return [...all, ...missingFaults(checked)].map(formatFault)
  }
  const at = '.svc/workflows/ci.yml:4:11:'
  assert.deepEqual(await faultsOf('    with: { n: 3, s: true }\n    secrets: inherit'), [])
  assert.deepEqual(
    await faultsOf('    with: { n: "${{ github.x }}" }\n    secrets: { KEY: x }'),
    [],
  )
  assert.deepEqual(await faultsOf('    with: { n: x, t: 1 }\n    secrets: { KAY: x }'), [
    `${at} The workflow has no input "t". (.github/workflows/a.yml) Instead: Its inputs are n and s.`,
    `${at} "n" must be a number. (.github/workflows/a.yml) Instead: Its inputs are n and s.`,
    `${at} The workflow ./.github/workflows/a.yml has no secret "KAY". Instead: Write "KEY".`,
    `${at} The workflow ./.github/workflows/a.yml requires the secret "KEY". Instead: Write "secrets: inherit", or KEY: \${{ secrets.KEY }}.`,
  ])
  assert.match((await faultsOf('', [callee('a', 'push')]))[0] ?? '', /has no "on: workflow_call"/)
  assert.match(
    (await faultsOf('', []))[0] ?? '',
    /There is no file "\.\/\.github\/workflows\/a\.yml"/,
  )
})

test('calls with many names cost the server little', exhaustive, async () => {
  await using checker = createChecker(patient)
  const mapping = (count: number, value: string) =>
    `{ ${Array.from({ length: count }, (_, index) => `n${index}: ${value}`).join(', ')} }`
  const faultsOf = async (jobs: string, declared: number) => {
    const on = `{ workflow_call: { inputs: ${mapping(declared, '{ type: string }')}, secrets: ${mapping(declared, '')} } }`
    const text = `on: push\njobs:\n${jobs}`
    const files = [{ path: '.svc/workflows/ci.yml', text }]
    const checked = await checker.check(files, [], [callee('a', on)])
    return [...checked.workflows, ...checked.called].flatMap(({ faults }) => faults)
  }
  const call = (name: string, more: string) =>
    `  ${name}: { uses: ./.github/workflows/a.yml${more} }\n`
  const tooMany = call(
    'a',
    `, with: ${mapping(1000, 'x').replaceAll('n', 'm')}, secrets: ${mapping(101, 'x')}`,
  )
  assert.deepEqual(
    (await faultsOf(tooMany, 1000)).map(({ message }) => message),
    [
      '"with" has 1000 entries; the maximum is 100.',
      '"secrets" has 101 entries; the maximum is 100.',
      '"inputs" has 1000 entries; the maximum is 100.',
      '"secrets" has 1000 entries; the maximum is 100.',
    ],
  )
  const calls = Array.from({ length: 64 }, (_, index) =>
    call(`job${index}`, `, with: ${mapping(100, 'x').replaceAll('n', 'm')}`),
  )
  assert.equal((await faultsOf(calls.join(''), 100)).length, 50)
  assert.deepEqual(await faultsOf(call('a', `, with: ${mapping(100, 'x')}`), 100), [])
})

test('calls in a circle, or with too many levels, are faults', async () => {
  await using checker = createChecker(patient)
  const to = (name: string) => `  next: { uses: ./.github/workflows/${name}.yml }`
  const faultsOf = async (called: { path: string; text: string }[]) => {
    const checked = await checker.check([calling('')], [], called)
    return [...checked.workflows, ...checked.called].flatMap(({ faults }) =>
      faults.map(formatFault),
    )
  }
  const chain = ['a', 'b', 'c', 'd'].map((name, at, all) =>
    callee(name, 'workflow_call', at < all.length - 1 ? to(all[at + 1] ?? '') : undefined),
  )
  const [first, second, third] = chain
  assert.ok(first && second && third)
  assert.deepEqual(await faultsOf([first, second, callee('c', 'workflow_call')]), [])
  assert.deepEqual(await faultsOf(chain), [
    '.github/workflows/c.yml:3:17: Workflows that call each other have more than 4 levels. Instead: Put the jobs of the last one into the file that calls it.',
  ])
  assert.deepEqual(await faultsOf([first, callee('b', 'workflow_call', to('a'))]), [
    '.github/workflows/b.yml:3:17: The workflow "./.github/workflows/a.yml" calls itself, directly or not. Instead: Remove the job.',
  ])
})
