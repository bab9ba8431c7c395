import { Type } from 'typebox'
import { Username } from '#access/names.ts'
import { roles } from '#access/roles.ts'
import { closed, field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { nothing, route } from '#http/route.ts'
import { openOfRoute, openProblems } from '../open-repository.ts'
import type { Repositories } from '../repositories.ts'
import type { Collaborators } from './collaborators.ts'

type Dependencies = { repositories: Pick<Repositories, 'open'>; collaborators: Collaborators }

export function collaboratorRoutes({ repositories, collaborators }: Dependencies) {
  const open = openOfRoute(repositories)

  return [
    route('GET', '/repos/:name/collaborators', {
      operationId: 'listCollaborators',
      tag: 'collaborators',
      summary: 'List collaborators',
      description: 'And the members of its namespace, who have access, too.',
      permission: 'collaborator:read',
      find: open,
      reply: { 200: CollaboratorList },
      problems: [...openProblems],
      handle: ({ principal, found }) => collaborators.list(principal, found),
    }),
    route('POST', '/repos/:name/collaborators', {
      operationId: 'addCollaborator',
      tag: 'collaborators',
      summary: 'Add a collaborator',
      description:
        'Gives every token and key with this username access to the repository, within its permissions and the role. The ' +
        "role of a collaborator is changed in the same way. A role above the caller's own cannot be given.",
      permission: 'collaborator:write',
      find: open,
      body: Type.Object({ username: Username, role: Type.Optional(RoleName) }, closed),
      reply: { 201: AddedCollaborator },
      problems: [...openProblems, 'role_insufficient'],
      handle: ({ principal, found, body }) => collaborators.add(principal, found, body),
    }),
    route('DELETE', '/repos/:name/collaborators/:username', {
      operationId: 'removeCollaborator',
      tag: 'collaborators',
      summary: 'Remove a collaborator',
      permission: 'collaborator:write',
      find: open,
      reply: { 204: nothing },
      problems: [...openProblems, 'role_insufficient', 'collaborator_not_found'],
      handle: ({ principal, found, params }) =>
        collaborators.remove(principal, found, params.username),
    }),
  ]
}

const roleHelp =
  '`read`: only what needs a permission that ends in `:read`; `write`: also pushing and all else that needs no owner; ' +
  '`maintain`: also protections and webhooks; `admin`: everything that the owner can do'

const RoleName = Type.Enum(roles, { description: `${roleHelp}. Defaults to write` })

const collaboratorList = {
  repoName: field.text('Name of the repository'),
  collaborators: field.texts('Usernames, oldest first'),
  unknownUsernames: field.texts(
    'Those that no token or SSH key has yet; empty for a token that is limited to repositories',
  ),
  roles: Type.Record(Type.String(), Type.Enum(roles), { description: 'Roles by username' }),
  inherited: Type.Optional(
    Type.Array(
      Type.Object({
        namespace: field.text('Name of the namespace'),
        member: field.text('A username, or `group:` and the name of a group'),
        role: Type.Enum(roles, { description: 'Its role' }),
      }),
      {
        description:
          'The members of the namespace of the repository, who have access by it; only for its members and admins',
      },
    ),
  ),
}

export const CollaboratorList = named('Collaborators', Type.Object(collaboratorList))

const AddedCollaborator = named(
  'AddedCollaborator',
  Type.Object({
    ...collaboratorList,
    unknown: Type.Optional(
      field.boolean('true when no token or SSH key has the added username yet'),
    ),
  }),
)
