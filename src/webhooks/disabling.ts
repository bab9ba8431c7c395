import type { Db } from '../database/schema.ts'
import { type Actor, publish } from '../events/events.ts'
import { failWaiting } from './queue-store.ts'
import { findWebhook, updateWebhook } from './webhook-store.ts'

type Webhook = { id: string; repositoryId: string }

/**
 * Disables a webhook for a reason, a sentence: what waits is given up, and nothing is made for it until it is
 * enabled again. False when it is disabled already, or gone.
 *
 * The order of locks is the same everywhere, so that nobody waits for another in a circle: the counter of events,
 * deliveries in the order of their ids, the webhook.
 */
export async function disableWebhook(
  tx: Db,
  { id, repositoryId }: Webhook,
  { reason, actor, now }: { reason: string; actor: Actor; now: number },
): Promise<boolean> {
  const webhook = await findWebhook(tx, repositoryId, id)
  if (!webhook?.isEnabled) return false
  const data = { webhookId: id, reason }
  await publish(tx, now, [{ kind: 'webhook.disabled', actor, repositoryId, data }])
  await giveUpWaiting(tx, id, { now, hasLocks: false })
  const changes = { isEnabled: 0, disabledAt: now, disabledReason: reason }
  return (await updateWebhook(tx, { id, isEnabled: 1 }, changes)) !== undefined
}

/** Gives up what waits for a webhook that is disabled now: see `failWaiting`. */
export async function giveUpWaiting(
  tx: Db,
  id: string,
  at: { now: number; hasLocks: boolean },
): Promise<void> {
  await failWaiting(tx, id, { ...at, fault: disabledFault })
}

/** Why a delivery was given up whose webhook is disabled; why that is, the webhook tells. */
const disabledFault = 'The webhook was disabled before this was delivered.'
