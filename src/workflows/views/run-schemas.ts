import { type TProperties, Type } from 'typebox'
import { triggerKinds } from '#actions/workflow-engine/plan.ts'
import { field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'

const { orNull } = field
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
      description: 'the number of the step in its run, from 0; use it as `?step=` of the log',
    }),
    name: text,
    workflow: Type.String({ description: 'the name of the workflow' }),
    file: Type.String({ description: 'the path of the workflow file' }),
    job: Type.String({ description: 'the name of the job' }),
    status,
    conclusion,
    success: Type.Boolean(),
    exitCode: orNull(Type.Integer()),
    output: Type.String({
      description:
        'standard output and standard error, interleaved, with secrets masked; in lists, only the end',
    }),
    fault: orNull(Type.String({ description: 'why the step failed, if not by its exit code' })),
    summary: orNull(
      Type.String({ description: 'the content of $GITHUB_STEP_SUMMARY; null in lists' }),
    ),
    startedAt: orNull(time),
    completedAt: orNull(time),
    duration: Type.Integer({ description: 'milliseconds' }),
  }),
)

const run = {
  id: text,
  repoName: Type.String({ description: 'the name of the repository' }),
  number: Type.Integer({ description: 'the number of the run in its repository, from 1' }),
  name: Type.String({ description: 'the `run-name`, or else the names of the workflows' }),
  branch: Type.String({
    description: 'the branch or tag; of a version of a change the same as `ref`',
  }),
  ref: Type.String({
    description: 'the full name of the branch or tag; of a version of a change `refs/changes/7/1`',
  }),
  commit: Type.String({ description: 'the commit that it pointed to when the run was accepted' }),
  event: Type.Enum([...triggerKinds], {
    description:
      '`push`, `pull_request` (a version of a change), `merge_group` (the queue), `workflow_dispatch` or `schedule`',
  }),
  actor: Type.String({ description: 'the username of the user who triggered the run' }),
  files: Type.Array(Type.String(), { description: 'the workflow files, in order' }),
  labels: Type.Array(Type.String(), { description: 'labels that the runner must have' }),
  restricted: Type.Boolean({
    description:
      'whether its commit is of a user who might not push when it was created, so that it has no secrets and saves no caches',
  }),
  needsApproval: Type.Boolean({
    description: 'whether it stays queued until a user who may push approves it',
  }),
  inputs: Type.Unsafe<Record<string, string | number | boolean>>({ type: 'object' }),
  status,
  conclusion,
  attempt: Type.Integer({ description: 'the number of the latest attempt, from 1' }),
  createdAt: time,
  queuedAt: time,
  startedAt: orNull(time),
  completedAt: orNull(time),
  isolation: orNull(Type.String({ description: 'the isolation that the steps actually had' })),
  fault: orNull(Type.String({ description: 'why the run ended, if not because of a step' })),
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
  steps: orNull(Type.Array(Step, { description: 'the steps so far; null once it has completed' })),
} satisfies TProperties

/** The part of a run that is shown to principals who may trigger runs, but perhaps not read them. */
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

const position = orNull(Type.Integer({ description: 'counted from 1; null if not given' }))

const annotation = {
  step: Type.Integer({ description: 'the number of the step that reported it' }),
  level: Type.Enum(['error', 'warning', 'notice'], {
    description: '`error`, `warning` or `notice`',
  }),
  file: Type.String({ description: 'the path in the repository; empty if not given' }),
  line: position,
  endLine: position,
  column: position,
  endColumn: position,
  title: Type.String({ description: 'empty if not given' }),
  message: text,
} satisfies TProperties

const Annotation = named('Annotation', Type.Object(annotation))

/** An annotation with the run that reported it. */
export const CommitAnnotation = named(
  'CommitAnnotation',
  Type.Object({
    ...annotation,
    run: Type.Object({ id: text, number: run.number, name: run.name }),
  }),
)

/** A run in a list. */
export const ListedRun = named('RunSummary', Type.Object(run))

/** A single run, with its jobs and attempts. */
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
      { description: 'the earlier attempts; their logs are at `…/logs?attempt=`' },
    ),
    annotations: Type.Array(Annotation, {
      description:
        'errors, warnings and notices of the steps (`::error file=a.js,line=1::message`), at most 10 of each level a step and 200 a run',
    }),
    logBytes: orNull(
      Type.Integer({
        description:
          'the size of the log in bytes, up to which `steps` have their outputs; the `offset` from which to follow the log. Null for an earlier attempt',
      }),
    ),
    failure: orNull(
      Type.Object(
        {
          workflow: orNull(text),
          job: orNull(text),
          step: orNull({ ...text, description: 'null if the job failed outside its steps' }),
          exitCode: orNull(Type.Integer()),
          reason: orNull({
            ...text,
            description: 'why the step, the job or the run failed; null if it is the exit code',
          }),
          lastLines: Type.Array(text, { description: 'the last 50 lines of the step' }),
          annotations: Type.Array(Annotation, {
            description: 'the errors that the step reported (`::error::`), at most 10',
          }),
          workspaces: Type.Array(
            Type.Object({
              job: text,
              keptUntil: Type.Integer({
                description:
                  'when its runner removes it, or earlier if it needs the space; in milliseconds since the Unix epoch',
              }),
            }),
            { description: 'workspaces of failed jobs in which a shell can be opened' },
          ),
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
              'commits since the last successful run of the same files and branch, newest first, at most 50',
          }),
        },
        { description: 'what failed; null if nothing did' },
      ),
    ),
  }),
)

/** A note on a workflow file. */
export const NoteSchema = named(
  'WorkflowNote',
  Type.Object({
    file: text,
    line: Type.Integer(),
    column: Type.Integer(),
    message: Type.String({ description: 'what is accepted without its effect, and why' }),
  }),
)

/** A fault in a workflow file. */
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
