import { Type } from 'typebox'
import { Problem } from '#base/problem.ts'
import { field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { jsonContentType, type PublicRequest, type PublicRoute } from '#http/route.ts'
import { checkBody } from '#http/validation.ts'
import { refusedExchange } from './verify-workload.ts'
import type { WorkloadTokens } from './workload-tokens.ts'

const grantType = 'urn:ietf:params:oauth:grant-type:token-exchange'
const accessTokenType = 'urn:ietf:params:oauth:token-type:access_token'
const subjectTokenTypes = ['jwt', 'id_token'].map(
  (name) => `urn:ietf:params:oauth:token-type:${name}`,
)

type Dependencies = {
  workloads: Pick<WorkloadTokens, 'exchange'>
  /** The public address of the service; undefined if it is that of each request. */
  baseUrl: string | undefined
}

/** The route of token exchange: RFC 8693. */
export function exchangeRoute({ workloads, baseUrl }: Dependencies): PublicRoute {
  return {
    kind: 'public',
    method: 'POST',
    path: '/tokens/exchange',
    operationId: 'exchangeToken',
    tag: 'trust rules',
    summary: 'Exchange the token of a workload',
    description:
      'OAuth 2.0 Token Exchange (RFC 8693): the JWT that GitHub Actions, GitLab CI, Kubernetes or another svc gives a job ' +
      'becomes a token of an hour with the rights of the oldest matching trust rule of the repository. The audience of the ' +
      'JWT must be that of the rule alone. A problem has `error` and `error_description` of RFC 6749, too.',
    form: ExchangeForm,
    produces: jsonContentType,
    reply: ExchangedTokenSchema,
    problems: ['exchange_refused', 'issuer_unavailable', 'too_many_requests', 'storage_full'],
    async handle({ fields, origin, host, publicOrigin }: PublicRequest) {
      const address = publicOrigin() ?? baseUrl ?? `http://${host}`
      const { jwt, repositoryName } = readForm(fields, address)
      const { token, expiresIn, permissions } = await workloads.exchange(
        jwt,
        repositoryName,
        origin,
      )
      return {
        access_token: token,
        issued_token_type: accessTokenType,
        token_type: 'Bearer',
        expires_in: expiresIn,
        scope: permissions.join(' '),
      }
    },
  }
}

/** The fields of a request. Others are ignored, as RFC 6749 says, but for those of an actor. */
function readForm(
  fields: URLSearchParams,
  serverAddress: string,
): { jwt: string; repositoryName: string } {
  if (fields.get('grant_type') !== grantType)
    throw refusedExchange('unsupported_grant_type', `The grant_type must be ${grantType}.`)
  try {
    checkBody(ExchangeForm, Object.fromEntries(fields))
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    throw refusedExchange('invalid_request', error.message, error)
  }
  if (fields.has('actor_token'))
    throw refusedExchange('invalid_request', 'A token for an actor is not supported.')
  const repositoryName = nameIn(fields.get('resource') ?? '', serverAddress)
  if (repositoryName === undefined || fields.getAll('resource').length > 1) {
    const detail = 'The resource must be the address of one repository of this server.'
    throw refusedExchange('invalid_target', detail)
  }
  return { jwt: fields.get('subject_token') ?? '', repositoryName }
}

/** The name in the address of a repository of a server, for Git or of its page. A proxy may have ended TLS. */
function nameIn(address: string, serverAddress: string): string | undefined {
  const [url, server] = [URL.parse(address), URL.parse(serverAddress)]
  if (!url || !server || url.host !== server.host) return undefined
  const prefix = server.pathname.replace(/\/$/, '')
  if (!url.pathname.startsWith(`${prefix}/`)) return undefined
  const path = url.pathname.slice(prefix.length)
  const [, name] = /^\/(?:repos|r)\/(.+?)(?:\.git)?\/?$/.exec(path) ?? []
  try {
    return name && decodeURIComponent(name)
  } catch {
    return undefined
  }
}

const ExchangeForm = Type.Object({
  grant_type: Type.Literal(grantType, { description: `\`${grantType}\`` }),
  subject_token: Type.String({ description: 'JWT of the workload' }),
  subject_token_type: Type.Unsafe<string>({
    type: 'string',
    enum: subjectTokenTypes,
    description: subjectTokenTypes.join(' or '),
  }),
  resource: Type.String({
    description: 'address of a repository, such as `https://svc.example.com/repos/site.git`',
  }),
})

const ExchangedTokenSchema = named(
  'ExchangedToken',
  Type.Object({
    access_token: field.text('token string, returned only here'),
    issued_token_type: field.text(`always \`${accessTokenType}\``),
    token_type: field.text('always `Bearer`'),
    expires_in: field.integer('its lifetime in seconds'),
    scope: field.text('its permissions, separated by spaces'),
  }),
)
