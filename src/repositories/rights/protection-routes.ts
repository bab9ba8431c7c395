import { Type } from 'typebox'
import { closed, field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { route } from '#http/route.ts'
import { openOfRoute, openProblems } from '../open-repository.ts'
import { ownerRules, type ProtectedKind, type Protection } from '../protection-rules.ts'
import type { Need, Repositories, Repository } from '../repositories.ts'
import type { Protections } from './protections.ts'

type Dependencies = {
  repositories: Pick<Repositories, 'open'>
  protections: Protections
  /** Normalizes the paths of workflow files. Throws `invalid_request`. */
  toWorkflowPaths: (files: string[]) => string[]
}

const maxRequired = 20

export function protectionRoutes({ repositories, protections, toWorkflowPaths }: Dependencies) {
  const open = (need?: Need) => openOfRoute(repositories, need)

  async function listOf(repository: Repository, kind: ProtectedKind) {
    const rules = (await protections.list(repository))
      .filter((one) => one.kind === kind)
      .map(({ pattern, owners, requires }) => ({ pattern, owners, requires }))
    return { patterns: rules.map(({ pattern }) => pattern), rules }
  }

  async function branchesOf(repository: Repository) {
    const { patterns, rules } = await listOf(repository, 'branch')
    return { branches: patterns, rules }
  }

  async function tagsOf(repository: Repository) {
    const { patterns, rules } = await listOf(repository, 'tag')
    return { tags: patterns, rules }
  }

  const toWanted = ({
    owners,
    requires,
  }: {
    owners?: Protection['owners']
    requires?: string[]
  }) => ({
    owners,
    requires: requires && toWorkflowPaths(requires),
  })

  return [
    route('GET', '/repos/:name/protections/branches', {
      operationId: 'listBranchProtections',
      tag: 'protections',
      summary: 'List protected branches',
      permission: 'repo:read',
      find: open(),
      reply: { 200: Branches },
      problems: [...openProblems],
      handle: ({ found }) => branchesOf(found),
    }),
    route('PUT', '/repos/:name/protections/branches/:branch*', {
      operationId: 'addBranchProtection',
      tag: 'protections',
      summary: 'Protect a branch',
      description:
        'Only the owner, collaborators with the role `admin`, and admins can create, change or delete a protected ' +
        'branch, within the rules of the body. `*` in the name matches any characters, including slashes. Slashes in ' +
        'the name need not be percent-encoded.',
      permission: 'repo:write',
      find: open('maintainer'),
      body: Rules,
      reply: { 200: Branches },
      problems: [...openProblems, 'owner_required'],
      handle: async ({ principal, found, params: { branch: text }, body }) => {
        await protections.put(principal, found, { kind: 'branch', text, ...toWanted(body) })
        return branchesOf(found)
      },
    }),
    route('DELETE', '/repos/:name/protections/branches/:branch*', {
      operationId: 'deleteBranchProtection',
      tag: 'protections',
      summary: 'Remove branch protection',
      permission: 'repo:write',
      find: open('maintainer'),
      reply: { 200: Branches },
      problems: [...openProblems, 'owner_required', 'protection_not_found'],
      handle: async ({ principal, found, params: { branch: text } }) => {
        await protections.remove(principal, found, { kind: 'branch', text })
        return branchesOf(found)
      },
    }),
    route('GET', '/repos/:name/protections/tags', {
      operationId: 'listTagProtections',
      tag: 'protections',
      summary: 'List protected tags',
      permission: 'repo:read',
      find: open(),
      reply: { 200: Tags },
      problems: [...openProblems],
      handle: ({ found }) => tagsOf(found),
    }),
    route('PUT', '/repos/:name/protections/tags/:pattern*', {
      operationId: 'addTagProtection',
      tag: 'protections',
      summary: 'Protect a tag',
      description:
        'Only the owner, collaborators with the role `admin`, and admins can create, move or delete a protected tag, ' +
        'within the rules of the body. `*` in the name matches any characters, including slashes.',
      permission: 'repo:write',
      find: open('maintainer'),
      body: Rules,
      reply: { 200: Tags },
      problems: [...openProblems, 'owner_required'],
      handle: async ({ principal, found, params: { pattern: text }, body }) => {
        await protections.put(principal, found, { kind: 'tag', text, ...toWanted(body) })
        return tagsOf(found)
      },
    }),
    route('DELETE', '/repos/:name/protections/tags/:pattern*', {
      operationId: 'deleteTagProtection',
      tag: 'protections',
      summary: 'Remove tag protection',
      permission: 'repo:write',
      find: open('maintainer'),
      reply: { 200: Tags },
      problems: [...openProblems, 'owner_required', 'protection_not_found'],
      handle: async ({ principal, found, params: { pattern: text } }) => {
        await protections.remove(principal, found, { kind: 'tag', text })
        return tagsOf(found)
      },
    }),
  ]
}

const ownersHelp =
  'what owners may do: `any`, the default; `fast-forward`, that is create it and add commits, but neither force nor ' +
  'delete it; or `none`'

const requiresHelp =
  'workflow files, such as `ci.yml`, of which the pushed commit must have a successful run'

const Rules = Type.Object(
  {
    owners: Type.Optional(Type.Enum(ownerRules, { description: ownersHelp })),
    requires: Type.Optional(
      Type.Array(Type.String({ maxLength: 250 }), {
        description: requiresHelp,
        maxItems: maxRequired,
      }),
    ),
  },
  closed,
)

const rules = Type.Array(
  Type.Object({
    pattern: field.text('Name or pattern'),
    owners: Type.Enum(ownerRules, { description: ownersHelp }),
    requires: field.texts(requiresHelp),
  }),
  { description: 'The same with their rules' },
)

export const Branches = named(
  'BranchProtections',
  Type.Object({
    branches: field.texts('Branches and patterns, oldest first'),
    rules,
  }),
)

export const Tags = named(
  'TagProtections',
  Type.Object({
    tags: field.texts('Tags and patterns, oldest first'),
    rules,
  }),
)
