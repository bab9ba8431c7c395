import { requirePermission } from '#access/may.ts'
import { defaultPermissions, type Permission } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { isId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Publish } from '#events/events.ts'
import { invalid } from '#http/validation.ts'
import type { DescribeTokens, TokenRepositories } from './describe-tokens.ts'
import {
  delegatedExpiry,
  delegatedRefs,
  requirePermissionsWithin,
  toRefPatterns,
  wantedExpiry,
} from './token-limits.ts'
import { deleteWithDelegated } from './token-lineage.ts'
import { isExpired, type NewToken, newTokenRow, type Token, tokenCreated } from './token-rows.ts'
import {
  countDelegated,
  deleteExpiredDelegated,
  findDelegated,
  insertToken,
  listDelegated,
  lockToken,
} from './token-store.ts'

/** Tokens with a part of the rights of another one, which end with it. */
export type DelegatedTokens = {
  /**
   * Makes a token of the same username. What is not given is that of the delegating token; more than it has throws
   * `permission_missing`, `repository_not_found` or `token_limited`.
   */
  delegate: (
    principal: Principal,
    wanted: Omit<NewToken, 'username'>,
  ) => Promise<Token & { token: string }>
  /** Lists the tokens that end with a token: those delegated from it, from these, and so on. Oldest first. */
  list: (
    principal: Principal,
    page: { after: string; limit: number | undefined },
  ) => Promise<Token[]>
  /** Deletes one of them, with those delegated from it. Throws `token_not_found`. */
  remove: (principal: Principal, id: string) => Promise<void>
}

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  repositories: Pick<TokenRepositories, 'idsOf'>
  describe: DescribeTokens
}

// Deleting the first token of a chain deletes all others in one transaction.
const maxDelegated = 1000

export function createDelegatedTokens(dependencies: Dependencies): DelegatedTokens {
  const { db, publish, clock, repositories, describe } = dependencies

  return {
    async delegate(principal, wanted) {
      const now = clock.now()
      const permissions = delegatedPermissions(principal, wanted.permissions)
      const limits = {
        repositories: await delegatedRepositories(principal, wanted.repositories),
        refs: delegatedRefs(principal, wanted.refs ? toRefPatterns(wanted.refs) : null),
      }
      requirePermissionsWithin(permissions, limits)
      const expiresAt = delegatedExpiry(principal, wantedExpiry(wanted, now), now)
      const { row, token } = await db.transaction().execute(async (tx) => {
        const from = await lockToken(tx, principal.id)
        if (!from || isExpired(from, now)) throw ended()
        const { username } = from
        const parts = { name: wanted.name, username, permissions, createdAt: now, expiresAt }
        const created = newTokenRow({ ...parts, ...limits, delegatedFrom: from })
        const root = from.delegationRoot ?? from.id
        await deleteExpiredDelegated(tx, root, now)
        await insertToken(tx, created.row)
        await publish(tx, now, [tokenCreated(principal, created.row)])
        // Counted last: publishing serializes concurrent delegations, so their rows are visible now.
        if ((await countDelegated(tx, root)) > maxDelegated) throw tooMany()
        return created
      })
      return { ...(await describe.one(principal, row)), token }
    },

    async list(principal, page) {
      const rows = await listDelegated(db, principal.id, { ...page, now: clock.now() })
      return describe.all(principal, rows)
    },

    async remove(principal, id) {
      await db.transaction().execute(async (tx) => {
        const isOwn = isId(id) && (await findDelegated(tx, principal.id, id))
        const by = { publish, actor: principal, now: clock.now() }
        if (isOwn && (await deleteWithDelegated(tx, by, id))) return
        const detail = `No token with the id "${id}" was delegated from this one.`
        throw new Problem('token_not_found', detail)
      })
    },
  }

  async function delegatedRepositories(
    principal: Principal,
    names: string[] | undefined,
  ): Promise<string[] | null> {
    if (names) return [...new Set(await repositories.idsOf(principal, names))]
    return principal.repositories ? [...principal.repositories] : null
  }
}

/** The wanted permissions, else those of an ordinary new token that the principal holds. */
function delegatedPermissions(
  principal: Principal,
  wanted: readonly Permission[] | undefined,
): readonly Permission[] {
  if (!wanted) {
    const { permissions } = principal
    const part = defaultPermissions.filter(
      (one) => permissions.has(one) || permissions.has('admin'),
    )
    if (part.length > 0) return part
    const detail = `is required: this token has none of ${defaultPermissions.join(', ')}.`
    throw invalid([{ pointer: '/permissions', detail }])
  }
  for (const permission of wanted) requirePermission(principal, permission)
  return wanted
}

function ended(): Problem {
  return new Problem('token_invalid', 'The token was deleted or has expired.')
}

function tooMany(): Problem {
  return new Problem(
    'too_many_delegated_tokens',
    `${maxDelegated} tokens have been delegated from the same token, which is the maximum; delete some, or let them expire.`,
  )
}
