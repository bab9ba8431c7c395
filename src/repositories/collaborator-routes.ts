import { Type } from 'typebox'
import { Username } from '../access/names.ts'
import { named } from '../http/named-schemas.ts'
import { closed, type FindRequest, nothing, route } from '../http/route.ts'
import type { Collaborators } from './collaborators.ts'
import type { Repositories } from './repositories.ts'

type Dependencies = { repositories: Pick<Repositories, 'open'>; collaborators: Collaborators }

export function collaboratorRoutes({ repositories, collaborators }: Dependencies) {
  const open = ({ principal, permission, params }: FindRequest<{ name: string }>) =>
    repositories.open(principal, params.name, permission)

  return [
    route('GET', '/repos/:name/collaborators', {
      operationId: 'listCollaborators',
      tag: 'collaborators',
      summary: 'List collaborators',
      permission: 'collaborator:read',
      find: open,
      reply: { 200: CollaboratorList },
      problems: ['repository_not_found', 'repository_importing'],
      handle: ({ found }) => collaborators.list(found),
    }),
    route('POST', '/repos/:name/collaborators', {
      operationId: 'addCollaborator',
      tag: 'collaborators',
      summary: 'Add a collaborator',
      description:
        'Gives every token with this username access to the repository, within the permissions of the token.',
      permission: 'collaborator:write',
      find: open,
      body: Type.Object({ username: Username }, closed),
      reply: { 201: CollaboratorList },
      problems: ['repository_not_found', 'repository_importing'],
      handle: ({ principal, found, body }) => collaborators.add(principal, found, body.username),
    }),
    route('DELETE', '/repos/:name/collaborators/:username', {
      operationId: 'removeCollaborator',
      tag: 'collaborators',
      summary: 'Remove a collaborator',
      permission: 'collaborator:write',
      find: open,
      reply: { 204: nothing },
      problems: ['repository_not_found', 'repository_importing', 'collaborator_not_found'],
      handle: ({ principal, found, params }) =>
        collaborators.remove(principal, found, params.username),
    }),
  ]
}

const CollaboratorList = named(
  'Collaborators',
  Type.Object({
    repoName: Type.String({ description: 'Name of the repository' }),
    collaborators: Type.Array(Type.String(), { description: 'Usernames, oldest first' }),
  }),
)
