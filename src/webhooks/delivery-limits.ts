/** A webhook, the host with its port that it leads to, and its repository. */
export type DeliveryTarget = { webhookId: string; receiver: string; repositoryId: string }

export type DeliveryLimits = ReturnType<typeof createDeliveryLimits>

/** Which webhooks need not be looked at, because nothing of them may be started. */
export type Closed = {
  /** Webhooks that have something under way, and no room for more. */
  webhooks: string[]
  /** The webhooks of open lanes, and whose open lanes have all that they may have under way. */
  open: { webhooks: string[]; receivers: string[]; repositories: string[] }
  /** The same of all other lanes, or whether none of them has room. */
  cautious: { isFull: boolean; receivers: string[]; repositories: string[] }
}

/** What is under way of one webhook at most, however quick its receiver is. */
export const windowMost = 32

type LimitGroup = { inFlight: number; window: number; isOpen: boolean }

const overall = 256
const receiverMost = 64
const repositoryMost = 64
// Of each, so much is for lanes in which nothing is under way: those that are busy never have all places.
const reservedShare = 1 / 4
const cautiousMost = overall / 2
const cautiousReceiverMost = receiverMost / 2
const cautiousRepositoryMost = 4
const remembered = 1000

/**
 * How much may be under way at once: overall, to one receiver, of one repository, and of a webhook, which is its lane. The window
 * of a lane begins at 1, grows by 1 with each success and falls to 1 with a failure, whoever else sends to the same
 * host: that one address of it fails says nothing of the others. A lane is open while its last attempt has succeeded soon enough; all others,
 * which may hold each attempt until its time is over, share half of the places, overall and to each receiver, and take
 * none of those that a receiver or a repository has for open ones.
 */
export function createDeliveryLimits() {
  const deliveryLimits = new Map<string, LimitGroup>()
  const flights = new Set<DeliveryTarget>()

  const find = (webhookId: string): LimitGroup =>
    deliveryLimits.get(webhookId) ?? { inFlight: 0, window: 1, isOpen: false }

  /** Counts what is under way, and what is about to be. */
  function createCount() {
    const ofLane = new Map<string, number>()
    const places = new Map<string, DeliveryTarget>()
    const openReceivers = new Map<string, number>()
    const openRepositories = new Map<string, number>()
    const cautiousReceivers = new Map<string, number>()
    const cautiousRepositories = new Map<string, number>()
    let all = 0
    let cautious = 0

    function add(place: DeliveryTarget, count: number): void {
      const { webhookId, receiver, repositoryId } = place
      const { isOpen } = find(webhookId)
      places.set(webhookId, place)
      all += count
      if (!isOpen) cautious += count
      increase(ofLane, webhookId, count)
      increase(isOpen ? openReceivers : cautiousReceivers, receiver, count)
      increase(isOpen ? openRepositories : cautiousRepositories, repositoryId, count)
    }

    function room({ webhookId, receiver, repositoryId }: DeliveryTarget): number {
      const { window, isOpen } = find(webhookId)
      const inLane = ofLane.get(webhookId) ?? 0
      const share = inLane > 0 ? 1 - reservedShare : 1
      const left = [overall * share - all, window - inLane]
      if (isOpen) {
        left.push(
          receiverMost * share - (openReceivers.get(receiver) ?? 0),
          repositoryMost * share - (openRepositories.get(repositoryId) ?? 0),
        )
      } else {
        left.push(
          cautiousMost - cautious,
          cautiousReceiverMost - (cautiousReceivers.get(receiver) ?? 0),
          cautiousRepositoryMost - (cautiousRepositories.get(repositoryId) ?? 0),
        )
      }
      return Math.max(0, Math.min(...left))
    }

    function closed(): Closed {
      return {
        webhooks: [...places.values()]
          .filter((place) => room(place) === 0)
          .map(({ webhookId }) => webhookId),
        open: {
          webhooks: [...deliveryLimits]
            .filter(([, { isOpen }]) => isOpen)
            .map(([webhookId]) => webhookId),
          receivers: atCap(openReceivers, receiverMost),
          repositories: atCap(openRepositories, repositoryMost),
        },
        cautious: {
          isFull: cautious >= cautiousMost,
          receivers: atCap(cautiousReceivers, cautiousReceiverMost),
          repositories: atCap(cautiousRepositories, cautiousRepositoryMost),
        },
      }
    }

    for (const place of flights) add(place, 1)
    return { add, room, closed, isFull: () => all >= overall }
  }

  return {
    /** What is under way now, to be added to while it is decided what is started. */
    count: createCount,

    countInFlight: () => flights.size,

    /** An attempt begins. Its end is to be told with the very same object. */
    start(place: DeliveryTarget): void {
      flights.add(place)
      const group = find(place.webhookId)
      group.inFlight += 1
      deliveryLimits.set(place.webhookId, group)
    },

    /** An attempt has ended; one that tells nothing of the receiver leaves the lane as it was. */
    end(place: DeliveryTarget, result: 'success' | 'slow' | 'failure' | 'none'): void {
      if (!flights.delete(place)) return
      const { webhookId } = place
      const group = find(webhookId)
      group.inFlight -= 1
      if (result === 'failure') group.window = 1
      else if (result !== 'none') group.window = Math.min(group.window + 1, windowMost)
      if (result !== 'none') group.isOpen = result === 'success'
      // To the end of the map, whose beginning is forgotten.
      deliveryLimits.delete(webhookId)
      if (group.inFlight > 0 || group.isOpen) deliveryLimits.set(webhookId, group)
      if (deliveryLimits.size > remembered) forget()
    },

    /** An attempt has been under way for long: its lane is no open one until the next success. */
    slow({ webhookId }: DeliveryTarget): void {
      const group = deliveryLimits.get(webhookId)
      if (group) group.isOpen = false
    },
  }

  function forget(): void {
    for (const [webhookId, { inFlight }] of deliveryLimits) {
      if (deliveryLimits.size <= remembered) return
      if (inFlight === 0) deliveryLimits.delete(webhookId)
    }
  }
}

function atCap(counts: Map<string, number>, most: number): string[] {
  return [...counts].filter(([, count]) => count >= most).map(([key]) => key)
}

function increase(counts: Map<string, number>, key: string, by: number): void {
  counts.set(key, (counts.get(key) ?? 0) + by)
}
