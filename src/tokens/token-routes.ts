import { type TProperties, Type } from 'typebox'
import { expiresInDays, TokenName, Username } from '../access/names.ts'
import { type Permission, permissions } from '../access/permissions.ts'
import { named } from '../http/named-schemas.ts'
import { PageQuery, paged } from '../http/pages.ts'
import { closed, nothing, route } from '../http/route.ts'
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
      handle: (request) => paged(request, tokens.list),
    }),
    route('POST', '/tokens', {
      operationId: 'createToken',
      tag: 'tokens',
      summary: 'Create a token',
      description: 'Only this response contains the token string.',
      permission: 'admin',
      body: NewToken,
      reply: { 201: CreatedToken },
      handle: async ({ principal, body }) => {
        const created = await tokens.create(principal, body)
        return { ...created, message: 'Save the token now; it is not shown again.' }
      },
    }),
    route('DELETE', '/tokens/:id', {
      operationId: 'deleteToken',
      tag: 'tokens',
      summary: 'Delete a token',
      description: 'Repositories that it owns are kept, and still belong to its username.',
      permission: 'admin',
      reply: { 204: nothing },
      problems: ['token_not_found', 'token_in_use'],
      handle: ({ principal, params }) => tokens.revoke(principal, params.id),
    }),
  ]
}

const PermissionList = Type.Array(
  Type.Unsafe<Permission>({
    type: 'string',
    enum: permissions,
    description: permissions.join(', '),
  }),
  { description: `some of ${permissions.join(', ')}`, maxItems: permissions.length },
)

const NewToken = Type.Object(
  {
    name: TokenName,
    permissions: Type.Optional(PermissionList),
    expiresInDays: Type.Optional(expiresInDays('365 when omitted')),
    username: Type.Optional(Username),
  },
  closed,
)

const token = {
  id: Type.String({ description: 'opaque id' }),
  name: Type.String({ description: 'label' }),
  username: Type.String({ description: 'user of the token' }),
  permissions: Type.Array(Type.String(), { description: 'permissions' }),
  createdAt: Type.Integer({ description: 'milliseconds since the Unix epoch' }),
  expiresAt: time('when it ends, null for never'),
  lastUsedAt: time('when it was last used, to within 30 s; null for never'),
} satisfies TProperties

const Token = named('Token', Type.Object(token))

const CreatedToken = named(
  'CreatedToken',
  Type.Object({
    ...token,
    token: Type.String({ description: 'token string, returned only here' }),
    message: Type.String({ description: 'reminder to save the token' }),
  }),
)

function time(description: string) {
  return Type.Unsafe<number | null>({ type: ['integer', 'null'], description })
}
