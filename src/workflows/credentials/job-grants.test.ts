import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWorkflow } from '#actions/workflow-parser/reading/parse.ts'
import type { Workflow } from '#actions/workflow-parser/workflow.ts'
import { grantsOf } from './job-tokens.ts'

function parsed(path: string, text: string): Workflow {
  const { workflow, faults } = parseWorkflow({ path, text })
  assert.deepEqual(faults, [])
  return workflow ?? assert.fail()
}

const folder = '.svc/workflows'

test('jobs with the same permissions share a token; a called workflow gets no more than its caller has', () => {
  const called = parsed(
    `${folder}/called.yml`,
    `
on: workflow_call
jobs:
  same: { runs-on: x, steps: [{ run: x }] }
  more: { runs-on: x, permissions: write-all, steps: [{ run: x }] }
  less: { runs-on: x, permissions: { actions: read }, steps: [{ run: x }] }
`,
  )
  const file = parsed(
    `${folder}/ci.yml`,
    `
name: "a\\0b"
on: push
jobs:
  one: { runs-on: x, steps: [{ run: x }] }
  two: { runs-on: x, permissions: { contents: read }, steps: [{ run: x }] }
  call: { permissions: { contents: write, id-token: write }, uses: ./${folder}/called.yml }
`,
  )
  const grants = grantsOf([file], [called])
  assert.ok(grants.every((grant) => grant.file === file.path && grant.workflow === 'a\ufffdb'))
  const level = ({ jobFile, permissions }: (typeof grants)[number]) => [
    jobFile,
    ...Object.values(permissions),
  ]
  assert.deepEqual(grants.map(level), [
    [file.path, 'read', 'none', false],
    [called.path, 'write', 'none', true],
    [called.path, 'none', 'none', false],
  ])
})

test('a run with very many different permissions is refused', () => {
  const levels = ['none', 'read', 'write']
  const all = levels.flatMap((contents) =>
    levels.flatMap((actions) =>
      ['none', 'write'].map(
        (id) => `{ contents: ${contents}, actions: ${actions}, id-token: ${id} }`,
      ),
    ),
  )
  const paths = Array.from({ length: 20 }, (_, index) => `${folder}/${index}.yml`)
  const workflows = paths.map((path, index) => {
    const next = paths[index + 1]
    const jobs = all.map((permissions, job) =>
      next
        ? `  j${job}: { permissions: ${permissions}, uses: ./${next} }\n`
        : `  j${job}: { runs-on: x, permissions: ${permissions}, steps: [{ run: x }] }\n`,
    )
    return parsed(path, `on: [push, workflow_call]\njobs:\n${jobs.join('')}`)
  })
  assert.throws(() => grantsOf(workflows.slice(0, 1), workflows), { code: 'workflow_invalid' })
  assert.equal(grantsOf(workflows.slice(-1), workflows).length, 18)
})
