import { Type } from 'typebox'
import { requireNoRun } from '#access/may.ts'
import { objectIdForm } from '#access/names.ts'
import { workflowsFolder } from '#actions/workflow-parser/workflow-folders.ts'
import { Problem } from '#base/problem.ts'
import { apiPathOf } from '#base/repository-name.ts'
import { closed } from '#base/schema-options.ts'
import { linkToNext, PageQuery } from '#http/pagination.ts'
import { route } from '#http/route.ts'
import { eventStreamType, wantsEventStream } from '#http/server-sent-events.ts'
import { type OpenRepository, openOfRoute, openProblems } from '#repositories/open-repository.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { LogReader } from '../views/run-logs.ts'
import { CommitAnnotation, ListedRun, Run, RunState } from '../views/run-schemas.ts'
import { type createRunViews, toState } from '../views/run-view.ts'
import { NewRun, QueuedRun } from './run-requests.ts'
import type { Runs } from './runs.ts'
import { workflowFileRoutes } from './workflow-file-routes.ts'

type Dependencies = {
  repositories: Repositories
  runs: Runs
  views: ReturnType<typeof createRunViews>
  logs: LogReader
}

const defaultLimit = 100
const maxWaitSeconds = 300
const runProblems = [...openProblems, 'run_not_found'] as const

/** The routes of workflow runs. */
export function runRoutes(dependencies: Dependencies) {
  const { repositories, runs, views } = dependencies
  const open = openOfRoute(repositories)
  const openToRun: OpenRepository = async (request) => {
    const found = await open(request)
    requireNoRun(request.principal)
    return found
  }

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
        conclusion: Type.Optional(
          Type.Enum(['success', 'failure', 'cancelled', 'timed_out'], {
            description: 'only runs that have ended like this',
          }),
        ),
        name: Type.Optional(
          Type.String({ description: 'only runs with this name', maxLength: 500 }),
        ),
      }),
      reply: { 200: Type.Array(ListedRun) },
      problems: [...openProblems],
      handle: async ({ found, query, url, setHeader, waitSignal }) => {
        const { limit = defaultLimit, cursor: before = '', ...filter } = query
        const page = { ...filter, before, limit: limit + 1 }
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
      find: openToRun,
      body: NewRun,
      reply: { 202: QueuedRun },
      problems: [
        ...openProblems,
        'token_limited',
        'ref_not_found',
        'workflow_not_found',
        'workflow_invalid',
        'too_many_runs',
        'checks_busy',
      ],
      handle: async ({ principal, found, body, setHeader }) => {
        const started = await runs.start(principal, found, body)
        setHeader('location', `${apiPathOf(found.name)}/workflows/${started.id}`)
        return started
      },
    }),
    ...workflowFileRoutes({ open, runs }),
    ...runAnnotationRoutes(open, views),
    route('GET', '/repos/:name/workflows/:id', {
      operationId: 'getRun',
      tag: 'workflow runs',
      summary: 'Get a workflow run',
      description:
        '`id` accepts the id or the number of a run. With `wait`, responds when the run has completed, or after that many seconds at the latest.',
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
        attempt: Type.Optional(
          Type.Integer({
            description:
              'the number of an attempt, 1 or more: the run with the jobs and steps of that attempt',
            minimum: 1,
            maximum: 1e6,
          }),
        ),
      }),
      reply: { 200: Run },
      problems: [...runProblems],
      handle: async ({ found, params, query, waitSignal }) => {
        const waitMs = (query.wait ?? 0) * 1000
        const run = await runs.wait(found, params.id, { waitMs, signal: waitSignal() })
        return views.one(run, found, query.attempt)
      },
    }),
    ...runLogRoutes(open, dependencies),
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
    route('POST', '/repos/:name/workflows/:id/approve', {
      operationId: 'approveRun',
      tag: 'workflow runs',
      summary: 'Approve a workflow run',
      description:
        'Lets a run be executed that waits because its commit is of a user who may not push and has not landed a change in ' +
        'the repository yet. It stays without secrets. A run that does not wait is returned as it is.',
      permission: 'workflow:trigger',
      find: openToRun,
      reply: { 202: RunState },
      problems: [...runProblems, 'token_limited', 'run_completed', 'too_many_runs'],
      handle: async ({ principal, found, params }) => {
        const { id } = await runs.find(found, params.id)
        return toState(await runs.approve(principal, found, id))
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
      find: openToRun,
      body: Type.Object(
        {
          jobs: Type.Optional(
            Type.Enum(['all', 'failed'], { description: '`all`, the default, or `failed`' }),
          ),
        },
        closed,
      ),
      reply: { 202: RunState },
      problems: [
        ...runProblems,
        'token_limited',
        'run_not_completed',
        'workflow_invalid',
        'too_many_runs',
      ],
      handle: async ({ principal, found, params, body }) => {
        const { id } = await runs.find(found, params.id)
        return toState(await runs.rerun(principal, found, id, body.jobs ?? 'all'))
      },
    }),
  ]
}

/** The route of annotations on the files of a commit. */
function runAnnotationRoutes(open: OpenRepository, views: Dependencies['views']) {
  return [
    route('GET', '/repos/:name/annotations', {
      operationId: 'listAnnotations',
      tag: 'workflow runs',
      summary: 'List what runs say about a commit',
      description:
        'The errors, warnings and notices that steps reported with a workflow command, such as ' +
        '`::error file=src/a.js,line=3::message`, in the latest attempts of the 20 newest runs of the commit, ' +
        'the newest run first; at most 1000.',
      permission: 'workflow:read',
      find: open,
      query: Type.Object({
        commit: Type.String({
          ...objectIdForm,
          description: 'the whole id of the commit',
        }),
      }),
      reply: { 200: Type.Array(CommitAnnotation) },
      problems: [...openProblems],
      handle: ({ found, query }) => views.annotationsOf(found.id, query.commit),
    }),
  ]
}

/** The routes of the logs of runs. */
function runLogRoutes(open: OpenRepository, { runs, logs }: Dependencies) {
  return [
    route('GET', '/repos/:name/workflows/:id/logs', {
      operationId: 'getRunLog',
      tag: 'workflow runs',
      summary: 'Get the log of a workflow run',
      description:
        'Returns plain text, starting at the byte `offset`. With `Accept: text/event-stream` or `follow=true`, ' +
        'streams the log as server-sent events while it grows: the `id` of an event is the offset after it, so ' +
        '`Last-Event-ID` resumes there. The last event is `end`; when the caller loses access first, a comment gives the ' +
        'reason.',
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
        states: Type.Optional(
          Type.Boolean({
            description:
              'in a stream, `true` for events `output` with `{"step": …, "prefix": …, "text": …}`, and events `state` with the states of the jobs and steps whenever they change',
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
        return query.states
          ? logs.followedBySteps(log, from, waitSignal())
          : logs.followed(log, from, waitSignal())
      },
    }),
  ]
}
