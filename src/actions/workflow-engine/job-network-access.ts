import { formatRule, type HostRule, intersectRules } from '#base/outbound/host-rules.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'

/** The network of the steps of a job. */
export type JobNetworkAccess = {
  /** The hosts that they may reach through the proxy; `default` is what the sandbox has without a proxy. */
  hosts: readonly HostRule[] | 'none' | 'default'
  /** A line for the log of each step; undefined where the first line of the run's log says it. */
  line: string | undefined
}

const shownCount = 20

/**
 * Decides about the network of a job. `wanted` are the hosts of its `network`, empty for none: they narrow what the
 * administrator of the runner allows. Without `network`, a job has all of that.
 */
export function networkAccessOf(
  { isolation, hosts }: Pick<Sandbox, 'isolation' | 'hosts'>,
  wanted: readonly HostRule[] | undefined,
): JobNetworkAccess {
  const { kind, network } = isolation
  if (wanted === undefined && network !== 'hosts') return { hosts: 'default', line: undefined }
  if (kind === 'none') {
    const line =
      'Network: all that the machine of the runner has. `network` has no effect, because there is no sandbox.'
    return { hosts: 'default', line: wanted && line }
  }
  if (wanted?.length === 0) return { hosts: 'none', line: 'Network: none, as the workflow says.' }
  const allowed = toAllowed({ network, hosts }, wanted)
  const missing = wanted?.filter((rule) => intersectRules([rule], allowed).length === 0) ?? []
  const note =
    missing.length > 0 ? ` SVC_STEP_HOSTS of the runner does not allow ${toText(missing)}.` : ''
  if (allowed.length === 0) return { hosts: 'none', line: `Network: none.${note}` }
  return { hosts: allowed, line: `Network: ${toText(allowed)}, through a proxy.${note}` }
}

function toAllowed(
  { network, hosts }: { network: Sandbox['isolation']['network']; hosts: Sandbox['hosts'] },
  wanted: readonly HostRule[] | undefined,
): readonly HostRule[] {
  if (wanted === undefined) return hosts
  return network === 'full' ? wanted : intersectRules(wanted, hosts)
}

function toText(rules: readonly HostRule[]): string {
  const shown = rules.slice(0, shownCount).map(formatRule).join(', ')
  const more = rules.length - shownCount
  return more > 0 ? `${shown} and ${more} more` : shown
}
