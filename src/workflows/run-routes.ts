import { Type } from 'typebox'
import { Problem } from '../base/problem.ts'
import { named } from '../http/named-schemas.ts'
import { linkToNext, PageQuery } from '../http/pages.ts'
import { closed, type FindRequest, route } from '../http/route.ts'
import { eventStreamType, wantsEventStream } from '../http/server-sent-events.ts'
import type { Repositories } from '../repositories/repositories.ts'
import type { createLogReader } from './run-logs.ts'
import { FaultSchema, ListedRun, Run, RunState } from './run-schemas.ts'
import { type createRunViews, toState } from './run-view.ts'
import type { Runs } from './runs.ts'
import { workflowsFolder } from './workflow-paths.ts'

type Dependencies = {
  repositories: Repositories
  runs: Runs
  views: ReturnType<typeof createRunViews>
  logs: ReturnType<typeof createLogReader>
}

const usualPage = 100
const waitMaxSeconds = 300

/** The routes of workflow runs. */
export function runRoutes({ repositories, runs, views, logs }: Dependencies) {
  const open = ({ principal, permission, params }: FindRequest<{ name: string }>) =>
    repositories.open(principal, params.name, permission)
  const missing = ['repository_not_found', 'repository_importing'] as const
  const runMissing = [...missing, 'run_not_found'] as const

  return [
    route('GET', '/repos/:name/workflows', {
      operationId: 'listRuns',
      tag: 'workflow runs',
      summary: 'List the workflow runs, newest first',
      description:
        'A page has 100 unless `limit` says otherwise, and fewer when they have very many steps. The runs of every ' +
        'push that was acknowledged before are among them.',
      permission: 'workflow:read',
      find: open,
      isLongLived: true,
      query: Type.Object({
        ...PageQuery.properties,
        branch: Type.Optional(Type.String({ description: 'runs of this branch', maxLength: 500 })),
        status: Type.Optional(
          Type.Enum(['queued', 'running', 'completed'], { description: 'runs in this state' }),
        ),
      }),
      reply: { 200: Type.Array(ListedRun) },
      problems: [...missing],
      handle: async ({ found, query, url, setHeader, untilStopping }) => {
        const { branch, status, limit = usualPage, cursor: before = '' } = query
        const page = { before, limit: limit + 1, branch, status }
        const rows = await runs.list(found, { ...page, signal: untilStopping() })
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
        `All workflow files of ${workflowsFolder}/, or those that are named, as the branch has them at this ` +
        'moment. The answer comes at once; `GET /repos/:name/workflows/:id?wait=60` waits for the end.',
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
            id: Type.String({ description: "the run's id" }),
            number: Type.Integer({ description: 'counts the runs of the repository from 1' }),
            status: Type.String({ description: '`queued`' }),
          }),
        ),
      },
      problems: [
        ...missing,
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
      summary: 'Tell what is wrong with workflow files',
      description:
        'Of those that are sent as `contents`, else of those of the branch. Actions of the repository that they ' +
        'use are read from the branch. Nothing is run.',
      permission: 'workflow:read',
      find: open,
      body: Type.Object(
        {
          branch: Type.Optional(Branch),
          files: Type.Optional(Files),
          contents: Type.Optional(
            Type.Array(
              Type.Object(
                { path: FilePath, text: Type.String({ description: 'its text' }) },
                closed,
              ),
              { description: 'files that need not be in the repository', maxItems: 50 },
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
      problems: [...missing, 'ref_not_found', 'workflow_not_found', 'checks_busy'],
      handle: async ({ found, body }) => {
        const faults = await runs.validate(found, body)
        return { valid: faults.length === 0, faults }
      },
    }),
    route('GET', '/repos/:name/workflows/:id', {
      operationId: 'getRun',
      tag: 'workflow runs',
      summary: 'Get a workflow run',
      description: 'With `wait`, when it has completed, or else after that many seconds.',
      permission: 'workflow:read',
      find: open,
      isLongLived: true,
      query: Type.Object({
        wait: Type.Optional(
          Type.Integer({
            description: `how long to wait for its end, 0 to ${waitMaxSeconds} seconds`,
            minimum: 0,
            maximum: waitMaxSeconds,
          }),
        ),
      }),
      reply: { 200: Run },
      problems: [...runMissing],
      handle: async ({ found, params, query, untilStopping }) => {
        const waitMs = (query.wait ?? 0) * 1000
        const run = await runs.wait(found, params.id, { waitMs, signal: untilStopping() })
        return views.one(run, found)
      },
    }),
    route('GET', '/repos/:name/workflows/:id/logs', {
      operationId: 'getRunLog',
      tag: 'workflow runs',
      summary: 'Read the log of a workflow run',
      description:
        'As text, from `offset` on, in bytes. With `Accept: text/event-stream`, or `follow=true`, as server-sent ' +
        'events while it grows: `id` is the offset after each, so that `Last-Event-ID` goes on from there; the last ' +
        'event is `end`.',
      permission: 'workflow:read',
      find: open,
      isLongLived: true,
      query: Type.Object({
        offset: Type.Optional(
          Type.Integer({
            description: 'a number of bytes to skip, 0 or more',
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
            description: 'the number of a step, 0 or more: its output alone',
            minimum: 0,
            maximum: 1e6,
          }),
        ),
        follow: Type.Optional(
          Type.Boolean({ description: '`true` or `false`: whether to follow it while it grows' }),
        ),
      }),
      produces: 'text/plain; charset=utf-8',
      eventStream:
        'Text of the log as `data`, the offset after it as `id`; then the event `end`, of `{"conclusion": …}`.',
      reply: { 200: Type.String() },
      problems: [...runMissing],
      handle: async ({ found, params, query, header, setType, setHeader, untilStopping }) => {
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
        return logs.followed(log, from, untilStopping())
      },
    }),
    route('POST', '/repos/:name/workflows/:id/cancel', {
      operationId: 'cancelRun',
      tag: 'workflow runs',
      summary: 'Cancel a workflow run',
      description: 'At once when it waits; steps that run are asked to end, and then ended.',
      permission: 'workflow:trigger',
      find: open,
      reply: { 202: RunState },
      problems: [...runMissing, 'run_completed'],
      handle: async ({ principal, found, params }) => {
        const { id } = await runs.find(found, params.id)
        return toState(await runs.cancel(principal, found, id))
      },
    }),
    route('POST', '/repos/:name/workflows/:id/rerun', {
      operationId: 'rerunRun',
      tag: 'workflow runs',
      summary: 'Run a completed workflow run again',
      description:
        'The same files at the same commit, as its next attempt; the earlier one is kept. With `jobs` set to ' +
        '`failed`, jobs that succeeded stay as they were.',
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
      problems: [...runMissing, 'run_not_completed', 'workflow_invalid', 'too_many_runs'],
      handle: async ({ principal, found, params, body }) => {
        const { id } = await runs.find(found, params.id)
        return toState(await runs.rerun(principal, found, id, body.jobs ?? 'all'))
      },
    }),
  ]
}

const Branch = Type.String({
  description: 'a branch, or the full name of a tag; the default branch when left out',
  minLength: 1,
  maxLength: 500,
})
const FilePath = Type.String({
  description: `\`ci.yml\` or \`${workflowsFolder}/ci.yml\``,
  minLength: 1,
  maxLength: 500,
})
const Files = Type.Array(FilePath, {
  description: 'workflow files, in order; all of them when left out',
  minItems: 1,
  maxItems: 50,
})
