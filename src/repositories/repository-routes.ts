import { Type } from 'typebox'
import { requireAllRefs, requireAllRepositories, requireAllUserRights } from '#access/may.ts'
import { NamespaceName, RepositoryName, Username } from '#access/names.ts'
import { includesRole } from '#access/roles.ts'
import { visibilities } from '#access/visibility.ts'
import { objectFormats } from '#base/object-id.ts'
import { Problem, refusedName } from '#base/problem.ts'
import { apiPathOf, namespaceIn } from '#base/repository-name.ts'
import { closed, field, textForm } from '#base/schema-options.ts'
import type { LeakGuardState } from '#database/schema.ts'
import type { Actor } from '#events/events.ts'
import { PageQuery, paged } from '#http/pagination.ts'
import { type FindRequest, nothing, route } from '#http/route.ts'
import { invalid } from '#http/validation.ts'
import { atOrigin } from './describe-repository.ts'
import { openOfRoute, openProblems } from './open-repository.ts'
import { branchNameMaxLength, toBranchName } from './ref-pattern.ts'
import type { Repository as OpenedRepository, Repositories } from './repositories.ts'
import { DescribedRepository, Repository } from './repository-schemas.ts'
import { collaboratorRoutes } from './rights/collaborator-routes.ts'
import type { Collaborators } from './rights/collaborators.ts'
import { type ProtectionParts, protectionRoutes } from './rights/protection-routes.ts'

type Dependencies = ProtectionParts & {
  repositories: Repositories
  collaborators: Collaborators
  defaultBranches: DefaultBranches
}

/** Changes default branches, serialized with pushes. */
type DefaultBranches = {
  requireBranch: (repository: OpenedRepository, branch: string) => Promise<void>
  changeDefaultBranch: (actor: Actor, repository: OpenedRepository, branch: string) => Promise<void>
}

/** The routes of repositories, their protected branches and their collaborators. */
export function repositoryRoutes(dependencies: Dependencies) {
  const { repositories, collaborators, defaultBranches } = dependencies
  const open = openOfRoute(repositories)
  const find = ({ principal, permission, params }: FindRequest<{ name: string }>) =>
    repositories.openInAnyState(principal, params.name, permission)

  /** Checks that the caller may make a branch the default one, and that it can be; returns its short name. */
  async function requireDefaultBranch(found: OpenedRepository, text: string): Promise<string> {
    if (!found.asOwner) throw defaultBranchNeedsOwner()
    const branch = parseDefaultBranch(text)
    await defaultBranches.requireBranch(found, branch)
    return branch
  }

  return [
    route('GET', '/repos', {
      operationId: 'listRepositories',
      tag: 'repositories',
      summary: 'List repositories',
      description: 'Lists the repositories that the token can see, oldest first.',
      permission: 'repo:read',
      allowsLimited: true,
      query: Type.Object({ ...PageQuery.properties, namespace: Type.Optional(NamespaceName) }),
      reply: { 200: Type.Array(Repository) },
      problems: ['namespace_not_found'],
      handle: (request) => {
        const { namespace } = request.query
        return paged(request, (page) =>
          repositories.list(request.principal, { ...page, namespace }),
        )
      },
    }),
    route('POST', '/repos', {
      operationId: 'createRepository',
      tag: 'repositories',
      summary: 'Create an empty repository',
      description:
        'The token and all others of the same username own the repository. If the first push does not contain the ' +
        'default branch, the pushed branch becomes the default; of several, `main`, `master`, `trunk` or the first by ' +
        'name. Without `defaultBranch`, a later push of `main`, `master` or `trunk` takes the place of any other name.',
      permission: 'repo:write',
      body: Type.Object(
        {
          name: RepositoryName,
          defaultBranch: Type.Optional(DefaultBranch),
          objectFormat: Type.Optional(
            Type.Enum(objectFormats, {
              description: 'Hash function of its object ids. Without it, the first push decides.',
            }),
          ),
          visibility: Type.Optional(VisibilityChoice),
        },
        closed,
      ),
      reply: { 201: DescribedRepository },
      problems: [
        'repository_name_taken',
        'namespace_not_found',
        'role_insufficient',
        'too_many_repositories',
      ],
      handle: async ({ principal, body, setHeader, publicOrigin }) => {
        const { name, defaultBranch, objectFormat, visibility } = body
        const branch = defaultBranch === undefined ? undefined : parseDefaultBranch(defaultBranch)
        const created = await repositories.create(principal, {
          name,
          defaultBranch: branch,
          objectFormat,
          visibility,
        })
        setHeader('location', apiPathOf(body.name))
        return atOrigin(created, publicOrigin())
      },
    }),
    route('GET', '/repos/:name', {
      operationId: 'getRepository',
      tag: 'repositories',
      summary: 'Get a repository',
      description:
        'Includes the progress of a running import, and for a day why an import failed. The name may end in `.git`, ' +
        'as in the clone URL.',
      permission: 'repo:read',
      find: ({ principal, permission, params }) =>
        repositories.openInAnyState(principal, params.name.replace(/\.git$/, ''), permission),
      reply: { 200: DescribedRepository },
      problems: ['repository_not_found'],
      handle: async ({ found, publicOrigin }) =>
        atOrigin(await repositories.describe(found), publicOrigin()),
    }),
    route('PATCH', '/repos/:name', {
      operationId: 'updateRepository',
      tag: 'repositories',
      summary: 'Change the name, description and settings of a repository',
      description:
        'A rename keeps everything that belongs to the repository; only the owner and admins can move it into or out of a ' +
        'namespace, which takes the role `maintain` there. For 90 days, Git and pages lead from the old name to ' +
        'it, responses of the API have the new name, and only its owner and admins can take the old one. ' +
        'Only the owner and admins can change the default branch: to an existing branch, or to any name while the ' +
        'repository has no branches. Those with the role `maintain` or more can switch the leak guard, which refuses ' +
        'pushes with credentials. Only the owner and admins can let tokens of workflow runs write, change the visibility, and transfer the ' +
        'repository: `ownerUsername` is then a user who is not disabled, and the token must be neither limited nor delegated. ' +
        'The former owner keeps only what it may as a collaborator or by the visibility.',
      permission: 'repo:write',
      find: async (request) => {
        const found = await open(request)
        requireAllRefs(request.principal)
        return found
      },
      body: Type.Object(
        {
          name: Type.Optional(RepositoryName),
          description: Type.Optional(Description),
          defaultBranch: Type.Optional(DefaultBranch),
          leakGuard: Type.Optional(LeakGuardSwitch),
          runTokens: Type.Optional(RunTokens),
          visibility: Type.Optional(VisibilityChoice),
          ownerUsername: Type.Optional(Username),
        },
        { ...closed, minProperties: 1 },
      ),
      reply: { 200: DescribedRepository },
      problems: [
        ...openProblems,
        'owner_required',
        'token_limited',
        'repository_name_taken',
        'too_many_renames',
        'namespace_not_found',
        'too_many_repositories',
        'namespace_full',
        'ref_not_found',
      ],
      handle: async ({ principal, found, body, publicOrigin }) => {
        const { name = found.name, description, leakGuard, runTokens, visibility } = body
        const { defaultBranch, ownerUsername } = body
        // A refusal because a name is taken would reveal repositories beyond the limit.
        if (body.name !== undefined) requireAllRepositories(principal)
        if (namespaceIn(name) !== namespaceIn(found.name) && !found.asOwner) throw moveNeedsOwner()
        if (leakGuard !== undefined) requireMaintainer(found)
        if (runTokens !== undefined && !found.asOwner) throw runTokensNeedOwner()
        if (visibility !== undefined && !found.asOwner) throw visibilityNeedsOwner()
        if (ownerUsername !== undefined) {
          if (!found.asOwner) throw transferNeedsOwner()
          requireAllUserRights(principal)
          await repositories.requireOwner(ownerUsername)
        }
        const branch =
          defaultBranch === undefined ? undefined : await requireDefaultBranch(found, defaultBranch)
        // First, because the name may be taken; then nothing is changed.
        if (body.name !== undefined) await repositories.rename(principal, found, name)
        const settings = {
          ...(description !== undefined && { description }),
          ...(leakGuard !== undefined && { leakGuard: toState(leakGuard) }),
          ...(runTokens !== undefined && { runTokens }),
          ...(visibility !== undefined && { visibility }),
          ...(ownerUsername !== undefined && { ownerUsername }),
        }
        if (branch !== undefined)
          await defaultBranches.changeDefaultBranch(principal, found, branch)
        // Last, since a transfer ends the rights of its caller.
        if (Object.keys(settings).length > 0) await repositories.set(principal, found, settings)
        const changed = { ...found, name, ...settings }
        return atOrigin(await repositories.describe(changed), publicOrigin())
      },
    }),
    route('DELETE', '/repos/:name', {
      operationId: 'deleteRepository',
      tag: 'repositories',
      summary: 'Delete a repository',
      description:
        'Deletes the repository and everything that belongs to it. Its name is free at once. For a while the owner and ' +
        'admins can restore it: see `GET /deleted-repos`. A running import is cancelled. In a namespace, it takes the role `maintain`.',
      permission: 'repo:delete',
      find,
      reply: { 204: nothing },
      problems: ['repository_not_found', 'role_insufficient'],
      handle: ({ principal, found }) => repositories.remove(principal, found),
    }),
    ...protectionRoutes(dependencies),
    ...collaboratorRoutes({ repositories, collaborators }),
  ]
}

const Description = Type.String({
  ...textForm(
    '0 to 350 characters, none of them a control character',
    '^[^\\u0000-\\u001f\\u007f-\\u009f]{0,350}$',
  ),
  description: 'What it is about: 0 to 350 characters, none of them a control character',
  maxLength: 350,
})

const LeakGuardSwitch = field.boolean('Whether pushes are scanned for credentials')

const RunTokens = Type.Enum(['read', 'write'], {
  description: 'The most that tokens of its workflow runs may do in it; `read` by default',
})

const VisibilityChoice = Type.Enum(visibilities, {
  description:
    'Who can read it: with `private`, the default, those with a role in it; with `internal` every user, with `public` everybody',
})

const DefaultBranch = Type.String({
  description: 'Branch that a clone checks out; `main` by default',
  minLength: 1,
  maxLength: branchNameMaxLength,
})

function parseDefaultBranch(text: string): string {
  const branch = toBranchName(text)
  if (branch !== undefined) return branch
  const form = `the name of a branch, such as main, of at most ${branchNameMaxLength} characters`
  throw invalid([{ pointer: '/defaultBranch', detail: refusedName(text, form) }])
}

function toState(isOn: boolean): LeakGuardState {
  return isOn ? 'on' : 'off'
}

function requireMaintainer({ role }: OpenedRepository): void {
  if (includesRole(role, 'maintain')) return
  const detail =
    'Only the owner of the repository, its maintainers or an admin may switch its leak guard.'
  throw new Problem('owner_required', detail)
}

function moveNeedsOwner(): Problem {
  const detail =
    'Only the owner of the repository or an admin may move it into or out of a namespace.'
  return new Problem('owner_required', detail)
}

function runTokensNeedOwner(): Problem {
  const detail =
    'Only the owner of the repository or an admin may change what tokens of its runs may do.'
  return new Problem('owner_required', detail)
}

function visibilityNeedsOwner(): Problem {
  const detail = 'Only the owner of the repository or an admin may change its visibility.'
  return new Problem('owner_required', detail)
}

function transferNeedsOwner(): Problem {
  return new Problem(
    'owner_required',
    'Only the owner of the repository or an admin may transfer it.',
  )
}

function defaultBranchNeedsOwner(): Problem {
  const detail = 'Only the owner of the repository or an admin may change its default branch.'
  return new Problem('owner_required', detail)
}
