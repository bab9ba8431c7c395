import { Type } from 'typebox'
import { Problem } from '#base/problem.ts'
import { route } from '#http/route.ts'
import { eventStreamType, wantsEventStream } from '#http/server-sent-events.ts'
import type { LogReader } from './run-logs.ts'
import type { OpenRepository } from './run-requests.ts'
import type { Runs } from './runs.ts'

type Dependencies = { open: OpenRepository; runs: Pick<Runs, 'find'>; logs: LogReader }

/** The routes of the logs of runs. */
export function runLogRoutes({ open, runs, logs }: Dependencies) {
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
      problems: ['repository_not_found', 'repository_importing', 'run_not_found'],
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
