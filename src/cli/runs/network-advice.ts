import type { Workflow } from '#actions/workflow-parser/workflow.ts'
import { printable } from '#base/format.ts'
import type { Json } from '#base/json.ts'
import { formatRule, type HostRule, intersectRules } from '#base/outbound/host-rules.ts'
import { parseListedHosts } from '#base/outbound/listed-hosts.ts'
import { connectClient } from '../servers/connect.ts'
import { CommandError, UsageError } from '../terminal/command-errors.ts'
import { at } from '../terminal/display.ts'

type Options = {
  environment: NodeJS.ProcessEnv
  /** The current directory. */
  folder: string
  version: string
  /** The server whose runner is asked for; undefined for the one that commands would work on. */
  server: string | undefined
}

const timeoutSeconds = 10

/**
 * Returns lines about the hosts that `network` of workflows lists and that steps do not reach on the user's server; none
 * if no workflow lists hosts. Throws a UsageError if the server that was named is not known.
 */
export async function networkAdvice(
  workflows: readonly Workflow[],
  options: Options,
): Promise<string[]> {
  const wanted = workflows
    .map(({ path, network, jobs }) => ({
      path,
      rules: [network, ...jobs.map((job) => job.network)].flatMap((rules) => rules ?? []),
    }))
    .filter(({ rules }) => rules.length > 0)
  if (wanted.length === 0) return []
  const found = await findAllowed(options)
  if ('unknown' in found)
    return [
      `note: Whether steps reach the hosts of "network" is not known here: ${printable(found.unknown)}\n`,
    ]
  const { url, allowed } = found
  if (allowed === 'all') return []
  return wanted.flatMap(({ path, rules }) => {
    const missing = rules.filter((rule) => intersectRules([rule], allowed).length === 0)
    const names = [...new Set(missing.map(formatRule))].join(', ')
    const reason = `SVC_STEP_HOSTS of ${printable(url)} does not allow it`
    return names === '' ? [] : [`${path}: note: Steps cannot reach ${names}: ${reason}.\n`]
  })
}

type Found = { url: string; allowed: readonly HostRule[] | 'all' } | { unknown: string }

async function findAllowed({ server, ...context }: Options): Promise<Found> {
  try {
    const { client } = await connectClient(context, { server, timeout: String(timeoutSeconds) })
    if (!client)
      return { unknown: 'it depends on the server. Log in to it with svc login, or use --server.' }
    const { url } = client
    const settings = await client.json({ method: 'GET', path: '/step-network' })
    if (at(settings, 'runner') !== true)
      return { unknown: `runners on other machines execute the runs of ${url}.` }
    if (at(settings, 'network') === 'full') return { url, allowed: 'all' }
    return { url, allowed: toRules(at(settings, 'hosts')) }
  } catch (error) {
    if (error instanceof CommandError) return { unknown: error.message }
    if (error instanceof UsageError && server === undefined) return { unknown: error.message }
    throw error
  }
}

function toRules(hosts: Json): readonly HostRule[] {
  if (!Array.isArray(hosts) || hosts.length === 0) return []
  return parseListedHosts(hosts.join(','))?.rules ?? []
}
