import type { Clock } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import type { Settings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { RecordRefusal } from '#events/audit/record-refusal.ts'
import type { Publish } from '#events/events.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { createIdentityProvider, type IdentityProvider } from './identity-provider.ts'
import { createLogins, type Logins } from './provider-logins.ts'
import { createSealTokens } from './sealed-tokens.ts'

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  log: Log
  settings: Settings
  sessions: Sessions
  recordRefusal: RecordRefusal
  vault: () => Promise<Parameters<typeof createSealTokens>[0]>
  outbound: Outbound
  /** The same, which also connects to hosts that an administrator has named. */
  outboundTo: (host: string) => Outbound
}

type ProviderSettings = Pick<
  Settings,
  | 'oidcIssuer'
  | 'oidcClientId'
  | 'oidcClientSecret'
  | 'oidcScopes'
  | 'oidcUsernameClaim'
  | 'oidcGroupsClaim'
>

/** Opens the logins at the identity provider of the settings; undefined if there is none. */
export function openLogins(dependencies: Dependencies): Logins | undefined {
  const { settings, vault } = dependencies
  const provider = openProvider(dependencies)
  if (!provider) return undefined
  const { oidcAllowedGroups: allowedGroups, oidcAdminGroups: adminGroups } = settings
  const rules = { allowedGroups, adminGroups }
  const sealTokens = async () => createSealTokens(await vault())
  return createLogins({ ...dependencies, provider, rules, sealTokens })
}

/** Opens the identity provider of the settings; undefined if there is none. */
export function openProvider({
  settings,
  outbound,
  outboundTo,
}: Pick<Dependencies, 'outbound' | 'outboundTo'> & { settings: ProviderSettings }):
  | IdentityProvider
  | undefined {
  const { oidcIssuer: issuer, oidcClientId: clientId } = settings
  if (issuer === undefined || clientId === undefined) return undefined
  return createIdentityProvider({
    ...{ issuer, clientId, outbound },
    issuerOutbound: outboundTo(new URL(issuer).hostname),
    clientSecret: settings.oidcClientSecret,
    scopes: settings.oidcScopes,
    usernameClaim: settings.oidcUsernameClaim,
    groupsClaim: settings.oidcGroupsClaim,
  })
}
