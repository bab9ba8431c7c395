import { credentialEnded } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import type { Db, TokenRow } from '#database/schema.ts'
import { lockEnabledUser } from '../user-store.ts'
import { isExpired, toPrincipal } from './token-rows.ts'
import { lockToken } from './token-store.ts'

/**
 * Finds the token of a principal for a transaction that makes another credential with its rights: until it ends, the token
 * cannot be deleted, and its user can be neither disabled nor deleted. So nothing comes into being afterwards, however long
 * ago the request was admitted. Throws `token_invalid`.
 */
export async function lockOwnToken(
  tx: Db,
  { kind, id, username }: Principal,
  now: number,
): Promise<TokenRow> {
  // The user first, in the order in which both are deleted.
  const isEnabled = kind === 'token' && (await lockEnabledUser(tx, username))
  const row = isEnabled ? await lockToken(tx, id) : undefined
  if (!row || isExpired(row, now)) throw credentialEnded('token')
  return row
}

/** Returns the current state of a principal, locked in the same way; commands on the server need no token. */
export async function lockPrincipal(tx: Db, principal: Principal, now: number): Promise<Principal> {
  if (principal.kind === 'local') return principal
  return { ...toPrincipal(await lockOwnToken(tx, principal, now)), origin: principal.origin }
}
