import { createAppOutbound } from '#config/app-outbound.ts'
import { openProvider } from '#identity/logins/open-logins.ts'
import type { Check } from '../check.ts'
import { fault, ok, orOk } from '../finding.ts'

/** Checks that the identity provider of the settings responds as logins need it. */
export const providerCheck: Check = {
  id: 'provider',
  title: 'the identity provider',
  async run({ setting }) {
    const allowed: Parameters<typeof createAppOutbound>[0] = {
      outboundAllow: setting('outboundAllow'),
      host: setting('host'),
      sshHost: setting('sshHost'),
      sshPort: setting('sshPort'),
      baseUrl: setting('baseUrl'),
    }
    const outboundTo = (host?: string) => createAppOutbound(allowed, host)
    const provider = openProvider({
      settings: {
        oidcIssuer: setting('oidcIssuer'),
        oidcClientId: setting('oidcClientId'),
        oidcClientSecret: setting('oidcClientSecret'),
        oidcScopes: setting('oidcScopes'),
        oidcUsernameClaim: setting('oidcUsernameClaim'),
        oidcGroupsClaim: setting('oidcGroupsClaim'),
      },
      outbound: outboundTo(),
      outboundTo,
    })
    if (!provider) return ok('There is none: people log in with tokens.')
    const faults = await provider.examine()
    return orOk(
      faults.map(({ found, fix }) => fault(found, fix)),
      `${provider.issuer} responds, and has keys.`,
    )
  },
}
