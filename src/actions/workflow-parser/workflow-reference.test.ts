import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Engine, startEngine } from '../../../test/support/engine.ts'
import { without } from '../../../test/support/programs.ts'
import { evaluateValue } from './expressions/evaluate.ts'

// The tables of docs/workflows.md, which were compared with GitHub's pages "Expressions", "Contexts" and "Workflow
// commands".

const page = readFileSync(
  fileURLToPath(new URL('../../../docs/workflows.md', import.meta.url)),
  'utf8',
)

/** The rows of the table with a header, each cell without its backticks. */
function rowsOf(header: string): string[][] {
  const [, table = ''] = page.split(`| ${header} |\n`)
  const lines = table.split('\n').slice(1)
  const rows = lines.slice(0, lines.indexOf(''))
  return rows.map((row) =>
    row
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) =>
        cell
          .trim()
          .replace(/^`(.*)`$/, '$1')
          .replaceAll('\\|', '|'),
      ),
  )
}

const scope = {
  contexts: {},
  status: { success: true, failure: false, cancelled: false },
  hashFiles: () => '',
}

test('expressions have the documented values', () => {
  const rows = rowsOf('expression | value | rule')
  assert.ok(rows.length > 30)
  for (const [expression = '', value = ''] of rows) {
    const position = { file: 'docs/workflows.md', line: 1, column: 1 }
    const template = { text: `\${{ ${expression} }}`, position }
    assert.deepEqual(evaluateValue(template, scope), JSON.parse(value), expression)
  }
})

let engine: Engine

before(async () => {
  engine = await startEngine()
})

after(() => engine[Symbol.asyncDispose]())

test('what a step leaves for the next one is as documented', {
  skip: without('bubblewrap'),
}, async () => {
  const rows = rowsOf('a step with the id `one` | the next step | prints')
  assert.ok(rows.length > 10)
  const jobs = rows.map(([first = '', second = ''], index) => [
    `job${index}`,
    {
      steps: [
        { id: 'one', run: first },
        { name: `next${index}`, run: second },
      ],
    },
  ])
  // JSON is YAML.
  const text = JSON.stringify({ on: 'push', jobs: Object.fromEntries(jobs) })
  const result = await engine.run({ workflows: text })
  assert.equal(result.conclusion, 'success', result.log)
  for (const [index, [first = '', , printed = '']] of rows.entries()) {
    assert.equal(result.outputOf(`next${index}`), `${printed}\n`, first)
  }
})

test('contexts have the documented properties, and no others', async () => {
  const names = ['github', 'strategy', 'job', 'runner']
  const steps = names.map((name) => ({ name, run: `echo '\${{ toJSON(${name}) }}'` }))
  const text = JSON.stringify({ on: 'push', jobs: { one: { steps } } })
  const result = await engine.run({ workflows: text })
  for (const name of names) {
    const row = page.split('\n').find((line) => line.startsWith(`| \`${name}\` |`)) ?? ''
    const documented = [...row.matchAll(/`([\w-]+)`/g)].map(([, property = '']) => property)
    const keys = Object.keys(JSON.parse(result.outputOf(name)))
    const inActions = name === 'github' ? ['action_path', 'action_status'] : []
    assert.deepEqual(
      [...new Set(documented)].filter((one) => one !== name && one !== 'true').sort(),
      [...keys, ...inActions].sort(),
      name,
    )
  }
})
