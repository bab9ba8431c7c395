/** What tests use of the provider. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http'

  type Account = { accountId: string; claims: () => Promise<Record<string, unknown>> }

  export class Provider {
    constructor(
      issuer: string,
      configuration: {
        clients: object[]
        claims: Record<string, string[]>
        findAccount: (context: unknown, id: string) => Promise<Account | undefined>
        issueRefreshToken: () => Promise<boolean>
        cookies: { keys: string[] }
        jwks: { keys: object[] }
      },
    )
    callback(): RequestListener
  }
}
