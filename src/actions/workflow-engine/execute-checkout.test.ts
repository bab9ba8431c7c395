import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'
import type { Checkout } from './run-state.ts'

let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

/** Runs steps, and records what they check out. */
async function runSteps(...steps: string[]) {
  const checkouts: Checkout[] = []
  const lines = steps.map((step) => `  - ${step}\n`)
  const result = await engine.run({
    workflows: `on: push\nsteps:\n${lines.join('')}`,
    files: { 'a.txt': 'a' },
    async checkOutAgain(_workspace, checkout) {
      checkouts.push(checkout)
      return { commit: 'd'.repeat(40), ref: checkout.source.ref ?? 'refs/heads/main' }
    },
  })
  return { ...result, checkouts }
}

const uses = (inputs: string) => `{ uses: actions/checkout@v4, with: { ${inputs} } }`
const plain = { ref: undefined, depth: 1, tags: false }

test('a checkout of the commit of the run has nothing to do', async () => {
  for (const inputs of [
    '',
    'ref: "${{ github.sha }}"',
    'ref: "${{ github.ref }}"',
    'ref: "${{ github.ref_name }}"',
    'ref: "${{ github.event.pull_request.head.sha }}"',
    'repository: "${{ github.repository }}"',
    'repository: "${{ github.event.pull_request.head.repo.full_name }}"',
    'path: ., fetch-depth: 1, clean: true',
  ]) {
    const { conclusion, checkouts, log, outputOf } = await runSteps(
      uses(inputs).replace('{', '{ id: c,'),
      '{ name: after, run: "echo ${{ steps.c.outputs.ref }} ${{ steps.c.outputs.commit }}" }',
    )
    assert.equal(conclusion, 'success', log)
    assert.equal(outputOf('after'), `refs/heads/main ${'c'.repeat(40)}\n`)
    assert.deepEqual(checkouts, [], inputs)
  }
})

test('a path of an expression is known only when the step starts', async () => {
  const { checkouts } = await runSteps(uses('path: "${{ github.workspace }}"'))
  assert.deepEqual(checkouts, [{ source: plain, folder: '', files: 'replace' }])
})

test('inputs choose the commits, the folder and the files', async () => {
  const { checkouts, log } = await runSteps(
    uses('fetch-depth: 0'),
    uses('fetch-tags: "${{ true }}", path: ./a/../b'),
    uses('ref: v1, clean: false, path: b'),
    uses('ref: v1'),
  )
  assert.deepEqual(
    checkouts,
    [
      { source: { ...plain, depth: 0 }, folder: '', files: 'keep' },
      { source: { ...plain, tags: true }, folder: 'b', files: 'replace' },
      { source: { ...plain, ref: 'v1' }, folder: 'b', files: 'add' },
      { source: { ...plain, ref: 'v1' }, folder: '', files: 'replace' },
    ],
    log,
  )
})

test('the workspace is empty at the start when all checkouts are into folders', async () => {
  const list = '{ name: list, run: ls }'
  const folders = await runSteps(list, uses('path: x'), uses('path: "y/${{ github.job }}"'))
  assert.equal(folders.outputOf('list'), '')
  const both = await runSteps(list, uses('path: x'), uses(''))
  assert.equal(both.outputOf('list'), 'a.txt\n')
  assert.equal((await runSteps(list)).outputOf('list'), 'a.txt\n')
})

test('a checkout of another repository, or with inputs that have no sense, fails', async () => {
  for (const [inputs, fault] of [
    ['repository: "${{ github.actor }}/tools"', /the repository ada\/site only, not ada\/tools\./],
    [
      'path: "${{ github.actor }}/../.."',
      /path is ada\/..\/\.\., which is not below the workspace/,
    ],
    ['path: "/${{ github.actor }}"', /path is \/ada, which is not below the workspace/],
    ['fetch-depth: "${{ github.actor }}"', /fetch-depth is ada, which is no number of commits/],
    ['fetch-tags: "${{ github.actor }}"', /fetch-tags is ada, which is neither true nor false/],
    ['ref: x, clean: "${{ github.actor }}"', /clean is ada, which is neither true nor false/],
  ] as const) {
    const { conclusion, checkouts, log } = await runSteps(uses(inputs))
    assert.equal(conclusion, 'failure', inputs)
    assert.match(log, fault)
    assert.deepEqual(checkouts, [])
  }
})

test('commits that cannot be fetched fail the step with the reason', async () => {
  const result = await engine.run({
    workflows: `on: push\nsteps:\n  - ${uses('ref: gone')}\n  - { if: always(), name: after, run: ls }`,
    files: { 'a.txt': 'a' },
    checkOutAgain: () => Promise.reject(new Error('There is no branch gone.')),
  })
  assert.equal(result.conclusion, 'failure')
  assert.match(result.log, /There is no branch gone\./)
  assert.equal(result.outputOf('after'), 'a.txt\n')
})
