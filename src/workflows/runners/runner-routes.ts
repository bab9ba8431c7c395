import { Readable } from 'node:stream'
import { type Static, Type } from 'typebox'
import type { Principal } from '#access/principal.ts'
import {
  Claim,
  ClaimBody,
  Orders,
  OrdersQuery,
  ReleaseBody,
  ReportBody,
  Reported,
  SourceQuery,
  sourceContentType,
} from '#actions/runner-api/runner-api.ts'
import { formatRule } from '#base/outbound/host-rules.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import { named } from '#http/named-schemas.ts'
import { nothing, route } from '#http/route.ts'
import type { Claimant } from './claim-run.ts'
import type { RunnerService } from './runner-service.ts'

/** The claim of a run that a principal's token is for. The token of a run gives no access to other runs. */
export function ownClaim({ id: ownId, tokenHash = '' }: Principal, id: string): Claimant {
  if (ownId !== id) throw new Problem('run_not_found', 'This token belongs to another run.')
  return { id, tokenHash }
}

/** The routes with which runners claim runs and report on them; `ownRunner` names the runner of this server. */
export function runnerRoutes(runnerService: RunnerService, ownRunner: string) {
  return [
    route('POST', '/runner/claim', {
      operationId: 'claimRun',
      tag: 'runners',
      summary: 'Claim a run',
      description:
        'For runners. Waits for a run, and returns 204 if there is none in time. Requests about the run need ' +
        'its `claimToken`.',
      permission: 'runner',
      isPolling: true,
      isLongLived: true,
      body: ClaimBody,
      reply: { 200: named('Claim', Claim), 204: nothing },
      handle: async ({ principal, body, setStatus, waitSignal }) => {
        const name = principal.kind === 'runner' ? ownRunner : body.name
        const claimed = await runnerService.claim({ ...body, name }, waitSignal())
        if (!claimed) setStatus(204)
        return claimed
      },
    }),
    route('GET', '/runner/runs/:id/source', {
      operationId: 'getRunSource',
      tag: 'runners',
      summary: 'Get commits for a run',
      description:
        'The commit of the run, or another one of its repository, with the history that a checkout needs. The response ' +
        'is a line of JSON (`commit`, `ref`, `refs` by their names, and the ids of `shallow` commits), then a pack, as in ' +
        'gitformat-pack(5).',
      permission: 'run',
      isLongLived: true,
      produces: sourceContentType,
      query: SourceQuery,
      reply: { 200: Type.String({ description: 'a line of JSON, then a pack' }) },
      problems: ['run_not_found', 'ref_not_found'],
      handle: async ({
        principal,
        params,
        query: { ref, depth = 1, tags = false },
        clientSignal,
      }) => {
        const by = ownClaim(principal, params.id)
        return Readable.from(await runnerService.source(by, { ref, depth, tags }, clientSignal()))
      },
    }),
    route('POST', '/runner/runs/:id/report', {
      operationId: 'reportRun',
      tag: 'runners',
      summary: 'Report the progress of a run',
      description: 'Ignores entries that were reported before, so a request can be repeated.',
      permission: 'run',
      isPolling: true,
      body: ReportBody,
      reply: { 200: named('Reported', Reported) },
      problems: ['run_not_found'],
      handle: ({ principal, params, body }) =>
        runnerService.report(ownClaim(principal, params.id), body),
    }),
    route('GET', '/runner/runs/:id/orders', {
      operationId: 'getRunOrders',
      tag: 'runners',
      summary: 'Renew the lease of a run and wait for a cancellation',
      permission: 'run',
      isPolling: true,
      isLongLived: true,
      query: OrdersQuery,
      reply: { 200: named('Orders', Orders) },
      problems: ['run_not_found'],
      handle: ({ principal, params, query, waitSignal }) =>
        runnerService.orders(
          ownClaim(principal, params.id),
          (query.wait ?? 0) * 1000,
          waitSignal(),
        ),
    }),
    route('POST', '/runner/runs/:id/release', {
      operationId: 'releaseRun',
      tag: 'runners',
      summary: 'Return a run to the queue',
      permission: 'run',
      body: ReleaseBody,
      reply: { 204: nothing },
      problems: ['run_not_found'],
      handle: ({ principal, params, body }) =>
        runnerService.release(ownClaim(principal, params.id), body),
    }),
  ]
}

type Dependencies = {
  settings: Pick<PlainSettings, 'runner' | 'sandboxNetwork' | 'stepHosts'>
}

/** The route that says which hosts steps reach. */
export function stepNetworkRoutes({ settings }: Dependencies) {
  const { runner, sandboxNetwork, stepHosts } = settings
  const hosts = [...(stepHosts?.rules.map(formatRule) ?? []), ...(stepHosts?.classes ?? [])]

  return [
    route('GET', '/step-network', {
      operationId: 'getStepNetwork',
      tag: 'workflow runs',
      summary: 'Get the hosts that workflow steps may reach',
      description:
        'Returns the settings of the runner of the service. Those of runners on other machines are not known to it.',
      permission: 'workflow:read',
      allowsLimited: true,
      reply: { 200: StepNetwork },
      handle: async (): Promise<Static<typeof StepNetwork>> => ({
        ...{ runner, hosts },
        network: sandboxNetwork,
      }),
    }),
  ]
}

const StepNetwork = named(
  'StepNetwork',
  Type.Object({
    runner: Type.Boolean({ description: 'whether the service has a runner of its own' }),
    network: Type.Unsafe<'none' | 'full'>({
      type: 'string',
      enum: ['none', 'full'],
      description: '`full` is all that the machine of the runner has',
    }),
    hosts: Type.Array(Type.String(), {
      description:
        'with the network `none`, the hosts that steps may reach through a proxy, as in SVC_STEP_HOSTS',
    }),
  }),
)
