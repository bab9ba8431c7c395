import { LRUCache } from 'lru-cache'

/** A webhook, the host and port of its URL, and its repository or namespace. */
export type DeliveryTarget = { webhookId: string; receiver: string; scopeId: string }

export type DeliveryLimits = ReturnType<typeof createDeliveryLimits>

/** The webhooks of which no delivery can start now, so that the queue query skips them. */
export type Exhausted = {
  /** Webhooks with deliveries in flight and no capacity for more. */
  webhooks: string[]
  /** The healthy webhooks, and the receivers and repositories whose healthy webhooks are at their limit. */
  healthy: { webhooks: string[]; receivers: string[]; scopes: string[] }
  /** The same for probing webhooks, and whether these are at their overall limit. */
  probing: { isFull: boolean; receivers: string[]; scopes: string[] }
}

/** Concurrent deliveries of one webhook. */
export const maxWindow = 32

type LimitGroup = { inFlight: number; window: number; isHealthy: boolean }

const maxOverall = 256
const maxPerReceiver = 64
const maxPerScope = 64
// This share of each limit is reserved for webhooks with nothing in flight, so busy ones cannot starve them.
const reservedShare = 1 / 4
const maxProbing = maxOverall / 2
const maxProbingPerReceiver = maxPerReceiver / 2
const maxProbingPerScope = 4
const maxRemembered = 1000

/**
 * Limits concurrent deliveries: overall, per receiver, per repository and per webhook. The window of a webhook starts
 * at 1, grows by 1 with each success and falls to 1 with a failure; webhooks of one host do not share it, since one
 * failing URL says nothing about the others. A webhook is healthy while its last attempt succeeded quickly. All others
 * are probing: each attempt may take until its timeout, so they share half of the limits, overall and per receiver, and
 * use none of what a receiver or a repository has for healthy ones.
 */
export function createDeliveryLimits() {
  // Webhooks with attempts in flight, and the latest healthy ones without.
  const busy = new Map<string, LimitGroup>()
  const idle = new LRUCache<string, LimitGroup>({ max: maxRemembered })
  const attempts = new Set<DeliveryTarget>()

  const find = (webhookId: string): LimitGroup =>
    busy.get(webhookId) ?? idle.peek(webhookId) ?? { inFlight: 0, window: 1, isHealthy: false }

  /** Counts deliveries in flight, and those about to start. */
  function createCount() {
    const byWebhook = new Map<string, number>()
    const targets = new Map<string, DeliveryTarget>()
    const healthyReceivers = new Map<string, number>()
    const healthyScopes = new Map<string, number>()
    const probingReceivers = new Map<string, number>()
    const probingScopes = new Map<string, number>()
    let all = 0
    let probing = 0

    function add(target: DeliveryTarget, count: number): void {
      const { webhookId, receiver, scopeId } = target
      const { isHealthy } = find(webhookId)
      targets.set(webhookId, target)
      all += count
      if (!isHealthy) probing += count
      increase(byWebhook, webhookId, count)
      increase(isHealthy ? healthyReceivers : probingReceivers, receiver, count)
      increase(isHealthy ? healthyScopes : probingScopes, scopeId, count)
    }

    function capacity({ webhookId, receiver, scopeId }: DeliveryTarget): number {
      const { window, isHealthy } = find(webhookId)
      const ownInFlight = byWebhook.get(webhookId) ?? 0
      const share = ownInFlight > 0 ? 1 - reservedShare : 1
      const left = [maxOverall * share - all, window - ownInFlight]
      if (isHealthy) {
        left.push(
          maxPerReceiver * share - (healthyReceivers.get(receiver) ?? 0),
          maxPerScope * share - (healthyScopes.get(scopeId) ?? 0),
        )
      } else {
        left.push(
          maxProbing - probing,
          maxProbingPerReceiver - (probingReceivers.get(receiver) ?? 0),
          maxProbingPerScope - (probingScopes.get(scopeId) ?? 0),
        )
      }
      return Math.max(0, Math.min(...left))
    }

    function exhausted(): Exhausted {
      return {
        webhooks: [...targets.values()]
          .filter((target) => capacity(target) === 0)
          .map(({ webhookId }) => webhookId),
        healthy: {
          webhooks: [...busy, ...idle]
            .filter(([, { isHealthy }]) => isHealthy)
            .map(([webhookId]) => webhookId),
          receivers: atCap(healthyReceivers, maxPerReceiver),
          scopes: atCap(healthyScopes, maxPerScope),
        },
        probing: {
          isFull: probing >= maxProbing,
          receivers: atCap(probingReceivers, maxProbingPerReceiver),
          scopes: atCap(probingScopes, maxProbingPerScope),
        },
      }
    }

    for (const target of attempts) add(target, 1)
    return { add, capacity, exhausted, isFull: () => all >= maxOverall }
  }

  return {
    /** A copy of the current counts, to add to while deciding what to start. */
    count: createCount,

    countInFlight: () => attempts.size,

    /** Records the start of an attempt. `end` takes the same object. */
    start(target: DeliveryTarget): void {
      attempts.add(target)
      const group = find(target.webhookId)
      group.inFlight += 1
      idle.delete(target.webhookId)
      busy.set(target.webhookId, group)
    },

    /** Records the end of an attempt; `none` says nothing about the receiver and leaves the window unchanged. */
    end(target: DeliveryTarget, result: 'success' | 'slow' | 'failure' | 'none'): void {
      if (!attempts.delete(target)) return
      const { webhookId } = target
      const group = find(webhookId)
      group.inFlight -= 1
      if (result === 'failure') group.window = 1
      else if (result !== 'none') group.window = Math.min(group.window + 1, maxWindow)
      if (result !== 'none') group.isHealthy = result === 'success'
      if (group.inFlight > 0) return
      busy.delete(webhookId)
      if (group.isHealthy) idle.set(webhookId, group)
    },

    /** Records that an attempt takes long: its webhook is probing until the next success. */
    slow({ webhookId }: DeliveryTarget): void {
      const group = busy.get(webhookId)
      if (group) group.isHealthy = false
    },
  }
}

function atCap(counts: Map<string, number>, max: number): string[] {
  return [...counts].filter(([, count]) => count >= max).map(([key]) => key)
}

function increase(counts: Map<string, number>, key: string, by: number): void {
  counts.set(key, (counts.get(key) ?? 0) + by)
}
