import { type Static, Type } from 'typebox'
import { formatRule } from '#base/outbound/host-rules.ts'
import type { PlainSettings } from '#config/settings.ts'
import { named } from '#http/named-schemas.ts'
import { route } from '#http/route.ts'

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
