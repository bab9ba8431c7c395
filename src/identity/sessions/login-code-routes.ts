import { Type } from 'typebox'
import { field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { route } from '#http/route.ts'
import type { CreateLoginLink } from './login-links.ts'

/** The route of one-time login codes. */
export function loginCodeRoutes(createLoginLink: CreateLoginLink) {
  return [
    route('POST', '/login-codes', {
      operationId: 'createLoginCode',
      tag: 'tokens',
      summary: 'Create a login link for the web pages',
      description:
        'Opens a session of the web pages with the rights of this token, in any browser: once, within a minute. The ' +
        'session ends with the token.',
      permission: 'any',
      allowsLimited: true,
      reply: { 201: LoginLink },
      problems: ['route_not_found'],
      handle: ({ principal, publicOrigin }) =>
        createLoginLink(principal, { origin: publicOrigin() }),
    }),
  ]
}

const LoginLink = named(
  'LoginLink',
  Type.Object({
    url: field.text('address to open in a browser, returned only here'),
    expiresAt: field.integer('milliseconds since the Unix epoch'),
  }),
)
