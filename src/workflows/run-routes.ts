import { Type } from 'typebox'
import { Problem } from '../base/problem.ts'
import { named } from '../http/named-schemas.ts'
import { linkToNext, PageQuery } from '../http/pages.ts'
import { closed, type FindRequest, route } from '../http/route.ts'
import { eventStreamType, wantsEventStream } from '../http/server-sent-events.ts'
import type { Repositories } from '../repositories/repositories.ts'
import type { LogReader } from './run-logs.ts'
import { FaultSchema, ListedRun, Run, RunState } from './run-schemas.ts'
import { type createRunViews, toState } from './run-view.ts'
import type { Runs } from './runs.ts'
import { workflowsFolder } from './workflow-paths.ts'

type Dependencies = {
  repositories: Repositories
  runs: Runs
  views: ReturnType<typeof createRunViews>
  logs: LogReader
}

const defaultLimit = 100
const maxWaitSeconds = 300

/** The routes of workflow runs. */
export function runRoutes({ repositories, runs, views, logs }: Dependencies) {
  const open = ({ principal, permission, params }: FindRequest<{ name: string }>) =>
    repositories.open(principal, params.name, permission)
  const problems = ['repository_not_found', 'repository_importing'] as const
  const runProblems = [...problems, 'run_not_found'] as const

  return [
    route('GET', '/repos/:name/workflows', {
      operationId: 'listRuns',
      tag: 'workflow runs',
      summary: 'List the workflow runs, newest first',
      description:
        'Returns 100 runs a page unless `limit` is set, and fewer when the runs have very many steps. Includes the ' +
        'runs started by every push that was acknowledged before this request.',
      permission: 'workflow:read',
      find: open,
      isLongLived: true,
      query: Type.Object({
        ...PageQuery.properties,
        branch: Type.Optional(
          Type.String({ description: 'only runs of this branch', maxLength: 500 }),
        ),
        status: Type.Optional(
          Type.Enum(['queued', 'running', 'completed'], {
            description: 'only runs with this status',
          }),
        ),
      }),
      reply: { 200: Type.Array(ListedRun) },
      problems: [...problems],
      handle: async ({ found, query, url, setHeader, waitSignal }) => {
        const { branch, status, limit = defaultLimit, cursor: before = '' } = query
        const page = { before, limit: limit + 1, branch, status }
        const rows = await runs.list(found, { ...page, signal: waitSignal() })
        const shown = rows.slice(0, Math.min(limit, await views.countFitting(rows)))
        const last = shown.at(-1)
        if (shown.length < rows.length && last)
          setHeader('link', linkToNext(url, { limit, cursor: last.id }))
        return views.list(shown, found)
      },
    }),
    route('POST', '/repos/:name/workflows', {
      operationId: 'createRun',
      tag: 'workflow runs',
      summary: 'Run workflows',
      description:
        `Runs all workflow files in ${workflowsFolder}/, or only those in \`files\`, from the latest commit of the ` +
        'branch. The response does not wait for the run; use `GET /repos/:name/workflows/:id?wait=60` for that.',
      permission: 'workflow:trigger',
      find: open,
      body: Type.Object(
        {
          branch: Type.Optional(Branch),
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
      ),
      reply: {
        202: named(
          'QueuedRun',
          Type.Object({
            id: Type.String({ description: 'the id of the run' }),
            number: Type.Integer({
              description: 'the number of the run in its repository, from 1',
            }),
            status: Type.String({ description: '`queued`' }),
          }),
        ),
      },
      problems: [
        ...problems,
        'ref_not_found',
        'workflow_not_found',
        'workflow_invalid',
        'too_many_runs',
        'checks_busy',
      ],
      handle: async ({ principal, found, body, setHeader }) => {
        const started = await runs.start(principal, found, body)
        setHeader('location', `/repos/${found.name}/workflows/${started.id}`)
        return started
      },
    }),
    route('POST', '/repos/:name/workflows/validate', {
      operationId: 'validateWorkflows',
      tag: 'workflow runs',
      summary: 'Validate workflow files',
      description:
        'Checks the files in `contents`, or else those of the branch. Actions of the repository that the files use ' +
        'are read from the branch. Nothing is run.',
      permission: 'workflow:read',
      find: open,
      body: Type.Object(
        {
          branch: Type.Optional(Branch),
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
        200: named(
          'WorkflowValidation',
          Type.Object({
            valid: Type.Boolean(),
            faults: Type.Array(FaultSchema),
          }),
        ),
      },
      problems: [...problems, 'ref_not_found', 'workflow_not_found', 'checks_busy'],
      handle: async ({ found, body }) => {
        const faults = await runs.validate(found, body)
        return { valid: faults.length === 0, faults }
      },
    }),
    route('GET', '/repos/:name/workflows/:id', {
      operationId: 'getRun',
      tag: 'workflow runs',
      summary: 'Get a workflow run',
      description:
        'With `wait`, responds when the run has completed, or after that many seconds at the latest.',
      permission: 'workflow:read',
      find: open,
      isLongLived: true,
      query: Type.Object({
        wait: Type.Optional(
          Type.Integer({
            description: `seconds to wait for the run to complete, 0 to ${maxWaitSeconds}`,
            minimum: 0,
            maximum: maxWaitSeconds,
          }),
        ),
      }),
      reply: { 200: Run },
      problems: [...runProblems],
      handle: async ({ found, params, query, waitSignal }) => {
        const waitMs = (query.wait ?? 0) * 1000
        const run = await runs.wait(found, params.id, { waitMs, signal: waitSignal() })
        return views.one(run, found)
      },
    }),
    route('GET', '/repos/:name/workflows/:id/logs', {
      operationId: 'getRunLog',
      tag: 'workflow runs',
      summary: 'Get the log of a workflow run',
      description:
        'Returns plain text, starting at the byte `offset`. With `Accept: text/event-stream` or `follow=true`, ' +
        'streams the log as server-sent events while it grows: the `id` of an event is the offset after it, so ' +
        '`Last-Event-ID` resumes there. The last event is `end`.',
      permission: 'workflow:read',
      find: open,
      isLongLived: true,
      query: Type.Object({
        offset: Type.Optional(
          Type.Integer({
            description: 'the number of bytes to skip, 0 or more',
            minimum: 0,
            maximum: 2 ** 40,
          }),
        ),
        attempt: Type.Optional(
          Type.Integer({
            description: 'the number of an attempt, 1 or more',
            minimum: 1,
            maximum: 1e6,
          }),
        ),
        step: Type.Optional(
          Type.Integer({
            description: 'the number of a step, 0 or more; returns only the output of that step',
            minimum: 0,
            maximum: 1e6,
          }),
        ),
        follow: Type.Optional(
          Type.Boolean({
            description: '`true` or `false`: whether to follow the log while it grows',
          }),
        ),
      }),
      produces: 'text/plain; charset=utf-8',
      eventStream:
        'Events with a part of the log as `data` and the offset after it as `id`, then the event `end` with `{"conclusion": …}`.',
      reply: { 200: Type.String() },
      problems: [...runProblems],
      handle: async ({ found, params, query, header, setType, setHeader, waitSignal }) => {
        const run = await runs.find(found, params.id)
        const { attempt = run.attempt, step } = query
        if (attempt > run.attempt)
          throw new Problem('run_not_found', `The run has no attempt ${attempt} yet.`)
        const log = { runId: run.id, attempt }
        if (step !== undefined) return logs.step(log, step, query.offset ?? 0)
        if (!wantsEventStream(query.follow, header('accept')))
          return logs.whole(log, query.offset ?? 0)
        setType(eventStreamType)
        setHeader('x-accel-buffering', 'no')
        const last = Number(header('last-event-id') ?? Number.NaN)
        const from = Number.isSafeInteger(last) && last >= 0 ? last : (query.offset ?? 0)
        return logs.followed(log, from, waitSignal())
      },
    }),
    route('POST', '/repos/:name/workflows/:id/cancel', {
      operationId: 'cancelRun',
      tag: 'workflow runs',
      summary: 'Cancel a workflow run',
      description:
        'A queued run is cancelled at once. Running steps are asked to stop, and killed if they do not.',
      permission: 'workflow:trigger',
      find: open,
      reply: { 202: RunState },
      problems: [...runProblems, 'run_completed'],
      handle: async ({ principal, found, params }) => {
        const { id } = await runs.find(found, params.id)
        return toState(await runs.cancel(principal, found, id))
      },
    }),
    route('POST', '/repos/:name/workflows/:id/rerun', {
      operationId: 'rerunRun',
      tag: 'workflow runs',
      summary: 'Re-run a workflow run',
      description:
        'Runs the same files at the same commit, as the next attempt of the run; earlier attempts are kept. With ' +
        '`jobs` set to `failed`, jobs that succeeded are not run again.',
      permission: 'workflow:trigger',
      find: open,
      body: Type.Object(
        {
          jobs: Type.Optional(
            Type.Enum(['all', 'failed'], { description: '`all`, the default, or `failed`' }),
          ),
        },
        closed,
      ),
      reply: { 202: RunState },
      problems: [...runProblems, 'run_not_completed', 'workflow_invalid', 'too_many_runs'],
      handle: async ({ principal, found, params, body }) => {
        const { id } = await runs.find(found, params.id)
        return toState(await runs.rerun(principal, found, id, body.jobs ?? 'all'))
      },
    }),
  ]
}

const Branch = Type.String({
  description:
    'a branch, or the full name of a tag, such as `refs/tags/v1`; defaults to the default branch',
  minLength: 1,
  maxLength: 500,
})
const FilePath = Type.String({
  description: `\`ci.yml\` or \`${workflowsFolder}/ci.yml\``,
  minLength: 1,
  maxLength: 500,
})
const Files = Type.Array(FilePath, {
  description: 'workflow files, in order; defaults to all',
  minItems: 1,
  maxItems: 50,
})
