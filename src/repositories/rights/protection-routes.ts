import { Type } from 'typebox'
import { Username } from '#access/names.ts'
import { namespaceIn } from '#base/repository-name.ts'
import { closed, field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { route } from '#http/route.ts'
import {
  ownerRules,
  type ProtectedKind,
  type Protection,
  toRuleValues,
  type WantedRules,
} from '../protection-rules.ts'
import {
  contextForm,
  type RequirementValue,
  readRequirements,
  type ToWorkflowPath,
} from '../requirements.ts'
import { type NamedScope, routesOfScopes, type ScopeAccess } from '../scopes.ts'
import type { Protections } from './protections.ts'

/** Finds what some rules of a repository require although it is not there, in sentences. */
export type FindRuleWarnings = (
  repositoryId: string,
  rules: readonly Protection[],
  inForce: readonly Protection[],
) => Promise<string[]>

/** What the routes of protections are made of. */
export type ProtectionParts = ScopeAccess & {
  protections: Protections
  toWorkflowPath: ToWorkflowPath
  findRuleWarnings: FindRuleWarnings
}

const maxRequired = 20

export function protectionRoutes(dependencies: ProtectionParts) {
  const { protections, toWorkflowPath, findRuleWarnings, ...access } = dependencies

  async function listOf(scope: NamedScope, kind: ProtectedKind, hasWarnings = false) {
    const isOfNamespace = scope.kind === 'namespace'
    const all = await (isOfNamespace ? protections.list(scope) : protections.listInForce(scope))
    const ofKind = all.filter((one) => one.kind === kind)
    const own = ofKind.filter(({ namespace }) => namespace === null).map(toRule)
    const patterns = own.map(({ pattern }) => pattern)
    if (isOfNamespace) return { patterns, rules: { rules: own } }
    const warnings = hasWarnings ? await findRuleWarnings(scope.id, ofKind, all) : []
    const inherited = ofKind.flatMap((one) =>
      one.namespace === null ? [] : [{ ...toRule(one), namespace: one.namespace }],
    )
    const rules = {
      rules: own,
      ...(namespaceIn(scope.name) !== undefined && { inherited }),
      ...(warnings.length > 0 && { warnings }),
    }
    return { patterns, rules }
  }

  async function branchesOf(scope: NamedScope, hasWarnings?: boolean) {
    const { patterns, rules } = await listOf(scope, 'branch', hasWarnings)
    return { branches: patterns, ...rules }
  }

  async function tagsOf(scope: NamedScope, hasWarnings?: boolean) {
    const { patterns, rules } = await listOf(scope, 'tag', hasWarnings)
    return { tags: patterns, ...rules }
  }

  const toWanted = ({
    requires,
    ...others
  }: Omit<WantedRules, 'requires'> & { requires?: RequirementValue[] }): WantedRules => ({
    ...others,
    requires: requires && readRequirements(requires, toWorkflowPath),
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
        query: ListQuery,
        reply: { 200: Branches },
        problems: problems('member'),
        handle: ({ found, query }) => branchesOf(found, query.warnings),
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
        body: BranchRules,
        reply: { 200: Branches },
        problems: maintainerProblems,
        handle: async ({ principal, found, params: { branch: text }, body }) => {
          await protections.put(principal, found, { kind: 'branch', text, ...toWanted(body) })
          return branchesOf(found, true)
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
        query: ListQuery,
        reply: { 200: Tags },
        problems: problems('member'),
        handle: ({ found, query }) => tagsOf(found, query.warnings),
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
          return tagsOf(found, true)
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

function toRule(protection: Protection) {
  return { pattern: protection.pattern, ...toRuleValues(protection) }
}

const ListQuery = Type.Object(
  { warnings: Type.Optional(field.boolean('`true` to list `warnings`, too')) },
  closed,
)

const ownersHelp =
  'what owners may do: `any`, the default; `fast-forward`, that is create it and add commits, but neither force nor ' +
  'delete it; or `none`'

const requiresHelp =
  'what the pushed commit must have: a successful run of a workflow file such as `ci.yml`, which with ' +
  '`{"workflow": "ci.yml", "from": "refs/heads/main"}` must be the same as the one of that ref; or a status from outside, as ' +
  '`{"status": "ci/build", "by": ["ci-bot"]}`, whose newest report, of one of these users if they are given, is `success`'

const Requirement = Type.Union([
  Type.String({ maxLength: 250 }),
  Type.Object(
    {
      workflow: Type.String({ description: 'a workflow file', maxLength: 250 }),
      from: Type.Optional(
        Type.String({ description: 'the full name of a branch or tag', maxLength: 250 }),
      ),
    },
    closed,
  ),
  Type.Object(
    {
      status: Type.String({
        ...contextForm,
        description: 'the context of a status',
      }),
      by: Type.Optional(
        Type.Array(Username, { description: 'who may report it', minItems: 1, maxItems: 20 }),
      ),
    },
    closed,
  ),
])

const Approvals = Type.Integer({
  description:
    'how many users who may push, and have not made a change, must approve it before it lands. With 1 and more, nothing ' +
    'else is pushed to the branch, and everybody who may push may land',
  minimum: 0,
  maximum: 20,
})
const ByCodeOwners = Type.Boolean({
  description:
    'whether a change needs the approval of an owner of each path that it touches, by the file CODEOWNERS of the branch',
})

const ByQueue = Type.Boolean({
  description:
    'whether changes land through the queue of the branch, which runs what is required at exactly the commit that lands',
})

const Rules = Type.Object(
  {
    owners: Type.Optional(Type.Enum(ownerRules, { description: ownersHelp })),
    requires: Type.Optional(
      Type.Array(Requirement, { description: requiresHelp, maxItems: maxRequired }),
    ),
  },
  closed,
)

const BranchRules = Type.Object(
  {
    ...Rules.properties,
    approvals: Type.Optional(Approvals),
    codeOwners: Type.Optional(ByCodeOwners),
    queue: Type.Optional(ByQueue),
  },
  closed,
)

const rule = {
  pattern: field.text('Name or pattern'),
  owners: Type.Enum(ownerRules, { description: ownersHelp }),
  requires: Type.Array(Requirement, { description: requiresHelp }),
  approvals: Approvals,
  codeOwners: ByCodeOwners,
  queue: ByQueue,
}

const rules = {
  rules: Type.Array(Type.Object(rule), { description: 'The same with their rules' }),
  inherited: Type.Optional(
    Type.Array(Type.Object({ ...rule, namespace: field.text('name of the namespace') }), {
      description: 'For a repository in a namespace: the rules of the namespace, which hold, too',
    }),
  ),
  warnings: Type.Optional(
    field.texts(
      'what these rules of a repository require although it is not there, in sentences; left out when there is nothing. A `PUT` has them, and a list on request',
    ),
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
