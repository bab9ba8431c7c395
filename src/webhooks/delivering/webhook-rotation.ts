import { LRUCache } from 'lru-cache'
import type { DeliveryLimits, DeliveryTarget } from '../delivery-limits.ts'

const maxRemembered = 1000
// Each webhook with a share costs some queries, so a large number of small shares would be slow.
const maxShares = 4
const minShare = 8

/** Shares the delivery capacity among webhooks in rounds of a few deliveries, the least recently served first. */
export function createWebhookRotation() {
  const served = new LRUCache<string, number>({ max: maxRemembered })
  let turn = 0
  const lastOf = ({ webhookId }: DeliveryTarget) => served.peek(webhookId) ?? 0

  return {
    /** How many deliveries of each webhook may start now; webhooks without capacity are left out. */
    share(due: DeliveryTarget[], count: ReturnType<DeliveryLimits['count']>): Map<string, number> {
      const shares = new Map<string, number>()
      let waiting = due.toSorted((a, b) => lastOf(a) - lastOf(b))
      while (waiting.length > 0) {
        waiting = waiting.filter((webhook) => {
          const capacity = count.capacity(webhook)
          if (capacity === 0) return false
          const granted = Math.min(capacity, Math.max(minShare, Math.floor(capacity / maxShares)))
          count.add(webhook, granted)
          shares.set(webhook.webhookId, (shares.get(webhook.webhookId) ?? 0) + granted)
          return true
        })
      }
      turn++
      for (const id of shares.keys()) served.set(id, turn)
      return shares
    },
  }
}
