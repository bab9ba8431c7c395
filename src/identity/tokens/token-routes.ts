import { type TProperties, Type } from 'typebox'
import {
  expiresInDays,
  maxExpirySeconds,
  minExpirySeconds,
  RepositoryName,
  TokenName,
  Username,
} from '#access/names.ts'
import {
  type Permission,
  type Preset,
  permissions,
  presets,
  spellOut,
} from '#access/permissions.ts'
import { closed, field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { nothing, route } from '#http/route.ts'
import { maxLimitedRepositories, maxRefPatterns, refPatternMaxLength } from './token-limits.ts'
import type { Tokens } from './tokens.ts'

/** The routes of API tokens. */
export function tokenRoutes(tokens: Tokens) {
  return [
    route('GET', '/tokens', {
      operationId: 'listTokens',
      tag: 'tokens',
      summary: 'List tokens',
      permission: 'admin',
      query: PageQuery,
      reply: { 200: Type.Array(Token) },
      handle: (request) => paged(request, (page) => tokens.list(request.principal, page)),
    }),
    route('POST', '/tokens', {
      operationId: 'createToken',
      tag: 'tokens',
      summary: 'Create a token',
      description:
        'Only this response contains the token string. A token with `repositories` can access only ' +
        'these: it cannot create repositories, nor hold `admin`, `runner` or `metrics:read`. A token with `refs` can ' +
        'push only to these.',
      permission: 'admin',
      body: Type.Object({ ...newToken, username: Type.Optional(Username) }, closed),
      reply: { 201: CreatedToken },
      problems: ['repository_not_found', 'token_limited'],
      handle: async ({ principal, body }) => ({
        ...(await tokens.create(principal, spelledOut(body))),
        message: saveIt,
      }),
    }),
    route('POST', '/tokens/delegate', {
      operationId: 'delegateToken',
      tag: 'tokens',
      summary: 'Delegate a token',
      description:
        "Creates a token of the same username with a part of this token's permissions, repositories, refs and time. " +
        'Omitted properties are those of this token, but of the permissions only `repo:read` and `repo:write`. The new ' +
        'token ends with this token. Only this response contains the token string.',
      permission: 'any',
      allowsLimited: true,
      body: Type.Object(newToken, closed),
      reply: { 201: CreatedToken },
      problems: [
        'permission_missing',
        'token_limited',
        'repository_not_found',
        'too_many_delegated_tokens',
      ],
      handle: async ({ principal, body }) => ({
        ...(await tokens.delegated.delegate(principal, spelledOut(body))),
        message: saveIt,
      }),
    }),
    route('GET', '/tokens/delegated', {
      operationId: 'listDelegatedTokens',
      tag: 'tokens',
      summary: 'List delegated tokens',
      description:
        'Lists the tokens that end with this one, oldest first, without those that have expired.',
      permission: 'any',
      allowsLimited: true,
      query: PageQuery,
      reply: { 200: Type.Array(Token) },
      handle: (request) => paged(request, (page) => tokens.delegated.list(request.principal, page)),
    }),
    route('DELETE', '/tokens/delegated/:id', {
      operationId: 'deleteDelegatedToken',
      tag: 'tokens',
      summary: 'Delete a delegated token',
      description:
        'Deletes a token that ends with this one, and those that were delegated from it.',
      permission: 'any',
      allowsLimited: true,
      reply: { 204: nothing },
      problems: ['token_not_found'],
      handle: ({ principal, params }) => tokens.delegated.remove(principal, params.id),
    }),
    route('DELETE', '/tokens/:id', {
      operationId: 'deleteToken',
      tag: 'tokens',
      summary: 'Delete a token',
      description:
        'Also deletes the tokens that were delegated from it. Repositories that it owns are kept, and still belong to its ' +
        'username.',
      permission: 'admin',
      reply: { 204: nothing },
      problems: ['token_not_found', 'token_in_use'],
      handle: ({ principal, params }) => tokens.revoke(principal, params.id),
    }),
  ]
}

const permissionNames = [...permissions, ...(Object.keys(presets) as Preset[])]

const PermissionList = Type.Array(
  Type.Unsafe<Permission | Preset>({
    type: 'string',
    enum: permissionNames,
    description: permissionNames.join(', '),
  }),
  {
    description:
      `some of ${permissions.join(', ')}; or presets, which the response spells out: ` +
      `${Object.entries(presets)
        .map(([name, held]) => `${name} (${describePreset(held)})`)
        .join('; ')}`,
    maxItems: permissionNames.length,
  },
)

function describePreset(held: readonly Permission[]): string {
  return held.length === presets.everything.length ? 'all but admin' : held.join(', ')
}

function spelledOut<T extends { permissions?: (Permission | Preset)[] | undefined }>(body: T) {
  return { ...body, permissions: body.permissions && spellOut(body.permissions) }
}

/** The repositories of a new token or key. */
export const LimitedRepositories = Type.Array(RepositoryName, {
  description:
    'names of the only repositories that it can see, 1 to 100; kept by id, so a rename changes nothing',
  minItems: 1,
  maxItems: maxLimitedRepositories,
})

/** The patterns of refs of a new token. */
export const LimitedRefs = Type.Array(Type.String({ maxLength: refPatternMaxLength }), {
  description:
    'patterns of the only refs that it can push, 1 to 50, such as `refs/heads/agents/*`; `*` matches any characters',
  minItems: 1,
  maxItems: maxRefPatterns,
})

const saveIt = 'Save the token now; it is not shown again.'

const newToken = {
  name: TokenName,
  permissions: Type.Optional(PermissionList),
  expiresInDays: Type.Optional(expiresInDays('365 when omitted')),
  expiresInSeconds: Type.Optional(
    Type.Integer({
      description: `${minExpirySeconds} to ${maxExpirySeconds} seconds; in place of expiresInDays`,
      minimum: minExpirySeconds,
      maximum: maxExpirySeconds,
    }),
  ),
  repositories: Type.Optional(LimitedRepositories),
  refs: Type.Optional(LimitedRefs),
} satisfies TProperties

/** The limits of a token in a response. */
export const limitFields = {
  repositories: field.orNull(
    Type.Array(Type.String()),
    'the only repositories that it can see; null for all',
  ),
  refs: field.orNull(
    Type.Array(Type.String()),
    'patterns of the only refs that it can push; null for all',
  ),
} satisfies TProperties

const token = {
  id: field.text('opaque id'),
  name: field.text('label'),
  username: field.text('user of the token'),
  permissions: field.texts('permissions'),
  ...limitFields,
  delegatedFrom: field.orNull(
    Type.String(),
    'id of the token that it was delegated from; null for none',
  ),
  createdAt: field.integer('milliseconds since the Unix epoch'),
  expiresAt: time('when it ends, null for never'),
  lastUsedAt: time('when it was last used, to within 30 s; null for never'),
} satisfies TProperties

export const Token = named('Token', Type.Object(token))

const CreatedToken = named(
  'CreatedToken',
  Type.Object({
    ...token,
    token: field.text('token string, returned only here'),
    message: field.text('reminder to save the token'),
  }),
)

function time(description: string) {
  return Type.Unsafe<number | null>({ type: ['integer', 'null'], description })
}
