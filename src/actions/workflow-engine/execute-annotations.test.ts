import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Engine, startEngine } from '../../../test/support/engine.ts'
import type { RunEntry } from './plan.ts'

let engine: Engine
before(async () => {
  engine = await startEngine()
})
after(() => engine[Symbol.asyncDispose]())

type AnnotationEntry = RunEntry & { kind: 'annotation' }

async function annotations(script: string, secrets: Record<string, string> = {}) {
  const { entries, steps } = await engine.run({
    workflows: `steps:\n  - run: |\n      ${script.replaceAll('\n', '\n      ')}\n`,
    plan: { secrets },
  })
  const found = entries.filter((entry): entry is AnnotationEntry => entry.kind === 'annotation')
  return { found, output: steps[0]?.output ?? '' }
}

const nowhere = { file: '', line: null, endLine: null, column: null, endColumn: null }

test('errors, warnings and notices become annotations, and stay in the log', async () => {
  const { found, output } = await annotations(`
echo '::error file=src/a.js,line=3,endLine=5,col=2,title=No%2C not so::It is%0Awrong: 100%25'
echo "::warning file=$PWD/./b.js,line=7,col=1,endColumn=9::careful"
echo '::notice::plain'
echo 'not ::error::at the start'`)
  assert.deepEqual(found, [
    {
      ...{ kind: 'annotation', step: 0, level: 'error', file: 'src/a.js', line: 3, endLine: 5 },
      ...{ column: 2, endColumn: null, title: 'No, not so', message: 'It is\nwrong: 100%' },
    },
    {
      ...{ kind: 'annotation', step: 0, level: 'warning', file: 'b.js', line: 7, endLine: 7 },
      ...{ column: 1, endColumn: 9, title: '', message: 'careful' },
    },
    { kind: 'annotation', step: 0, level: 'notice', ...nowhere, title: '', message: 'plain' },
  ])
  assert.match(output, /^::error file=src\/a\.js/m)
})

test('positions that are not valid are left out', async () => {
  const { found } = await annotations(`
echo '::error file=/etc/passwd,line=1::a'
echo '::error file=../x,line=1::b'
echo '::error file=x,line=0,col=1::c'
echo '::error file=x,line=4,endLine=2,col=1e3::d'
echo '::error line=4::e'
echo '::error file=x,line=99999999999::f'`)
  assert.deepEqual(
    found.map(({ file, line, endLine, column }) => [file, line, endLine, column]),
    [
      ['', null, null, null],
      ['', null, null, null],
      ['x', null, null, null],
      ['x', 4, 4, null],
      ['', null, null, null],
      ['x', null, null, null],
    ],
  )
})

test('a step has at most 10 annotations of each level', async () => {
  const { found, output } = await annotations(
    'for i in $(seq 30); do echo "::error::e$i"; echo "::notice::n$i"; done',
  )
  assert.equal(found.length, 20)
  assert.equal(output.match(/::error::/g)?.length, 30)
})

test('a run has at most 200 annotations', async () => {
  const step = `{ run: 'for i in $(seq 10); do echo "::error::e"; echo "::notice::n"; done' }`
  const { entries } = await engine.run({ workflows: `steps: [${Array(12).fill(step).join(', ')}]` })
  assert.equal(entries.filter(({ kind }) => kind === 'annotation').length, 200)
})

test('annotations are masked', async () => {
  const { found } = await annotations(
    'echo "::error file=$A.js,line=1,title=$A::$A"; echo "::error::x${A}y"',
    { A: 'hunter2secret' },
  )
  assert.doesNotMatch(JSON.stringify(found), /hunter2/)
  assert.deepEqual(
    found.map(({ file, message }) => [file, message]),
    [
      ['', '***'],
      ['', 'x***y'],
    ],
  )
})

test('lines for debugging are shown only when a secret requests it', async () => {
  const script = "echo a; echo '::debug::b'; echo true"
  assert.equal((await annotations(script)).output, 'a\ntrue\n')
  const { output } = await annotations(script, { ACTIONS_STEP_DEBUG: 'true' })
  assert.equal(output, 'a\n::debug::b\ntrue\n')
})
