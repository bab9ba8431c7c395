import { type TProperties, Type } from 'typebox'
import { Username } from '#access/names.ts'
import { closed, field, textForm } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { nothing, route } from '#http/route.ts'
import { limitFields } from '../tokens/token-routes.ts'
import type { Users } from './users.ts'

/** The routes of users, and of the caller. */
export function userRoutes(users: Users) {
  return [
    route('GET', '/user', {
      operationId: 'getCaller',
      tag: 'users',
      summary: 'Describe the caller',
      description: 'The user of this token, its permissions and its limits.',
      permission: 'any',
      allowsLimited: true,
      reply: { 200: Caller },
      handle: ({ principal }) => users.describeCaller(principal),
    }),
    route('GET', '/users', {
      operationId: 'listUsers',
      tag: 'users',
      summary: 'List users',
      description: 'Everybody who has, or had, a token or a key, oldest first.',
      permission: 'admin',
      query: PageQuery,
      reply: { 200: Type.Array(User) },
      handle: (request) => paged(request, users.list),
    }),
    route('GET', '/users/:username', {
      operationId: 'getUser',
      tag: 'users',
      summary: 'Describe a user',
      description: "Any user for an admin token, otherwise the token's own.",
      permission: 'any',
      allowsLimited: true,
      reply: { 200: User },
      problems: ['permission_missing', 'user_not_found'],
      handle: ({ principal, params }) => users.read(principal, params.username),
    }),
    route('PATCH', '/users/:username', {
      operationId: 'updateUser',
      tag: 'users',
      summary: 'Change or disable a user',
      description:
        'While a user is disabled, none of its tokens, keys and sessions is valid, and its streams and pushes end within ' +
        'a second. Nothing of it is deleted: enabled again, it has all of them.',
      permission: 'admin',
      body: UserChange,
      reply: { 200: User },
      problems: ['user_not_found', 'user_in_use'],
      handle: ({ principal, params, body }) => users.update(principal, params.username, body),
    }),
    route('DELETE', '/users/:username', {
      operationId: 'deleteUser',
      tag: 'users',
      summary: 'Delete a user',
      description:
        'Deletes its tokens, keys and sessions, and what it may do as a collaborator. A user who owns repositories, deleted ' +
        'ones that can be restored among them, cannot be deleted.',
      permission: 'admin',
      reply: { 204: nothing },
      problems: ['user_not_found', 'user_in_use', 'user_owns_repositories'],
      handle: ({ principal, params }) => users.remove(principal, params.username),
    }),
  ]
}

const DisplayName = Type.String({
  ...textForm(
    'at most 100 characters, none of them a control character',
    '^[^\\u0000-\\u001f\\u007f-\\u009f]{0,100}$',
  ),
  maxLength: 100,
})

const Email = Type.String({
  ...textForm('an address of at most 254 characters, or empty', '^(?:[^\\s@]+@[^\\s@]+)?$'),
  maxLength: 254,
})

const UserChange = Type.Object(
  {
    displayName: Type.Optional(DisplayName),
    email: Type.Optional(Email),
    loginSubject: Type.Optional(
      Type.String({
        ...textForm('at most 255 printable ASCII characters; empty for none', '^[\\x20-\\x7e]*$'),
        description:
          'the `sub` by which the identity provider knows the person who is this user; empty for none',
        maxLength: 255,
      }),
    ),
    disabled: Type.Optional(
      Type.Boolean({ description: 'whether its tokens and keys are invalid' }),
    ),
  },
  closed,
)

export const User = named(
  'User',
  Type.Object({
    id: field.text('opaque id'),
    username: Username,
    displayName: field.text('name of the person or program; empty when none is set'),
    email: field.text('e-mail address; empty when none is set'),
    createdAt: field.time('when its first token or key was created'),
    lastSeenAt: field.orNull(
      Type.Integer(),
      'when one of its tokens or keys was last used, to within 30 s; null for never',
    ),
    disabled: field.boolean('whether its tokens and keys are invalid'),
    disabledAt: field.orNull(Type.Integer(), 'since when; null unless it is disabled'),
    source: field.text('login for a person who logs in by the identity provider, otherwise token'),
    loginEndedAt: field.orNull(
      Type.Integer(),
      'since when the identity provider has not vouched for the person, whose tokens and keys are invalid until the next login; null otherwise',
    ),
    groups: field.texts('groups at the identity provider, as of the last login or check'),
    login: field.orNull(
      Type.Object({
        issuer: field.text('issuer of the identity provider'),
        subject: field.text('the `sub` by which it knows the person'),
        lastLoginAt: field.orNull(Type.Integer(), 'when the person last logged in; null for never'),
        checkedAt: field.orNull(
          Type.Integer(),
          'when names and groups were last read; null for never',
        ),
      }),
      'the person at the identity provider; null for none',
    ),
  } satisfies TProperties),
)

const Caller = named(
  'Caller',
  Type.Object({
    user: field.orNull(User, 'null for a run'),
    credential: Type.Object({
      kind: field.text('token, ssh-key or job'),
      id: field.text('id of the token or key'),
      username: field.text('user of the token or key'),
      permissions: field.texts('permissions'),
      ...limitFields,
      expiresAt: field.orNull(
        Type.Integer(),
        'when it ends, in milliseconds since the Unix epoch; null for never',
      ),
    }),
  } satisfies TProperties),
)
