import { requireAllUserRights, requirePermission } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { isId } from '#base/ids.ts'
import { createLastUsed } from '#base/last-used.ts'
import type { PageRequest } from '#base/list-all.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import { hashToken, isTokenString } from '#base/token-string.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import type { Actor, Publish } from '#events/events.ts'
import { createDelegatedTokens, type DelegatedTokens } from './delegated-tokens.ts'
import { createDescribeTokens, type TokenRepositories } from './describe-tokens.ts'
import { lockPrincipal } from './lock-principal.ts'
import {
  defaultExpiry,
  delegatedExpiry,
  requestedExpiry,
  requirePermissionsWithin,
  toRefPatterns,
} from './token-limits.ts'
import { deleteWithDelegated } from './token-lineage.ts'
import {
  isExpired,
  type NewToken,
  newTokenRow,
  type Token,
  tokenCreated,
  toPrincipal,
} from './token-rows.ts'
import {
  findLiveAdmin,
  findLiveTokenOf,
  findLoginToken,
  findToken,
  findTokenByHash,
  insertToken,
  insertTokenOnce,
  listLiveUsernames,
  listTokens,
  markInitialized,
  updateLastUsed,
} from './token-store.ts'

/** Creates, stores (as hashes) and authenticates API tokens. */
export type Tokens = {
  /** Creates a token. Its string is only in this result. Throws `token_limited` and `repository_not_found`. */
  create: (principal: Principal, newToken: NewToken) => Promise<Token & { token: string }>
  /**
   * Creates the first admin token of a new service; undefined if the service has been set up before. A `tokenString`
   * from the settings is installed at every start unless it exists.
   */
  setUp: (tokenString: string | undefined) => Promise<string | undefined>
  /** Returns the principal of a token string; undefined if it is malformed, unknown or expired. */
  authenticate: (token: string) => Promise<Principal | undefined>
  /** Whether a token string belongs to an unexpired token. This does not count as a use of the token. */
  isLive: (token: string) => Promise<boolean>
  /** Returns the current state of a principal; undefined if its token was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  /** Returns the principal of a token. Throws `token_not_found`. */
  principalOf: (id: string) => Promise<Principal>
  /** Returns the oldest valid admin token that was not delegated; undefined if there is none. */
  firstAdmin: () => Promise<Principal | undefined>
  /** Returns the principal of the newest valid token of a username, which will own what is created for the user. */
  ownerNamed: (username: string) => Promise<Principal>
  /** Returns those of `usernames` for which an unexpired token exists. */
  usernamesAmong: (usernames: string[]) => Promise<string[]>
  /** Lists tokens after an id, oldest first. */
  list: (principal: Principal, page: PageRequest) => Promise<Token[]>
  /** Deletes a token and the tokens that were delegated from it. Their long-lived responses end within a second. */
  revoke: (actor: Actor, id: string) => Promise<void>
  delegated: DelegatedTokens
}

const setupActor: Actor = { id: 'local', username: 'admin' }

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  log: Log
  repositories: TokenRepositories
}

export function createTokens({ db, publish, clock, log, repositories }: Dependencies): Tokens {
  const noteUse = createLastUsed({
    clock,
    write: (id, at) => updateLastUsed(db, id, at),
    onError: (err, tokenId) => log.warn({ err, tokenId }, 'last use of a token not recorded'),
  })

  async function insert(
    { row, token }: ReturnType<typeof newTokenRow>,
    actor: Actor,
    requireRights?: (tx: Db) => Promise<void>,
  ) {
    await db.transaction().execute(async (tx) => {
      await requireRights?.(tx)
      await insertToken(tx, row)
      await publish(tx, clock.now(), [tokenCreated(actor, row)])
    })
    return token
  }

  const describe = createDescribeTokens(repositories)

  return {
    delegated: createDelegatedTokens({ db, publish, clock, repositories, describe }),

    async create(principal, newToken) {
      requireAllUserRights(principal)
      const now = clock.now()
      const limits = {
        repositories: newToken.repositories
          ? [...new Set(await repositories.idsOf(principal, newToken.repositories))]
          : null,
        refs: newToken.refs ? toRefPatterns(newToken.refs) : null,
      }
      requirePermissionsWithin(newToken.permissions ?? [], limits)
      const requested = requestedExpiry(newToken, now)
      const { username: owner, permissions = [] } = newToken
      // Otherwise a person who is an admin for now could stay one.
      const isBound = owner === principal.username || permissions.includes('admin')
      const loginId = isBound ? principal.loginId : undefined
      const login = loginId === undefined ? undefined : await findLoginToken(db, loginId)
      const expiry = login
        ? delegatedExpiry({ ...principal, expiresAt: login.expiresAt }, requested, now)
        : requested
      const created = newTokenRow({
        ...limits,
        name: newToken.name,
        username: newToken.username,
        permissions: newToken.permissions,
        createdAt: now,
        expiresAt: expiry === undefined ? defaultExpiry(now) : expiry,
        delegatedFrom: undefined,
        loginId,
      })
      const token = await insert(created, principal, async (tx) =>
        requirePermission(await lockPrincipal(tx, principal, now), 'admin'),
      )
      return { ...(await describe.one(principal, created.row)), token }
    },

    async setUp(tokenString) {
      const first = await markInitialized(db, clock.now())
      const created = newTokenRow(
        {
          name: 'admin',
          username: 'admin',
          permissions: ['admin'],
          createdAt: clock.now(),
          expiresAt: null,
          repositories: null,
          refs: null,
          delegatedFrom: undefined,
        },
        tokenString,
      )
      if (tokenString === undefined) return first ? insert(created, setupActor) : undefined
      const { row } = created
      await db.transaction().execute(async (tx) => {
        if (await insertTokenOnce(tx, row)) {
          await publish(tx, clock.now(), [tokenCreated(setupActor, row)])
        }
      })
      return undefined
    },

    async authenticate(token) {
      if (!isTokenString(token)) return undefined
      const row = await findTokenByHash(db, hashToken(token))
      const now = clock.now()
      if (!row || isExpired(row, now)) return undefined
      noteUse(row)
      return toPrincipal(row)
    },

    async isLive(token) {
      const row = await findTokenByHash(db, hashToken(token))
      return row !== undefined && !isExpired(row, clock.now())
    },

    async refresh(principal) {
      const row = await findToken(db, principal.id)
      return row && !isExpired(row, clock.now()) ? toPrincipal(row) : undefined
    },

    async principalOf(id) {
      // PostgreSQL rejects some texts, such as those that contain NUL.
      const row = isId(id) ? await findToken(db, id) : undefined
      if (!row || isExpired(row, clock.now()))
        throw new Problem('token_not_found', `There is no valid token with the id "${id}".`)
      return toPrincipal(row)
    },

    async firstAdmin() {
      const row = await findLiveAdmin(db, clock.now())
      return row && toPrincipal(row)
    },

    async ownerNamed(username) {
      const row = await findLiveTokenOf(db, username, clock.now())
      if (!row) {
        throw new Problem(
          'username_unknown',
          `No valid token has the username "${username}"; create one with \`svc tokens create --username ${username}\`.`,
        )
      }
      return { ...toPrincipal(row), origin: { via: 'cli', address: null } }
    },

    usernamesAmong: (usernames) => listLiveUsernames(db, usernames, clock.now()),

    list: async (principal, page) => describe.all(principal, await listTokens(db, page)),

    async revoke(actor, id) {
      if (actor.id === id) {
        throw new Problem('token_in_use', 'A token cannot delete itself; use another admin token.')
      }
      await db.transaction().execute(async (tx) => {
        if (!(await deleteWithDelegated(tx, { publish, actor, now: clock.now() }, id))) {
          throw new Problem('token_not_found', `There is no token with the id "${id}".`)
        }
      })
    },
  }
}
