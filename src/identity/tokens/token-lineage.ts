import { isId } from '#base/ids.ts'
import type { Db } from '#database/schema.ts'
import type { Actor, Publish } from '#events/events.ts'
import { tokenDeleted } from './token-rows.ts'
import { deleteDelegatedFrom, deleteToken } from './token-store.ts'

/**
 * Deletes a token and all tokens that were delegated from it, directly or not; false if it does not exist. Concurrent
 * delegations are covered: delegation locks the row of the delegating token, so each level is complete once the level
 * above is deleted.
 */
export async function deleteWithDelegated(
  tx: Db,
  { publish, actor, now }: { publish: Publish; actor: Actor; now: number },
  id: string,
): Promise<boolean> {
  if (!isId(id) || !(await deleteToken(tx, id))) return false
  const deleted = [id]
  for (let level = [id]; level.length > 0; ) {
    level = await deleteDelegatedFrom(tx, level)
    deleted.push(...level)
  }
  await publish(
    tx,
    now,
    deleted.map((tokenId) => tokenDeleted(actor, tokenId)),
  )
  return true
}
