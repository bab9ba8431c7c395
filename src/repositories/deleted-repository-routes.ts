import { Type } from 'typebox'
import { requireAllRepositories } from '#access/may.ts'
import { RepositoryName } from '#access/names.ts'
import { closed, field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { type FindRequest, nothing, route } from '#http/route.ts'
import type { DeletedRepositories } from './deleted-repositories.ts'
import { atOrigin } from './describe-repository.ts'
import { DescribedRepository } from './repository-schemas.ts'

/** The routes of deleted repositories. */
export function deletedRepositoryRoutes(deletedRepositories: DeletedRepositories) {
  const find = ({ principal, permission, params }: FindRequest<{ id: string }>) =>
    deletedRepositories.find(principal, params.id, permission)

  return [
    route('GET', '/deleted-repos', {
      operationId: 'listDeletedRepositories',
      tag: 'repositories',
      summary: 'List deleted repositories',
      description:
        'Lists the deleted repositories that can still be restored, in the order of their creation: those that the ' +
        'user owned or had the role `admin` in, or all for an admin.',
      permission: 'repo:read',
      allowsLimited: true,
      query: PageQuery,
      reply: { 200: Type.Array(DeletedRepository) },
      handle: (request) =>
        paged(request, (page) => deletedRepositories.list(request.principal, page)),
    }),
    route('POST', '/deleted-repos/:id/restore', {
      operationId: 'restoreRepository',
      tag: 'repositories',
      summary: 'Restore a deleted repository',
      description:
        'Restores the repository with everything that belonged to it, under its former name or a new one. Its id stays ' +
        'the same. Only its owner, collaborators with the role `admin` and admins can do this, with a token for all repositories.',
      permission: 'repo:delete',
      find,
      body: Type.Object({ name: Type.Optional(RepositoryName) }, closed),
      reply: { 200: DescribedRepository },
      problems: [
        'repository_not_found',
        'repository_name_taken',
        'token_limited',
        'too_many_repositories',
        'namespace_full',
      ],
      handle: async ({ principal, found, body, publicOrigin }) => {
        // A name that is taken, or is not, would show whether other repositories exist.
        requireAllRepositories(principal)
        const restored = await deletedRepositories.restore(principal, found, body.name)
        return atOrigin(restored, publicOrigin())
      },
    }),
    route('DELETE', '/deleted-repos/:id', {
      operationId: 'purgeRepository',
      tag: 'repositories',
      summary: 'Purge a deleted repository',
      description:
        'Removes a deleted repository and everything that belonged to it for good. Only its owner, collaborators with the role ' +
        '`admin` and admins can do this.',
      permission: 'repo:delete',
      find,
      reply: { 204: nothing },
      problems: ['repository_not_found'],
      handle: ({ principal, found }) => deletedRepositories.purge(principal, found),
    }),
  ]
}

export const DeletedRepository = named(
  'DeletedRepository',
  Type.Object({
    id: field.text('Id of the repository'),
    name: field.text('Name when it was deleted; another repository may have it'),
    createdAt: field.time('When it was created'),
    ownerTokenId: field.text('Id of the token that created it'),
    ownerUsername: field.text('Username of its owner'),
    deletedAt: field.time('When it was deleted'),
    purgeAt: field.integer(
      'When it is removed for good, in milliseconds since the Unix epoch; earlier when the disk is nearly full',
    ),
  }),
)
