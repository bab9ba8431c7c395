import type { Db } from '#database/schema.ts'
import type { Actor, Publish } from '#events/events.ts'
import { findScope } from '#repositories/scope-store.ts'
import { placeOf } from '#repositories/scopes.ts'
import { failPending } from './queue-store.ts'
import { findWebhook, updateWebhook } from './webhook-store.ts'

/** Disables a webhook; see `createDisableWebhook`. */
export type DisableWebhook = (
  tx: Db,
  webhook: { id: string; scopeId: string },
  about: { reason: string; actor: Actor; now: number },
) => Promise<boolean>

/**
 * Disables a webhook and fails its pending deliveries; `reason` is a sentence. Returns false when it is already
 * disabled, or deleted.
 *
 * To avoid deadlocks, all code locks in this order: the event counter, deliveries in the order of their ids, webhooks.
 */
export function createDisableWebhook(publish: Publish): DisableWebhook {
  return async (tx, { id, scopeId }, { reason, actor, now }) => {
    const scope = await findScope(tx, scopeId)
    const webhook = scope && (await findWebhook(tx, scopeId, id))
    if (!scope || !webhook?.isEnabled) return false
    const { repositoryId, inNamespace } = placeOf(scope)
    const data = { webhookId: id, reason, ...inNamespace }
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
