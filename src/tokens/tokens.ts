import { defaultPermissions, isPermission, type Permission } from '../access/permissions.ts'
import type { Principal } from '../access/principal.ts'
import { type Clock, dayMs } from '../base/clock.ts'
import { isId, newId } from '../base/ids.ts'
import { createLastUsed } from '../base/last-used.ts'
import type { Log } from '../base/log.ts'
import { Problem } from '../base/problem.ts'
import { hashToken, isTokenString, newTokenString } from '../base/token-string.ts'
import type { Database } from '../database/database.ts'
import type { TokenRow } from '../database/schema.ts'
import type { Actor, Publish } from '../events/events.ts'
import {
  deleteToken,
  findLiveTokenOf,
  findToken,
  findTokenByHash,
  insertToken,
  insertTokenOnce,
  listTokens,
  markInitialized,
  updateLastUsed,
} from './token-store.ts'

/** A token as it is listed: without its string. */
type Token = Omit<TokenRow, 'tokenHash' | 'permissions'> & { permissions: Permission[] }

/** Creates, stores (as hashes) and authenticates API tokens. */
export type Tokens = {
  /** Creates a token. Its string is only in this result. */
  create: (actor: Actor, wanted: NewToken) => Promise<Token & { token: string }>
  /**
   * Creates the first admin token of a new service; undefined if the service has been set up before. A given token
   * string is installed at every start unless it exists.
   */
  setUp: (given: string | undefined) => Promise<string | undefined>
  /** Returns the principal of a token string; undefined if it is malformed, unknown or expired. */
  authenticate: (token: string) => Promise<Principal | undefined>
  /** Returns the current state of a principal; undefined if its token was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  /** Returns the newest valid token of a username, as the owner of what is created for the user. */
  ownerNamed: (username: string) => Promise<Principal>
  /** Lists tokens after an id, oldest first. */
  list: (page: { after: string; limit: number | undefined }) => Promise<Token[]>
  /** Deletes a token. Its long-lived responses end within a second. */
  revoke: (actor: Actor, id: string) => Promise<void>
}

export type NewToken = {
  name: string
  permissions?: Permission[] | undefined
  /** Null for a token that never expires; defaults to 365. */
  expiresInDays?: number | null | undefined
  /** Defaults to the token's id, so that two tokens without a username share no rights. */
  username?: string | undefined
}

const defaultExpiryDays = 365
const setupActor: Actor = { id: 'local', username: 'admin' }

type Dependencies = { db: Database; publish: Publish; clock: Clock; log: Log }

export function createTokens({ db, publish, clock, log }: Dependencies): Tokens {
  const noteUse = createLastUsed({
    clock,
    write: (id, at) => updateLastUsed(db, id, at),
    onFault: (err, tokenId) => log.warn({ err, tokenId }, 'last use of a token not recorded'),
  })

  async function create(actor: Actor, wanted: NewToken) {
    const token = newTokenString()
    const row = toRow(wanted, token, clock.now())
    await db.transaction().execute(async (tx) => {
      await insertToken(tx, row)
      await publish(tx, clock.now(), [tokenCreated(actor, row)])
    })
    return { ...toToken(row), token }
  }

  return {
    create,

    async setUp(given) {
      const first = await markInitialized(db, clock.now())
      const wanted: NewToken = {
        name: 'admin',
        permissions: ['admin'],
        expiresInDays: null,
        username: 'admin',
      }
      if (given === undefined) return first ? (await create(setupActor, wanted)).token : undefined
      const row = toRow(wanted, given, clock.now())
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

    async refresh(principal) {
      const row = await findToken(db, principal.id)
      return row && !isExpired(row, clock.now()) ? toPrincipal(row) : undefined
    },

    async ownerNamed(username) {
      const row = await findLiveTokenOf(db, username, clock.now())
      if (!row) {
        throw new Problem(
          'username_unknown',
          `No valid token has the username "${username}"; create one with \`svc tokens create --username ${username}\`.`,
        )
      }
      return toPrincipal(row)
    },

    async list(page) {
      return (await listTokens(db, page)).map(toToken)
    },

    async revoke(actor, id) {
      if (actor.id === id) {
        throw new Problem('token_in_use', 'A token cannot delete itself; use another admin token.')
      }
      await db.transaction().execute(async (tx) => {
        if (!isId(id) || !(await deleteToken(tx, id))) {
          throw new Problem('token_not_found', `There is no token with the id "${id}".`)
        }
        const event = { actor, repositoryId: null, data: { tokenId: id } }
        await publish(tx, clock.now(), [{ kind: 'token.deleted', ...event }])
      })
    },
  }
}

function toRow(wanted: NewToken, token: string, now: number): TokenRow {
  const id = newId()
  const days = wanted.expiresInDays === undefined ? defaultExpiryDays : wanted.expiresInDays
  return {
    id,
    name: wanted.name,
    tokenHash: hashToken(token),
    username: wanted.username ?? id,
    permissions: [...new Set(wanted.permissions ?? defaultPermissions)].join(' '),
    createdAt: now,
    expiresAt: days === null ? null : now + days * dayMs,
    lastUsedAt: null,
  }
}

function toToken(row: TokenRow): Token {
  const { id, name, username, createdAt, expiresAt, lastUsedAt } = row
  return { id, name, username, createdAt, expiresAt, lastUsedAt, permissions: permissionsOf(row) }
}

function toPrincipal(row: TokenRow): Principal {
  const { id, username, expiresAt } = row
  return { kind: 'token', id, username, expiresAt, permissions: new Set(permissionsOf(row)) }
}

function permissionsOf({ permissions }: TokenRow): Permission[] {
  return permissions.split(' ').filter(isPermission)
}

function isExpired({ expiresAt }: TokenRow, now: number): boolean {
  return expiresAt !== null && expiresAt <= now
}

function tokenCreated(actor: Actor, row: TokenRow) {
  const { id, name, username } = row
  const data = { tokenId: id, name, username, permissions: permissionsOf(row) }
  return { kind: 'token.created', actor, repositoryId: null, data } as const
}
