import { Readable } from 'node:stream'
import { Type } from 'typebox'
import type { Principal } from '../access/principal.ts'
import { Problem } from '../base/problem.ts'
import { named } from '../http/named-schemas.ts'
import { nothing, route } from '../http/route.ts'
import {
  Claim,
  ClaimBody,
  Orders,
  OrdersQuery,
  ReleaseBody,
  ReportBody,
  Reported,
  sourceContentType,
} from '../runner-api/runner-api.ts'
import type { Claimant } from './run-queue.ts'
import type { RunnerService } from './runner-service.ts'

/** The routes for runners: they claim runs, and tell what has become of them; `ownRunner` names the server's own. */
export function runnerRoutes(runnerService: RunnerService, ownRunner: string) {
  // A run's token is for no other run.
  const own = ({ id: ownId, claim = '' }: Principal, id: string): Claimant => {
    if (ownId !== id) throw new Problem('run_not_found', 'This token is of another run.')
    return { id, tokenHash: claim }
  }

  return [
    route('POST', '/runner/claim', {
      operationId: 'claimRun',
      tag: 'runners',
      summary: 'Claim a run, waiting for one',
      description:
        'For runners: 204 when there was none in time. What follows is asked with `runToken`.',
      permission: 'runner',
      isPolling: true,
      isLongLived: true,
      body: ClaimBody,
      reply: { 200: named('Claim', Claim), 204: nothing },
      handle: async ({ principal, body, setStatus, untilStopping }) => {
        const name = principal.kind === 'runner' ? ownRunner : body.name
        const claimed = await runnerService.claim({ ...body, name }, untilStopping())
        if (!claimed) setStatus(204)
        return claimed
      },
    }),
    route('GET', '/runner/runs/:id/source', {
      operationId: 'getRunSource',
      tag: 'runners',
      summary: 'Get the commit of a run, as a pack',
      permission: 'run',
      isLongLived: true,
      produces: sourceContentType,
      reply: { 200: Type.String({ description: 'a pack: gitformat-pack(5)' }) },
      problems: ['run_not_found', 'ref_not_found'],
      handle: async ({ principal, params, untilGone }) =>
        Readable.from(await runnerService.source(own(principal, params.id), untilGone())),
    }),
    route('POST', '/runner/runs/:id/report', {
      operationId: 'reportRun',
      tag: 'runners',
      summary: 'Tell what happened in a run',
      description: 'Entries that are known already are not taken again.',
      permission: 'run',
      body: ReportBody,
      reply: { 200: named('Reported', Reported) },
      problems: ['run_not_found'],
      handle: ({ principal, params, body }) =>
        runnerService.report(own(principal, params.id), body),
    }),
    route('GET', '/runner/runs/:id/orders', {
      operationId: 'getRunOrders',
      tag: 'runners',
      summary: 'Ask whether a run is to be cancelled, and say that its runner is there',
      permission: 'run',
      isPolling: true,
      isLongLived: true,
      query: OrdersQuery,
      reply: { 200: named('Orders', Orders) },
      problems: ['run_not_found'],
      handle: ({ principal, params, query, untilStopping }) =>
        runnerService.orders(own(principal, params.id), (query.wait ?? 0) * 1000, untilStopping()),
    }),
    route('POST', '/runner/runs/:id/release', {
      operationId: 'releaseRun',
      tag: 'runners',
      summary: 'Hand a run back to the queue',
      permission: 'run',
      body: ReleaseBody,
      reply: { 204: nothing },
      problems: ['run_not_found'],
      handle: ({ principal, params, body }) =>
        runnerService.release(own(principal, params.id), body),
    }),
  ]
}
