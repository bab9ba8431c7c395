import { Type } from 'typebox'
import { isNamespaceMember, NamespaceName, namespaceMemberForm } from '#access/names.ts'
import { type Role, roles } from '#access/roles.ts'
import { refusedName } from '#base/problem.ts'
import { closed, field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { type FindRequest, nothing, route } from '#http/route.ts'
import { invalid } from '#http/validation.ts'
import type { Namespace, Namespaces } from './namespaces.ts'

/** The routes of namespaces and their members. */
export function namespaceRoutes(namespaces: Namespaces) {
  const openFor =
    (role?: Role) =>
    ({ principal, params }: FindRequest<{ namespace: string }>): Promise<Namespace> =>
      namespaces.open(principal, params.namespace, role)

  return [
    route('GET', '/namespaces', {
      operationId: 'listNamespaces',
      tag: 'namespaces',
      summary: 'List namespaces',
      description: 'Those of which you are a member, or can see a repository; oldest first.',
      permission: 'repo:read',
      query: PageQuery,
      reply: { 200: Type.Array(NamespaceReply) },
      handle: (request) => paged(request, (page) => namespaces.list(request.principal, page)),
    }),
    route('POST', '/namespaces', {
      operationId: 'createNamespace',
      tag: 'namespaces',
      summary: 'Create a namespace',
      description:
        'Repositories in the namespace `acme` have names such as `acme/site`. Admins create namespaces, and users that ' +
        '`SVC_NAMESPACE_CREATORS` names. The creator is its first member, with the role `admin`.',
      permission: 'repo:write',
      find: ({ principal }) => namespaces.requireCreator(principal),
      body: Type.Object({ name: NamespaceName }, closed),
      reply: { 201: NamespaceReply },
      problems: ['token_limited', 'namespace_name_taken', 'repository_name_taken'],
      handle: async ({ principal, body, setHeader }) => {
        const created = await namespaces.create(principal, body.name)
        setHeader('location', `/namespaces/${created.name}`)
        return created
      },
    }),
    route('GET', '/namespaces/:namespace', {
      operationId: 'getNamespace',
      tag: 'namespaces',
      summary: 'Get a namespace',
      permission: 'repo:read',
      find: openFor(),
      reply: { 200: NamespaceReply },
      problems: ['token_limited', 'namespace_not_found'],
      handle: async ({ found }) => found,
    }),
    route('PATCH', '/namespaces/:namespace', {
      operationId: 'updateNamespace',
      tag: 'namespaces',
      summary: 'Rename a namespace, or limit it',
      description:
        'A rename renames all of its repositories, too: for 90 days their old names lead to them, as after a rename of ' +
        'each. Takes the role `admin` in the namespace. Only admins of the server set limits. Above a limit, nothing that ' +
        'exists is deleted, and nothing is added.',
      permission: 'repo:write',
      find: openFor('admin'),
      body: Type.Object(
        {
          name: Type.Optional(NamespaceName),
          maxRepositories: Type.Optional(limit('Most repositories', 1_000_000)),
          maxBytes: Type.Optional(limit('Most bytes of packs and Git LFS objects', 2 ** 50)),
        },
        { ...closed, minProperties: 1 },
      ),
      reply: { 200: NamespaceReply },
      problems: [
        'permission_missing',
        'token_limited',
        'role_insufficient',
        'namespace_not_found',
        'namespace_name_taken',
        'repository_name_taken',
        'repository_importing',
        'too_many_renames',
      ],
      handle: ({ principal, found, body }) => namespaces.update(principal, found, body),
    }),
    route('DELETE', '/namespaces/:namespace', {
      operationId: 'deleteNamespace',
      tag: 'namespaces',
      summary: 'Delete an empty namespace',
      description:
        'A namespace is empty when it has no repositories, nor deleted ones that can be restored. Takes the role `admin` ' +
        'in it.',
      permission: 'repo:delete',
      find: openFor('admin'),
      reply: { 204: nothing },
      problems: [
        'token_limited',
        'role_insufficient',
        'namespace_not_found',
        'namespace_not_empty',
      ],
      handle: ({ principal, found }) => namespaces.remove(principal, found),
    }),
    route('GET', '/namespaces/:namespace/members', {
      operationId: 'listNamespaceMembers',
      tag: 'namespaces',
      summary: 'List the members of a namespace',
      description: 'Oldest first. For its members and admins.',
      permission: 'collaborator:read',
      find: openFor('read'),
      reply: { 200: Type.Array(NamespaceMemberReply) },
      problems: ['token_limited', 'role_insufficient', 'namespace_not_found'],
      handle: ({ found }) => namespaces.listMembers(found),
    }),
    route('PUT', '/namespaces/:namespace/members/:member', {
      operationId: 'setNamespaceMember',
      tag: 'namespaces',
      summary: 'Add a member to a namespace, or change its role',
      description:
        'A member is a username, or `group:` and the name of a group of the identity provider. It has the role in every ' +
        'repository of the namespace, if it has no higher one there. With `maintain` it also creates repositories, with ' +
        '`admin` it manages members. Takes the role `admin` in the namespace.',
      permission: 'collaborator:write',
      find: openFor('admin'),
      body: Type.Object({ role: Type.Enum(roles, { description: 'Its role' }) }, closed),
      reply: { 200: NamespaceMemberReply },
      problems: ['token_limited', 'role_insufficient', 'namespace_not_found'],
      handle: async ({ principal, found, params, body }) => {
        const { member } = params
        if (!isNamespaceMember(member)) {
          const detail = refusedName(member, namespaceMemberForm)
          throw invalid([{ parameter: 'member', in: 'path', detail }])
        }
        return namespaces.setMember(principal, found, { member, role: body.role })
      },
    }),
    route('DELETE', '/namespaces/:namespace/members/:member', {
      operationId: 'removeNamespaceMember',
      tag: 'namespaces',
      summary: 'Remove a member from a namespace',
      description:
        'Ends what it may do by its role in the namespace at once, also in streams and pushes. Takes the role `admin` in ' +
        'the namespace; everybody may leave.',
      permission: 'collaborator:write',
      // Everybody may leave.
      find: openFor('read'),
      reply: { 204: nothing },
      problems: [
        'token_limited',
        'role_insufficient',
        'namespace_not_found',
        'namespace_member_not_found',
      ],
      handle: ({ principal, found, params }) =>
        namespaces.removeMember(principal, found, params.member),
    }),
  ]
}

function limit(description: string, maximum: number) {
  return field.orNull(Type.Integer({ minimum: 0, maximum }), `${description}; null for no limit`)
}

export const NamespaceReply = named(
  'Namespace',
  Type.Object({
    id: field.text('Opaque id, which a rename does not change'),
    name: field.text('Unique name'),
    createdAt: field.time('When it was created'),
    role: field.orNull(
      Type.Enum(roles),
      'Role of the caller; `admin` for admins, null for those who only see one of its repositories',
    ),
    maxRepositories: field.orNull(
      Type.Integer(),
      'Most repositories it may have; null without a limit, and for those who are no members',
    ),
    maxBytes: field.orNull(
      Type.Integer(),
      'Most bytes of packs and Git LFS objects; null without a limit, and for those who are no members',
    ),
  }),
)

export const NamespaceMemberReply = named(
  'NamespaceMember',
  Type.Object({
    member: field.text('A username, or `group:` and the name of a group'),
    role: Type.Enum(roles, { description: 'Its role in all repositories of the namespace' }),
    createdAt: field.time('When it was added'),
    unknown: field.boolean(
      'Whether no token or SSH key has the username yet, or no user who has logged in is in the group',
    ),
  }),
)
