import { Type } from 'typebox'
import { closed } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { route } from '#http/route.ts'
import type { OpenRepository } from '#repositories/open-repository.ts'
import { FaultSchema, NoteSchema } from '../views/run-schemas.ts'
import { BranchToRun, FilePath, Files } from './run-requests.ts'
import type { Runs } from './runs.ts'

type Dependencies = { open: OpenRepository; runs: Pick<Runs, 'validate'> }

/** The routes of workflow files. */
export function workflowFileRoutes({ open, runs }: Dependencies) {
  return [
    route('POST', '/repos/:name/workflows/validate', {
      operationId: 'validateWorkflows',
      tag: 'workflow runs',
      summary: 'Validate workflow files',
      description:
        'Checks the files in `contents`, or else those of the branch: the named `files`, or all of .svc/workflows, or ' +
        'if it has none, of .github/workflows. Actions of the repository that the files use are read from the ' +
        'branch. Nothing is run.',
      permission: 'workflow:read',
      find: open,
      body: Type.Object(
        {
          branch: Type.Optional(BranchToRun),
          files: Type.Optional(Files),
          contents: Type.Optional(
            Type.Array(
              Type.Object(
                { path: FilePath, text: Type.String({ description: 'the content of the file' }) },
                closed,
              ),
              { description: 'files to check; they need not be in the repository', maxItems: 50 },
            ),
          ),
        },
        closed,
      ),
      reply: {
        200: WorkflowValidation,
      },
      problems: [
        'repository_not_found',
        'repository_importing',
        'ref_not_found',
        'workflow_not_found',
        'checks_busy',
      ],
      handle: async ({ found, body }) => {
        const { faults, notes, workflows } = await runs.validate(found, body)
        const inputs = workflows.flatMap(({ on }) => Object.entries(on.dispatch?.inputs ?? {}))
        return {
          valid: faults.length === 0,
          faults,
          notes,
          inputs: inputs.map(([name, input]) => ({
            name,
            ...input,
            default: input.default ?? null,
          })),
        }
      },
    }),
  ]
}

const DispatchInput = Type.Object({
  name: Type.String({ description: 'the name of the input' }),
  type: Type.Enum(['string', 'boolean', 'number', 'choice'], { description: 'its type' }),
  description: Type.String({ description: 'what it is for; may be empty' }),
  required: Type.Boolean({ description: 'whether a run needs a value' }),
  default: Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()], {
    description: 'its value when none is given; null without one',
  }),
  options: Type.Array(Type.String(), { description: 'the values of a choice' }),
})

/** The result of a check of workflow files. */
export const WorkflowValidation = named(
  'WorkflowValidation',
  Type.Object({
    valid: Type.Boolean(),
    faults: Type.Array(FaultSchema),
    notes: Type.Array(NoteSchema, { description: 'what is valid, but has no effect' }),
    inputs: Type.Array(DispatchInput, {
      description: 'the inputs of `on.workflow_dispatch` of the files that are valid',
    }),
  }),
)
