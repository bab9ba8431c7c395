import { Type } from 'typebox'
import { namespaceIn } from '#base/repository-name.ts'
import { closed, field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { route } from '#http/route.ts'
import { ownerRules, type ProtectedKind, type Protection } from '../protection-rules.ts'
import { type NamedScope, routesOfScopes, type ScopeAccess } from '../scopes.ts'
import type { Protections } from './protections.ts'

type Dependencies = ScopeAccess & {
  protections: Protections
  /** Normalizes the paths of workflow files. Throws `invalid_request`. */
  toWorkflowPaths: (files: string[]) => string[]
}

const maxRequired = 20

export function protectionRoutes({ protections, toWorkflowPaths, ...access }: Dependencies) {
  async function listOf(scope: NamedScope, kind: ProtectedKind) {
    const all = await protections.list(scope)
    const rules = all.filter((one) => one.kind === kind).map(toRule)
    const patterns = rules.map(({ pattern }) => pattern)
    if (scope.kind === 'namespace' || namespaceIn(scope.name) === undefined)
      return { patterns, rules: { rules } }
    const inherited = (await protections.listInForce(scope)).flatMap((one) =>
      one.kind === kind && one.namespace !== null
        ? [{ ...toRule(one), namespace: one.namespace }]
        : [],
    )
    return { patterns, rules: { rules, inherited } }
  }

  async function branchesOf(scope: NamedScope) {
    const { patterns, rules } = await listOf(scope, 'branch')
    return { branches: patterns, ...rules }
  }

  async function tagsOf(scope: NamedScope) {
    const { patterns, rules } = await listOf(scope, 'tag')
    return { tags: patterns, ...rules }
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

  return routesOfScopes(access, ({ kind, path, open, problems }) => {
    const [maintainer, maintainerProblems] = [open('maintainer'), problems('maintainer')]
    const all = kind === 'namespace' ? allRepositories : ''

    return [
      route('GET', `${path}/protections/branches`, {
        operationId: 'listBranchProtections',
        tag: 'protections',
        summary: 'List protected branches',
        permission: 'repo:read',
        find: open('member'),
        reply: { 200: Branches },
        problems: problems('member'),
        handle: ({ found }) => branchesOf(found),
      }),
      route('PUT', `${path}/protections/branches/:branch*`, {
        operationId: 'addBranchProtection',
        tag: 'protections',
        summary: 'Protect a branch',
        description:
          'Only the owner, collaborators with the role `admin`, and admins can create, change or delete a protected ' +
          'branch, within the rules of the body. `*` in the name matches any characters, including slashes. Slashes in ' +
          `the name need not be percent-encoded.${all}`,
        permission: 'repo:write',
        find: maintainer,
        body: Rules,
        reply: { 200: Branches },
        problems: maintainerProblems,
        handle: async ({ principal, found, params: { branch: text }, body }) => {
          await protections.put(principal, found, { kind: 'branch', text, ...toWanted(body) })
          return branchesOf(found)
        },
      }),
      route('DELETE', `${path}/protections/branches/:branch*`, {
        operationId: 'deleteBranchProtection',
        tag: 'protections',
        summary: 'Remove branch protection',
        permission: 'repo:write',
        find: maintainer,
        reply: { 200: Branches },
        problems: [...maintainerProblems, 'protection_not_found'],
        handle: async ({ principal, found, params: { branch: text } }) => {
          await protections.remove(principal, found, { kind: 'branch', text })
          return branchesOf(found)
        },
      }),
      route('GET', `${path}/protections/tags`, {
        operationId: 'listTagProtections',
        tag: 'protections',
        summary: 'List protected tags',
        permission: 'repo:read',
        find: open('member'),
        reply: { 200: Tags },
        problems: problems('member'),
        handle: ({ found }) => tagsOf(found),
      }),
      route('PUT', `${path}/protections/tags/:pattern*`, {
        operationId: 'addTagProtection',
        tag: 'protections',
        summary: 'Protect a tag',
        description:
          'Only the owner, collaborators with the role `admin`, and admins can create, move or delete a protected tag, ' +
          `within the rules of the body. \`*\` in the name matches any characters, including slashes.${all}`,
        permission: 'repo:write',
        find: maintainer,
        body: Rules,
        reply: { 200: Tags },
        problems: maintainerProblems,
        handle: async ({ principal, found, params: { pattern: text }, body }) => {
          await protections.put(principal, found, { kind: 'tag', text, ...toWanted(body) })
          return tagsOf(found)
        },
      }),
      route('DELETE', `${path}/protections/tags/:pattern*`, {
        operationId: 'deleteTagProtection',
        tag: 'protections',
        summary: 'Remove tag protection',
        permission: 'repo:write',
        find: maintainer,
        reply: { 200: Tags },
        problems: [...maintainerProblems, 'protection_not_found'],
        handle: async ({ principal, found, params: { pattern: text } }) => {
          await protections.remove(principal, found, { kind: 'tag', text })
          return tagsOf(found)
        },
      }),
    ]
  })
}

const allRepositories =
  ' It holds in all repositories of the namespace, besides their own rules: where several match, each counts.'

function toRule({ pattern, owners, requires }: Protection) {
  return { pattern, owners, requires }
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

const rule = {
  pattern: field.text('Name or pattern'),
  owners: Type.Enum(ownerRules, { description: ownersHelp }),
  requires: field.texts(requiresHelp),
}

const rules = {
  rules: Type.Array(Type.Object(rule), { description: 'The same with their rules' }),
  inherited: Type.Optional(
    Type.Array(Type.Object({ ...rule, namespace: field.text('name of the namespace') }), {
      description: 'For a repository in a namespace: the rules of the namespace, which hold, too',
    }),
  ),
}

export const Branches = named(
  'BranchProtections',
  Type.Object({
    branches: field.texts('Branches and patterns, oldest first'),
    ...rules,
  }),
)

export const Tags = named(
  'TagProtections',
  Type.Object({
    tags: field.texts('Tags and patterns, oldest first'),
    ...rules,
  }),
)
