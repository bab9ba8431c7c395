import { type Static, Type } from 'typebox'
import { isAdmin, roleInsufficient } from '#access/may.ts'
import { objectIdForm, Username } from '#access/names.ts'
import { type Permission, permissions } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import { idDigits } from '#base/object-id.ts'
import { Problem, type ProblemCode, refusedName } from '#base/problem.ts'
import { closed, field } from '#base/schema-options.ts'
import { fromGitId, fullNameFault, proposalRefs } from '#git/refs/ref-name.ts'
import type { GitServer } from '#git-server/git-server.ts'
import { named } from '#http/named-schemas.ts'
import { statusOf } from '#http/problem-response.ts'
import { type JsonRoute, type Route, route } from '#http/route.ts'
import { invalid } from '#http/validation.ts'
import { openOfRoute } from '#repositories/open-repository.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'

type Dependencies = {
  repositories: Pick<Repositories, 'open' | 'openForGit' | 'hasOwnRole'>
  checkPush: GitServer['checkPush']
  /** Returns the current principal of a token. Throws `token_not_found`. */
  findToken: (id: string) => Promise<Principal>
  /** All other routes. */
  routes: Route[]
}

const maxChanges = 100

/**
 * The route of dry-run access checks. It decides nothing itself: it calls the functions that authorize requests, for
 * another principal on request.
 */
export function checkRoutes({ repositories, checkPush, findToken, routes }: Dependencies) {
  const operations = new Map(
    routes.filter(isOfRepository).map((operation) => [operation.operationId, operation]),
  )
  const open = openOfRoute(repositories)

  async function subjectOf(
    caller: Principal,
    repository: Repository,
    { username, tokenId }: Pick<Static<typeof CheckBody>, 'username' | 'tokenId'>,
  ): Promise<Principal> {
    if (username === undefined && tokenId === undefined) return caller
    if (username !== undefined && tokenId !== undefined)
      throw invalid([{ pointer: '/tokenId', detail: 'cannot be given with `username`.' }])
    if (!repository.asOwner) {
      throw new Problem(
        'owner_required',
        'Only the owner of the repository or an admin may check the access of another user or token.',
      )
    }
    if (tokenId === undefined) return userPrincipal(username ?? '')
    if (isAdmin(caller)) return findToken(tokenId)
    return findInvolved(repository, tokenId)
  }

  /** Owners cannot distinguish the token of a user without a role in the repository from an unknown token. */
  async function findInvolved({ id }: Repository, tokenId: string): Promise<Principal> {
    const principal = await findToken(tokenId).catch(ignoreUnknownToken)
    const isInvolved = principal && (await repositories.hasOwnRole(principal, id))
    return isInvolved ? principal : userPrincipal('')
  }

  async function checkOperation(
    { permission, find }: JsonRoute,
    principal: Principal,
    name: string,
  ): Promise<void> {
    if (permission === undefined || permission === 'run') return
    // Only access matters: other parts of the path need not exist.
    const params = new Proxy({ name }, { get: (named, key) => (key === 'name' ? named.name : '') })
    await find?.({ principal, permission, params })
  }

  return [
    route('POST', '/repos/:name/check', {
      operationId: 'checkAccess',
      tag: 'repositories',
      summary: 'Check whether a push or a request would be allowed',
      description:
        'Reports whether an action would be allowed and, if not, which rule would refuse it, without performing it. ' +
        '`action` is `fetch`, `push` or the operation id of a request about a repository. Owners and admins can check ' +
        'another user, with all permissions, or the token of a user with a role in it. Rules about the body of the request (such as the role given ' +
        'to a collaborator), the content of a push or the names of other refs are not checked.',
      permission: 'repo:read',
      isServedWhenFull: true,
      find: open,
      body: CheckBody,
      reply: { 200: AccessCheck },
      problems: [
        'repository_not_found',
        'repository_importing',
        'owner_required',
        'token_not_found',
      ],
      handle: async ({ principal, found, params: { name }, body }) => {
        const { action, refs } = body
        const operation = operations.get(action)
        if (!operation && action !== 'fetch' && action !== 'push')
          throw unknownAction(action, operations)
        if (refs && action !== 'push')
          throw invalid([{ pointer: '/refs', detail: 'applies only to the action `push`.' }])
        const changes = (refs ?? []).map(toChange)
        const subject = await subjectOf(principal, found, body)
        let repository: Repository | undefined
        const refusal = await refusalOf(async () => {
          if (operation) return checkOperation(operation, subject, name)
          const permission: Permission = action === 'push' ? 'repo:write' : 'repo:read'
          const isProposed = changes.some(({ ref }) => ref.startsWith(proposalRefs))
          // Each ref is then judged by the role.
          const need = isProposed ? 'proposer' : 'member'
          repository = await repositories.openForGit(subject, name, permission, need)
        })
        if (!repository || changes.length === 0) return toCheck(action, refusal, [])
        const judged = await checkPush(subject, repository, changes)
        const ofRole = repository.role === 'read' ? roleInsufficient(repository) : undefined
        const decisions = changes.map(({ ref }, index) =>
          ref.startsWith(proposalRefs) ? judged[index] : (ofRole ?? judged[index]),
        )
        const checked = changes.map(({ ref }, index) => ({ ref, ...toDecision(decisions[index]) }))
        return toCheck(
          action,
          decisions.find((problem) => problem !== undefined),
          checked,
        )
      },
    }),
  ]
}

function isOfRepository(candidate: Route): candidate is JsonRoute {
  const { kind, path } = candidate
  return kind === 'json' && path.startsWith('/repos/:name') && candidate.find !== undefined
}

function ignoreUnknownToken(error: unknown): undefined {
  if (error instanceof Problem && error.code === 'token_not_found') return undefined
  throw error
}

/** A principal for a user, with all permissions except `admin`. */
function userPrincipal(username: string): Principal {
  const all = permissions.filter((permission) => permission !== 'admin')
  return { kind: 'token', id: '', username, permissions: new Set(all) }
}

function toChange({ ref, change = 'update', commit }: Static<typeof RefChange>, index: number) {
  const full = ref.startsWith('refs/') ? ref : `refs/heads/${ref}`
  const detail = fullNameFault(full)
  if (detail !== undefined) throw invalid([{ pointer: `/refs/${index}/ref`, detail }])
  return { ref: full, change, commit: commit && fromGitId(commit) }
}

const refusals: ReadonlySet<ProblemCode> = new Set([
  'permission_missing',
  'token_limited',
  'role_insufficient',
  'owner_required',
  'repository_not_found',
  'repository_importing',
])

/** The problem with which a request is refused; undefined when access is granted, even if something does not exist. */
async function refusalOf(attempt: () => Promise<void>): Promise<Problem | undefined> {
  try {
    await attempt()
    return undefined
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    if (refusals.has(error.code)) return error
    if (statusOf(error) === 404) return undefined
    throw error
  }
}

function toCheck(action: string, problem: Problem | undefined, refs: Static<typeof CheckedRef>[]) {
  return { action, ...toDecision(problem), refs }
}

function toDecision(problem: Problem | undefined) {
  return {
    allowed: problem === undefined,
    code: problem?.code ?? null,
    detail: problem?.message ?? null,
  }
}

function unknownAction(action: string, operations: ReadonlyMap<string, unknown>): Problem {
  const all = ['fetch', 'push', ...operations.keys()].join(', ')
  return invalid([{ pointer: '/action', detail: refusedName(action, `one of ${all}`) }])
}

const RefChange = Type.Object(
  {
    ref: Type.String({ description: 'Full name of the ref, or name of a branch', maxLength: 1024 }),
    change: Type.Optional(
      Type.Unsafe<'update' | 'force' | 'delete'>({
        type: 'string',
        enum: ['update', 'force', 'delete'],
        description: 'How it would change; `update`, the default, also creates it',
      }),
    ),
    commit: Type.Optional(
      Type.String({
        ...objectIdForm,
        description: 'Id of the commit that it would point to; without it, a new commit',
        maxLength: idDigits('sha256'),
      }),
    ),
  },
  closed,
)

const CheckBody = Type.Object(
  {
    action: Type.String({
      description: '`fetch`, `push` or the operation id of a request about a repository',
      maxLength: 100,
    }),
    refs: Type.Optional(
      Type.Array(RefChange, { description: 'What would be pushed', maxItems: maxChanges }),
    ),
    username: Type.Optional(Username),
    tokenId: Type.Optional(Type.String({ description: 'Id of a token', maxLength: 26 })),
  },
  closed,
)

const decision = {
  allowed: field.boolean('Whether it would be allowed'),
  code: field.orNull(
    Type.String(),
    'Code of the problem that would refuse it; null if it is allowed',
  ),
  detail: field.orNull(Type.String(), 'The reason, with the rule and what would satisfy it'),
}

const CheckedRef = Type.Object({
  ref: field.text('Full name of the ref'),
  ...decision,
})

export const AccessCheck = named(
  'AccessCheck',
  Type.Object({
    action: field.text('The action that was checked'),
    ...decision,
    refs: Type.Array(CheckedRef, {
      description: 'The decision on each ref of a push; if one is refused, so is the push',
    }),
  }),
)
