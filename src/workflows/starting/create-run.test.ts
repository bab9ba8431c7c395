import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseWorkflow } from '#actions/workflow-parser/reading/parse.ts'
import { secretValues, shownPart } from '../../../test/support/secret-parts.ts'
import { createRun } from './create-run.ts'
import { createNameMask } from './planned-runs.ts'

const texts = {
  name: 'run-name: "${{ inputs.value }}"',
  group: 'concurrency: "${{ inputs.value }}"',
  label: '',
}

test('no part of a secret appears in the name, a group or a label of a run', async () => {
  await fc.assert(
    fc.asyncProperty(
      secretValues,
      fc.oneof(fc.integer({ min: 180, max: 260 }), fc.integer({ min: 330, max: 410 })),
      fc.constantFrom('name', 'group', 'label'),
      async (secret, length, kind) => {
        const label = kind === 'label' ? ', runs-on: "${{ inputs.value }}"' : ''
        const text = `${texts[kind as keyof typeof texts]}
jobs: { a: { steps: [{ run: x }]${label} } }
`
        const { workflow, faults } = parseWorkflow({ path: 'ci.yml', text })
        assert.ok(workflow, JSON.stringify(faults))
        const workflows = [workflow]
        const mask = await createNameMask(async () => ({ KEY: secret }), 'r1', {
          workflows,
          calledWorkflows: [],
        })
        const draft = await createRun(
          {
            repository: { id: 'r1', name: 'site', owner: 'ada' },
            actor: { id: 'u1', username: 'ada' },
            event: 'workflow_dispatch',
            ref: 'refs/heads/main',
            commit: 'c'.repeat(40),
            inputs: { value: `${'~'.repeat(length)}${secret}` },
            payload: {},
            sources: {
              files: [{ path: 'ci.yml', text }],
              actions: [],
              called: [],
              workflows,
              calledWorkflows: [],
              skipped: {},
              faults: [],
              notes: [],
            },
            mask,
          },
          1,
          1,
        )
        const { name, labels } = draft.run
        const said = [name, labels, ...draft.groups, ...draft.cancels].join('\n')
        assert.equal(shownPart(said, secret), undefined, said)
        assert.equal(shownPart(said, secret.toLowerCase()), undefined, said)
      },
    ),
  )
})

test('a run whose files are too large together is refused', async () => {
  const { workflow } = parseWorkflow({ path: 'ci.yml', text: 'steps: [{ run: x }]' })
  assert.ok(workflow)
  const create = (count: number) =>
    createRun(
      {
        repository: { id: 'r1', name: 'site', owner: 'ada' },
        actor: { id: 'u1', username: 'ada' },
        ...{ event: 'push', ref: 'refs/heads/main', commit: 'c'.repeat(40) },
        ...{ inputs: {}, payload: {} },
        sources: {
          files: [],
          actions: Array.from({ length: count }, (_, index) => ({
            path: `${index}/action.yml`,
            text: 'é'.repeat(128 * 1024),
          })),
          ...{
            called: [],
            workflows: [workflow],
            calledWorkflows: [],
            skipped: {},
            faults: [],
            notes: [],
          },
        },
        mask: (text) => text,
      },
      1,
      1,
    )
  await assert.rejects(create(17), { code: 'workflow_invalid', message: /4\.3 MiB together/ })
  assert.equal(JSON.parse((await create(16)).run.sources).actions.length, 16)
})
