import { type Static, Type } from 'typebox'
import type { Principal } from '#access/principal.ts'
import { named } from '#http/named-schemas.ts'
import { route } from '#http/route.ts'

/** Issues an ID token to the holder of a token for that, for an audience. Throws `run_not_found`. */
export type IssueIdToken = (
  principal: Principal,
  runId: string,
  audience: string | undefined,
) => Promise<string>

/** The route of ID tokens, as the client of GitHub's toolkit calls it. */
export function idTokenRoutes(issue: IssueIdToken) {
  return [
    route('GET', '/runner/runs/:id/id-token', {
      operationId: 'getIdToken',
      tag: 'runners',
      summary: 'Get an ID token of a job',
      description:
        'For steps of a job with `permissions: id-token: write`, which find the address and the token for it in ' +
        '`ACTIONS_ID_TOKEN_REQUEST_URL` and `ACTIONS_ID_TOKEN_REQUEST_TOKEN`.',
      permission: 'run',
      query: Type.Object({
        audience: Type.Optional(
          Type.String({
            description: 'the `aud` of the token; by default the address of the service',
            minLength: 1,
            maxLength: 1000,
          }),
        ),
        'api-version': Type.Optional(
          Type.String({ description: 'ignored: clients of GitHub send it', maxLength: 20 }),
        ),
      }),
      reply: { 200: IdToken },
      problems: ['run_not_found', 'encryption_key_missing'],
      handle: async ({ principal, params, query }): Promise<Static<typeof IdToken>> => ({
        value: await issue(principal, params.id, query.audience),
      }),
    }),
  ]
}

const IdToken = named(
  'IdToken',
  Type.Object({ value: Type.String({ description: 'a JSON Web Token (RFC 7519)' }) }),
)
