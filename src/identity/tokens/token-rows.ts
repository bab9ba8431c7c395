import { defaultPermissions, isPermission, type Permission } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import { newId } from '#base/ids.ts'
import { hashToken, newTokenString } from '#base/token-string.ts'
import type { TokenRow } from '#database/schema.ts'
import type { Actor } from '#events/events.ts'

/** A token as it is listed: without its string. */
export type Token = Pick<
  TokenRow,
  'id' | 'name' | 'username' | 'createdAt' | 'expiresAt' | 'lastUsedAt' | 'delegatedFrom'
> & {
  permissions: Permission[]
  /** The names of the repositories that it is limited to, without those that no longer exist; null for all. */
  repositories: string[] | null
  /** The patterns of the refs that it may push; null for all. */
  refs: string[] | null
}

export type NewToken = {
  name: string
  permissions?: Permission[] | undefined
  /** Null for a token that never expires; 365 unless `expiresInSeconds` is given. */
  expiresInDays?: number | null | undefined
  expiresInSeconds?: number | undefined
  /** Defaults to the token's id, so that two tokens without a username share no rights. */
  username?: string | undefined
  /** The names of the repositories that it is limited to. */
  repositories?: string[] | undefined
  /** The patterns of the refs that it may push. */
  refs?: string[] | undefined
}

/** The limits of a token, null for none: ids of repositories, and patterns of refs. */
export type TokenLimits = { repositories: string[] | null; refs: string[] | null }

type Parts = Pick<TokenRow, 'name' | 'createdAt' | 'expiresAt'> &
  TokenLimits & {
    username: string | undefined
    permissions: readonly Permission[] | undefined
    delegatedFrom: Pick<TokenRow, 'id' | 'delegationRoot' | 'loginId'> | undefined
    /** The login that it ends with, if it was not delegated. */
    loginId?: string | undefined
  }

/** Creates the row of a new token, and its string unless one is passed. */
export function newTokenRow(parts: Parts, tokenString?: string): { row: TokenRow; token: string } {
  const { name, username, permissions, createdAt, expiresAt, delegatedFrom } = parts
  const [id, token] = [newId(), tokenString ?? newTokenString()]
  const row = {
    id,
    name,
    tokenHash: hashToken(token),
    username: username ?? id,
    permissions: [...new Set(permissions ?? defaultPermissions)].join(' '),
    createdAt,
    expiresAt,
    lastUsedAt: null,
    repositories: parts.repositories && JSON.stringify(parts.repositories),
    refs: parts.refs && JSON.stringify(parts.refs),
    delegatedFrom: delegatedFrom?.id ?? null,
    delegationRoot: delegatedFrom ? (delegatedFrom.delegationRoot ?? delegatedFrom.id) : null,
    loginId: (delegatedFrom ? delegatedFrom.loginId : parts.loginId) ?? null,
  }
  return { row, token }
}

/** A token as it is listed; `names` has the names of repositories by id. */
export function toToken(row: TokenRow, names: ReadonlyMap<string, string>): Token {
  const { id, name, username, createdAt, expiresAt, lastUsedAt, delegatedFrom } = row
  const { repositories, refs } = limitsOf(row)
  return {
    id,
    name,
    username,
    permissions: permissionsOf(row),
    repositories: repositories?.flatMap((repositoryId) => names.get(repositoryId) ?? []) ?? null,
    refs,
    delegatedFrom,
    createdAt,
    expiresAt,
    lastUsedAt,
  }
}

export function toPrincipal(row: TokenRow): Principal {
  const { id, username, expiresAt } = row
  const { repositories, refs } = limitsOf(row)
  return {
    kind: 'token',
    id,
    username,
    expiresAt,
    permissions: new Set(permissionsOf(row)),
    repositories: repositories ? new Set(repositories) : undefined,
    refs: refs ?? undefined,
    isDelegated: row.delegatedFrom !== null,
    loginId: row.loginId ?? undefined,
  }
}

export function limitsOf({ repositories, refs }: TokenRow): TokenLimits {
  return { repositories: parseLimit(repositories), refs: parseLimit(refs) }
}

/** The limits of a token or key in a column, which only new rows write. */
export function parseLimit(json: string | null): string[] | null {
  return json && JSON.parse(json)
}

export function isExpired({ expiresAt }: TokenRow, now: number): boolean {
  return expiresAt !== null && expiresAt <= now
}

export function tokenCreated(actor: Actor, row: TokenRow) {
  const { id, name, username, delegatedFrom } = row
  const { repositories: repositoryIds, refs } = limitsOf(row)
  const permissions = permissionsOf(row)
  const data = { tokenId: id, name, username, permissions, repositoryIds, refs, delegatedFrom }
  return { kind: 'token.created', actor, repositoryId: null, data } as const
}

export function tokenDeleted(actor: Actor, tokenId: string) {
  return { kind: 'token.deleted', actor, repositoryId: null, data: { tokenId } } as const
}

function permissionsOf({ permissions }: TokenRow): Permission[] {
  return permissions.split(' ').filter(isPermission)
}
