import { lookup } from 'node:dns/promises'
import type { FairLimiter } from '#base/concurrency/fair-limiter.ts'
import { defaultAllowed, withHost } from '#base/outbound/allowed-ranges.ts'
import { createOutbound, type Outbound } from '#base/outbound/outbound.ts'
import type { PlainSettings } from './settings.ts'

type OutboundSettings = Pick<
  PlainSettings,
  'outboundAllow' | 'host' | 'sshHost' | 'sshPort' | 'baseUrl'
>

/**
 * Where the service may connect. `host` is one to which an administrator has decided that it connects; `lookups` limits
 * name lookups together with those of others.
 */
export function createAppOutbound(
  settings: OutboundSettings,
  host?: string,
  lookups?: FairLimiter,
): Outbound {
  const allow = settings.outboundAllow ?? defaultAllowed(settings)
  return createOutbound({
    allow: host === undefined ? allow : withHost(allow, host),
    lookup: (name) => lookup(name, { all: true, order: 'verbatim' }),
    ...(lookups && { lookups }),
  })
}
