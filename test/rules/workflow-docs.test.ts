import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import {
  availability,
  contextNames,
  functionsAt,
} from '#actions/workflow-parser/expressions/workflow-keys.ts'
import { parseAction, parseWorkflow } from '#actions/workflow-parser/reading/parse.ts'
import { foreignEvents } from '#actions/workflow-parser/reading/read-triggers.ts'

const page = readFileSync(
  fileURLToPath(new URL('../../docs/workflows.md', import.meta.url)),
  'utf8',
)

test('the examples of docs/workflows.md have no faults', () => {
  const blocks = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, text = '']) => text)
  assert.ok(blocks.length >= 3)
  for (const text of blocks) {
    const [, path = ''] = /^# (\S+)\n/.exec(text) ?? []
    const parse = path.endsWith('/action.yml') ? parseAction : parseWorkflow
    assert.deepEqual(parse({ path, text }).faults, [], path)
  }
})

test('docs/workflows.md names all contexts, functions and events that never happen here', () => {
  const functions = functionsAt(availability['step.if'])
  for (const name of [...contextNames, ...functions, ...Object.keys(foreignEvents)]) {
    assert.ok(new RegExp(`\\W${name}\\W`).test(page), name)
  }
})

const unknown = 'zzzzzzzz: 1'
const run = 'steps: [{ run: a }]'
const places: Record<string, string> = {
  'the file': `${unknown}\n${run}`,
  '`on.push`': `on: { push: { ${unknown} } }\n${run}`,
  '`on.pull_request`': `on: { pull_request: { ${unknown} } }\n${run}`,
  '`on.merge_group`': `on: { merge_group: { ${unknown} } }\n${run}`,
  '`on.workflow_dispatch.inputs.<id>`': `on: { workflow_dispatch: { inputs: { a: { ${unknown} } } } }\n${run}`,
  '`on.workflow_call.inputs.<id>`': `on: { workflow_call: { inputs: { a: { type: string, ${unknown} } } } }\n${run}`,
  '`on.workflow_call.outputs.<id>`': `on: { workflow_call: { outputs: { a: { value: x, ${unknown} } } } }\n${run}`,
  '`on.workflow_call.secrets.<id>`': `on: { workflow_call: { secrets: { a: { ${unknown} } } } }\n${run}`,
  '`on.schedule`, each': `on: { schedule: [{ cron: "1 1 1 1 1", ${unknown} }] }\n${run}`,
  '`defaults.run`': `defaults: { run: { ${unknown} } }\n${run}`,
  '`concurrency`': `concurrency: { group: a, ${unknown} }\n${run}`,
  '`jobs.<id>`': `jobs: { a: { ${unknown}, ${run} } }`,
  '`jobs.<id>.strategy`': `jobs: { a: { strategy: { ${unknown} }, ${run} } }`,
  'a step': `steps: [{ run: a, ${unknown} }]`,
}

test('docs/workflows.md names every accepted key', () => {
  for (const [place, text] of Object.entries(places)) {
    const [fault] = parseWorkflow({ path: 'a.yml', text }).faults
    const [, list = ''] = /^Use one of (.*)\.$/.exec(fault?.instead ?? '') ?? []
    const keys = list.split(/, | or /)
    const row = page.split('\n').find((line) => line.startsWith(`| ${place} |`)) ?? ''
    assert.ok(keys.length > 1, `${place}: ${fault?.instead}`)
    for (const key of keys) assert.ok(row.includes(`\`${key}\``), `${place}: ${key}`)
  }
})
