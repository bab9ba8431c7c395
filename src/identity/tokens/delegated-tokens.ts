import { hasAllUserRights, holds, requirePermission } from '#access/may.ts'
import { defaultPermissions, type Permission } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { isId } from '#base/ids.ts'
import type { PageRequest } from '#base/list-all.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import type { Publish } from '#events/events.ts'
import { invalid } from '#http/validation.ts'
import type { DescribeTokens, TokenRepositories } from './describe-tokens.ts'
import { lockOwnToken } from './lock-principal.ts'
import {
  delegatedExpiry,
  delegatedRefs,
  requestedExpiry,
  requirePermissionsWithin,
  toRefPatterns,
} from './token-limits.ts'
import { deleteWithDelegated } from './token-lineage.ts'
import { type NewToken, newTokenRow, type Token, tokenCreated, toPrincipal } from './token-rows.ts'
import {
  countDelegated,
  deleteExpiredDelegated,
  findDelegated,
  insertToken,
  isTokenOfLogin,
  listDelegated,
  listTokensOfLogin,
} from './token-store.ts'

/** Tokens with a part of the rights of another token, which end with that token. */
export type DelegatedTokens = {
  /**
   * Creates a token of the same username. Omitted properties are those of the delegating token. Throws
   * `permission_missing`, `repository_not_found` or `token_limited` for rights that it does not have. `requirement` is
   * part of the transaction.
   */
  delegate: (
    principal: Principal,
    newToken: Omit<NewToken, 'username'>,
    requirement?: (tx: Db) => Promise<void>,
  ) => Promise<Token & { token: string }>
  /**
   * Lists the tokens that were delegated from the caller's token, directly or not, oldest first; for a person who has logged
   * in, all tokens that end with the login.
   */
  list: (principal: Principal, page: PageRequest) => Promise<Token[]>
  /** Deletes a token that `list` returns, with the tokens delegated from it. Throws `token_not_found`. */
  remove: (principal: Principal, id: string) => Promise<void>
}

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  repositories: Pick<TokenRepositories, 'idsOf'>
  describe: DescribeTokens
}

// Deleting the first token of a chain, or a login, deletes all others in one transaction.
export const maxDelegated = 1000

export function createDelegatedTokens(dependencies: Dependencies): DelegatedTokens {
  const { db, publish, clock, repositories, describe } = dependencies

  return {
    async delegate(principal, newToken, requirement) {
      const now = clock.now()
      const permissions = delegatedPermissions(principal, newToken.permissions)
      const limits = {
        repositories: await delegatedRepositories(principal, newToken.repositories),
        refs: delegatedRefs(principal, newToken.refs ? toRefPatterns(newToken.refs) : null),
      }
      requirePermissionsWithin(permissions, limits)
      const expiresAt = delegatedExpiry(principal, requestedExpiry(newToken, now), now)
      const { row, token } = await db.transaction().execute(async (tx) => {
        const from = await lockOwnToken(tx, principal, now)
        // A person who was an admin when the request was admitted may be none now.
        for (const permission of permissions) requirePermission(toPrincipal(from), permission)
        await requirement?.(tx)
        const { username } = from
        const parts = { name: newToken.name, username, permissions, createdAt: now, expiresAt }
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
      const asked = { ...page, now: clock.now() }
      const loginId = loginOf(principal)
      const rows = await (loginId === undefined
        ? listDelegated(db, principal.id, asked)
        : listTokensOfLogin(db, loginId, asked))
      return describe.all(principal, rows)
    },

    async remove(principal, id) {
      await db.transaction().execute(async (tx) => {
        const loginId = loginOf(principal)
        const isOwn =
          isId(id) &&
          (await (loginId === undefined
            ? findDelegated(tx, principal.id, id)
            : isTokenOfLogin(tx, loginId, id)))
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

/** The login of a person whose rights a principal has in full: such a person also manages the other tokens of the login. */
function loginOf(principal: Principal): string | undefined {
  return hasAllUserRights(principal) ? principal.loginId : undefined
}

/** The requested permissions, or else the default permissions that the principal holds. */
function delegatedPermissions(
  principal: Principal,
  requested: readonly Permission[] | undefined,
): readonly Permission[] {
  if (!requested) {
    const held = defaultPermissions.filter((permission) => holds(principal, permission))
    if (held.length > 0) return held
    const detail = `is required: this token has none of ${defaultPermissions.join(', ')}.`
    throw invalid([{ pointer: '/permissions', detail }])
  }
  for (const permission of requested) requirePermission(principal, permission)
  return requested
}

function tooMany(): Problem {
  return new Problem(
    'too_many_delegated_tokens',
    `${maxDelegated} tokens have been delegated from the same token, which is the maximum; delete some, or let them expire.`,
  )
}
