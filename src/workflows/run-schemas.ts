import { type TProperties, type TSchema, Type } from 'typebox'
import { named } from '../http/named-schemas.ts'

function orNull<T extends TSchema>(schema: T) {
  return Type.Union([schema, Type.Null()])
}

const time = Type.Integer({ description: 'milliseconds since the Unix epoch' })
const text = Type.String()
const conclusion = orNull(
  Type.Enum(['success', 'failure', 'cancelled', 'timed_out', 'skipped'], {
    description:
      '`success`, `failure`, `cancelled`, `timed_out` or `skipped`; null until it has completed',
  }),
)
const status = Type.Enum(['queued', 'running', 'completed'], {
  description: '`queued`, `running` or `completed`',
})

const Step = named(
  'Step',
  Type.Object({
    number: Type.Integer({
      description: 'counts the steps of the run from 0; for `?step=` of its log',
    }),
    name: text,
    workflow: Type.String({ description: "the workflow's name" }),
    file: Type.String({ description: 'its file' }),
    job: Type.String({ description: "the job's name" }),
    status,
    conclusion,
    success: Type.Boolean(),
    exitCode: orNull(Type.Integer()),
    output: Type.String({
      description: 'standard output and error as they came, secrets masked; in lists the end of it',
    }),
    fault: orNull(Type.String({ description: 'why it failed, where the exit code does not tell' })),
    summary: orNull(
      Type.String({ description: 'what it wrote to $GITHUB_STEP_SUMMARY; in lists null' }),
    ),
    startedAt: orNull(time),
    completedAt: orNull(time),
    duration: Type.Integer({ description: 'milliseconds' }),
  }),
)

const run = {
  id: text,
  repoName: Type.String({ description: "the repository's name" }),
  number: Type.Integer({ description: 'counts the runs of the repository from 1' }),
  name: Type.String({ description: 'the `run-name`, else the names of its workflows' }),
  branch: Type.String({ description: 'the branch or tag' }),
  ref: Type.String({ description: 'the full name of it' }),
  commit: Type.String({ description: 'what it pointed to when the run was accepted' }),
  event: Type.Enum(['push', 'workflow_dispatch', 'schedule'], {
    description: '`push`, `workflow_dispatch` or `schedule`',
  }),
  actor: Type.String({ description: 'the username of whoever caused it' }),
  files: Type.Array(Type.String(), { description: 'the workflow files, in order' }),
  labels: Type.Array(Type.String(), { description: 'labels that its runner must have' }),
  inputs: Type.Unsafe<Record<string, string | number | boolean>>({ type: 'object' }),
  status,
  conclusion,
  attempt: Type.Integer({ description: 'counts its attempts from 1' }),
  createdAt: time,
  queuedAt: time,
  startedAt: orNull(time),
  completedAt: orNull(time),
  isolation: orNull(Type.String({ description: 'what isolation its steps really had' })),
  fault: orNull(Type.String({ description: 'why it ended, where no step tells' })),
  result: orNull(
    Type.Object(
      {
        success: Type.Boolean(),
        duration: Type.Integer({ description: 'milliseconds' }),
        steps: Type.Array(Step),
      },
      { description: 'null until it has completed' },
    ),
  ),
  steps: orNull(Type.Array(Step, { description: 'while it has not completed: how far it is' })),
} satisfies TProperties

/** What is told of a run to those who may start and end it, and perhaps not read it. */
export const RunState = named(
  'RunState',
  Type.Object({
    id: run.id,
    number: run.number,
    status: run.status,
    conclusion: run.conclusion,
    attempt: run.attempt,
    actor: run.actor,
  }),
)

/** A run in a list. */
export const ListedRun = named('RunSummary', Type.Object(run))

/** A run by itself. */
export const Run = named(
  'Run',
  Type.Object({
    ...run,
    jobs: Type.Array(
      Type.Object({
        id: text,
        name: text,
        workflow: text,
        file: text,
        matrix: orNull(Type.Unsafe<Record<string, unknown>>({ type: 'object' })),
        status,
        conclusion,
        fault: orNull(text),
        startedAt: orNull(time),
        completedAt: orNull(time),
      }),
    ),
    attempts: Type.Array(
      Type.Object({
        attempt: Type.Integer(),
        actor: text,
        conclusion,
        startedAt: orNull(time),
        completedAt: orNull(time),
      }),
      { description: 'those before the present one; their logs are at `…/logs?attempt=`' },
    ),
    failure: orNull(
      Type.Object(
        {
          workflow: orNull(text),
          job: orNull(text),
          step: orNull(text),
          exitCode: orNull(Type.Integer()),
          reason: orNull(text),
          lastLines: Type.Array(text, { description: 'the last 50 lines of the step' }),
          lastGreenRun: orNull(
            Type.Object({
              id: text,
              number: Type.Integer(),
              commit: text,
              completedAt: orNull(time),
            }),
          ),
          commitsSince: Type.Array(Type.Object({ id: text, author: text, message: text }), {
            description:
              'commits since the last green run of the same files and branch, newest first, at most 50',
          }),
        },
        { description: 'what failed; null unless something has' },
      ),
    ),
  }),
)

/** What is wrong with a workflow file. */
export const FaultSchema = named(
  'WorkflowFault',
  Type.Object({
    file: text,
    line: Type.Integer(),
    column: Type.Integer(),
    message: text,
    instead: Type.String({ description: 'what to write instead' }),
  }),
)
