import type { Db } from '#database/schema.ts'
import type { Actor, Publish } from '#events/events.ts'
import { failPending } from './queue-store.ts'
import { findWebhook, updateWebhook } from './webhook-store.ts'

/** Disables a webhook; see `createDisableWebhook`. */
export type DisableWebhook = (
  tx: Db,
  webhook: { id: string; repositoryId: string },
  about: { reason: string; actor: Actor; now: number },
) => Promise<boolean>

/**
 * Disables a webhook and fails its pending deliveries; `reason` is a sentence. Returns false when it is already
 * disabled, or deleted.
 *
 * To avoid deadlocks, all code locks in this order: the event counter, deliveries in the order of their ids, webhooks.
 */
export function createDisableWebhook(publish: Publish): DisableWebhook {
  return async (tx, { id, repositoryId }, { reason, actor, now }) => {
    const webhook = await findWebhook(tx, repositoryId, id)
    if (!webhook?.isEnabled) return false
    const data = { webhookId: id, reason }
    await publish(tx, now, [{ kind: 'webhook.disabled', actor, repositoryId, data }])
    await failPendingDeliveries(tx, id, { now, hasLocks: false })
    const changes = { isEnabled: 0, disabledAt: now, disabledReason: reason }
    return (await updateWebhook(tx, { id, isEnabled: 1 }, changes)) !== undefined
  }
}

/** Fails the pending deliveries of a webhook that is disabled: see `failPending`. */
export async function failPendingDeliveries(
  tx: Db,
  id: string,
  at: { now: number; hasLocks: boolean },
): Promise<void> {
  await failPending(tx, id, { ...at, fault: disabledError })
}

// The webhook itself has the reason why it was disabled.
const disabledError = 'The webhook was disabled before this was delivered.'
