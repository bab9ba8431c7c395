import type { DeliveryLimits, DeliveryTarget } from './delivery-limits.ts'

const remembered = 1000
// Each webhook that has a share costs some queries, so that many small shares would be slow.
const sharesMost = 4
const shareLeast = 8

/** Shares room out to webhooks: a few places each in turn, those first that have waited the longest since they had one. */
export function createWebhookRotation() {
  // In the order in which they were served last.
  const served = new Map<string, number>()
  let turn = 0
  const lastOf = ({ webhookId }: DeliveryTarget) => served.get(webhookId) ?? 0

  return {
    /** How many deliveries each of some webhooks may have begun now; those that none may are left out. */
    share(due: DeliveryTarget[], count: ReturnType<DeliveryLimits['count']>): Map<string, number> {
      const shares = new Map<string, number>()
      let waiting = due.toSorted((a, b) => lastOf(a) - lastOf(b))
      while (waiting.length > 0) {
        waiting = waiting.filter((webhook) => {
          const room = count.room(webhook)
          if (room === 0) return false
          const places = Math.min(room, Math.max(shareLeast, Math.floor(room / sharesMost)))
          count.add(webhook, places)
          shares.set(webhook.webhookId, (shares.get(webhook.webhookId) ?? 0) + places)
          return true
        })
      }
      turn++
      for (const id of shares.keys()) {
        served.delete(id)
        served.set(id, turn)
      }
      for (const id of served.keys()) {
        if (served.size <= remembered) break
        served.delete(id)
      }
      return shares
    },
  }
}
