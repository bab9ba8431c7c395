import { Type } from 'typebox'
import { workflowsFolder } from '#actions/workflow-parser/workflow-folders.ts'
import { closed } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'

export const BranchToRun = Type.String({
  description:
    'a branch, or the full name of a tag, such as `refs/tags/v1`; defaults to the default branch',
  minLength: 1,
  maxLength: 500,
})
export const FilePath = Type.String({
  description: `\`ci.yml\` or \`${workflowsFolder}/ci.yml\``,
  minLength: 1,
  maxLength: 500,
})
export const Files = Type.Array(FilePath, {
  description: 'workflow files, in order; defaults to all',
  minItems: 1,
  maxItems: 50,
})

/** The request to run workflows. */
export const NewRun = Type.Object(
  {
    branch: Type.Optional(BranchToRun),
    files: Type.Optional(Files),
    inputs: Type.Optional(
      Type.Unsafe<Record<string, string | number | boolean>>({
        type: 'object',
        description: 'values for the inputs of `on.workflow_dispatch`',
        maxProperties: 100,
        additionalProperties: {
          anyOf: [{ type: 'string' }, { type: 'number' }, { type: 'boolean' }],
        },
      }),
    ),
  },
  closed,
)

/** A run that has just been created. */
export const QueuedRun = named(
  'QueuedRun',
  Type.Object({
    id: Type.String({ description: 'the id of the run' }),
    number: Type.Integer({
      description: 'the number of the run in its repository, from 1',
    }),
    status: Type.String({ description: '`queued`' }),
  }),
)
