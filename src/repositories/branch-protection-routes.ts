import { Type } from 'typebox'
import { named } from '../http/named-schemas.ts'
import { type FindRequest, route } from '../http/route.ts'
import type { Protections } from './protections.ts'
import type { Need, Repositories } from './repositories.ts'

type Dependencies = { repositories: Pick<Repositories, 'open'>; protections: Protections }

export function branchProtectionRoutes({ repositories, protections }: Dependencies) {
  const open =
    (need: Need = 'member') =>
    ({ principal, permission, params }: FindRequest<{ name: string }>) =>
      repositories.open(principal, params.name, permission, need)

  return [
    route('GET', '/repos/:name/protections/branches', {
      operationId: 'listBranchProtections',
      tag: 'branch protections',
      summary: 'List protected branches',
      permission: 'repo:read',
      find: open(),
      reply: { 200: Branches },
      problems: ['repository_not_found', 'repository_importing'],
      handle: ({ found }) => protections.list(found),
    }),
    route('PUT', '/repos/:name/protections/branches/:branch*', {
      operationId: 'addBranchProtection',
      tag: 'branch protections',
      summary: 'Protect a branch',
      description:
        'Only the owner and admins can create, change or delete a protected branch. `*` in the name matches any ' +
        'characters, including slashes. Slashes in the name need not be percent-encoded.',
      permission: 'repo:write',
      find: open('owner'),
      reply: { 200: Branches },
      problems: ['repository_not_found', 'repository_importing', 'owner_required'],
      handle: ({ principal, found, params }) => protections.add(principal, found, params.branch),
    }),
    route('DELETE', '/repos/:name/protections/branches/:branch*', {
      operationId: 'deleteBranchProtection',
      tag: 'branch protections',
      summary: 'Remove branch protection',
      permission: 'repo:write',
      find: open('owner'),
      reply: { 200: Branches },
      problems: [
        'repository_not_found',
        'repository_importing',
        'owner_required',
        'protection_not_found',
      ],
      handle: ({ principal, found, params }) => protections.remove(principal, found, params.branch),
    }),
  ]
}

const Branches = named(
  'BranchProtections',
  Type.Object({
    branches: Type.Array(Type.String(), { description: 'Branches and patterns, oldest first' }),
  }),
)
