import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'

let engine: Engine
before(async () => {
  // V8 reserves address space, which counts as data.
  engine = await startEngine({ memoryMaxBytes: 2 * 1024 ** 3 })
})
after(() => engine[Symbol.asyncDispose]())

const greet = `
inputs: { who-is: { default: world }, loud: {} }
outputs: { said: { description: what was said } }
runs: { using: node20, pre: pre.js, main: dist/main.js, post: dist/post.js }
`
const greetFiles = {
  'greet/pre.js': `
    const fs = require('fs')
    fs.appendFileSync(process.env.GITHUB_STATE, 'early=1\\n')
    console.log('pre of', process.env['INPUT_WHO-IS'])`,
  'greet/dist/main.js': `
    const fs = require('fs')
    const { env } = process
    console.log('hello', env['INPUT_WHO-IS'], JSON.stringify(env.INPUT_LOUD), env.INPUT_MORE)
    console.log('::save-state name=later::a%0Ab')
    fs.appendFileSync(env.GITHUB_OUTPUT, 'said=hello\\n')
    fs.appendFileSync(env.GITHUB_ENV, 'GREETED=yes\\n')
    console.log(process.cwd(), env.STATE_early, env.GITHUB_ACTION)`,
  'greet/dist/post.js': `
    console.log('post', JSON.stringify(process.env.STATE_later), process.env.STATE_early)`,
}

test('an action for Node.js runs before, among and after the steps of its job', async () => {
  const result = await engine.run({
    workflows: `
steps:
  - uses: ./greet
    id: greet
    with: { who-is: Ada, more: undeclared }
  - name: after
    run: echo "$GREETED \${{ steps.greet.outputs.said }}"
`,
    actions: { greet },
    files: greetFiles,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.deepEqual(
    result.steps.map(({ name }) => name),
    ['Pre Run ./greet', 'Run ./greet', 'after', 'Post Run ./greet'],
  )
  assert.match(result.outputOf('Pre Run ./greet'), /pre of Ada/)
  const main = result.outputOf('Run ./greet')
  assert.match(main, /^Node\.js \d+\.\d+\.\d+ runs this action, which names node20\.$/m)
  assert.match(main, /^hello Ada "" undeclared$/m)
  assert.match(main, /^\S*\/workspace 1 greet$/m)
  assert.doesNotMatch(main, /save-state/)
  assert.equal(result.outputOf('after'), 'yes hello\n')
  assert.match(result.outputOf('Post Run ./greet'), /^post "a\\nb" 1$/m)
})

const hook = (file: string, extra = '') =>
  `runs: { using: node24, main: ${file}, post: post.js${extra} }`
const names = (extra = '') => ({
  actions: { a: hook('main.js', extra), b: hook('main.js', extra) },
  files: Object.fromEntries(
    ['a', 'b'].flatMap((name) => [
      [`${name}/main.js`, `console.log('main of ${name}')`],
      [`${name}/post.js`, `console.log('post of ${name}', process.env.INPUT_OF)`],
    ]),
  ),
})

test('posts run in reverse order, also after a failure, but not for steps that did not start', async () => {
  const { actions, files } = names()
  const result = await engine.run({
    workflows: `
steps:
  - uses: ./a
    with: { of: first }
  - uses: ./b
    with: { of: second }
  - uses: ./a
    if: false
  - run: exit 3
  - uses: ./b
`,
    actions,
    files,
  })
  assert.equal(result.conclusion, 'failure')
  const posts = result.steps.filter(({ name }) => name?.startsWith('Post '))
  assert.deepEqual(
    posts.map(({ name, conclusion }) => [name, conclusion]),
    [
      ['Post Run ./a', 'success'],
      ['Post Run ./b', 'success'],
    ],
  )
  const order = result.log.match(/post of \w \w+/g)
  assert.deepEqual(order, ['post of b second', 'post of a first'])
})

test('post-if decides by the state of the job', async () => {
  const { actions, files } = names(', post-if: success()')
  const run = (last: string) =>
    engine.run({ workflows: `steps: [{ uses: ./a }, { run: ${last} }]`, actions, files })
  const [good, bad] = [await run('true'), await run('false')]
  assert.equal(good.stepConclusions['Post Run ./a'], 'success')
  assert.equal(bad.stepConclusions['Post Run ./a'], 'skipped')
})

test('a failing post fails its job, and one that is missing says so', async () => {
  const result = await engine.run({
    workflows: `
jobs:
  fails: { steps: [{ uses: ./a }] }
  tolerated: { steps: [{ uses: ./a, continue-on-error: true }] }
  missing: { steps: [{ uses: ./b }] }
`,
    actions: { a: hook('main.js'), b: hook('main.js') },
    files: { 'a/main.js': '', 'b/main.js': '', 'a/post.js': 'process.exit(4)' },
  })
  assert.deepEqual(result.jobConclusions, {
    fails: 'failure',
    tolerated: 'success',
    missing: 'failure',
  })
  assert.match(result.log, /Cannot find module '\S*b\/post\.js'/)
})

test('actions within composite actions get the inputs around them, and have their posts', async () => {
  const result = await engine.run({
    workflows: 'steps: [{ uses: ./outer, with: { name: Ada } }, { run: echo between }]',
    actions: {
      outer: `
inputs: { name: {} }
runs:
  using: composite
  steps:
    - uses: ./a
      with: { of: "\${{ inputs.name }}" }
`,
      a: hook('main.js'),
    },
    files: names().files,
  })
  assert.equal(result.conclusion, 'success', result.log)
  assert.match(result.log, /main of a[\s\S]*between[\s\S]*post of a Ada/)
  assert.equal(result.steps.at(-1)?.name, 'Post Run ./outer / Run ./a')
})

test('a cancelled job runs its posts, unless it is killed', async () => {
  const { actions, files } = names()
  const run = async (kind: 'signal' | 'kill') => {
    const stop = new AbortController()
    return engine.run({
      workflows: 'steps: [{ uses: ./a }, { run: "echo ready; sleep 60" }]',
      actions,
      files,
      [kind]: stop.signal,
      onEntry(entry) {
        if (entry.kind === 'output' && entry.text.includes('ready')) stop.abort()
      },
    })
  }
  const cancelled = await run('signal')
  assert.equal(cancelled.conclusion, 'cancelled')
  assert.equal(cancelled.stepConclusions['Post Run ./a'], 'success')
  const killed = await run('kill')
  assert.equal(killed.conclusion, 'cancelled')
  assert.notEqual(killed.stepConclusions['Post Run ./a'], 'success')
})

test('a program runs with the walls and the limits of a step', async () => {
  const result = await engine.run({
    workflows: `
steps:
  - uses: ./a
    timeout-minutes: 0.02
`,
    actions: { a: 'runs: { using: node24, main: ../a/main.js }' },
    files: {
      'a/main.js': `
        const fs = require('fs')
        for (const path of ['/etc/shadow', '/svc-node'])
          try { fs.appendFileSync(path, '') ; console.log('wrote', path) } catch (e) { console.log(e.code, path) }
        setInterval(() => {}, 1000)`,
    },
  })
  assert.equal(result.conclusion, 'timed_out')
  assert.doesNotMatch(result.log, /wrote/)
})

test('jobs that do not run leave no step open', async () => {
  const result = await engine.run({
    workflows: `
jobs:
  first: { steps: [{ run: exit 1 }] }
  second: { needs: first, steps: [{ uses: ./greet }] }
`,
    actions: { greet },
    files: greetFiles,
  })
  const open = result.steps.filter(({ conclusion }) => conclusion === undefined)
  assert.deepEqual(open, [])
  assert.equal(result.stepConclusions['Pre Run ./greet'], 'skipped')
})
