type Options = {
  /** Limit of unauthenticated clients per address. */
  perAddress: number
  /** Limit over all addresses. */
  overall: number
}

type Client = {
  /** Called when the permit is taken back for another client. */
  onRevoked: () => void
  /** Whether its permit may be taken back at once. */
  isIdle?: () => boolean
}
type Admission = Client & { address: string; since: number }
type Waiter = Admission & { settle: (admission: Disposable | undefined) => void }

// A login takes a fraction of this, so permits are soon free again in a burst.
const waitMs = 3000
const waitersPerPermit = 4
// A client that has not authenticated within this time may be disconnected in favor of another.
const patienceMs = 1000

/**
 * Limits unauthenticated clients. A burst waits briefly for permits. When all are taken, the oldest client of the
 * address with the most clients is disconnected in favor of an address with fewer. An idle client yields to any other one
 * of its address.
 */
export function createUnauthenticatedLimit({ perAddress, overall }: Options) {
  const admitted = createMembers<Admission>()
  const waiters = createMembers<Waiter>()

  function tryAcquire(wanted: Admission): Disposable | undefined {
    if (admitted.from(wanted.address) >= perAddress && !evict(admitted.idleOf(wanted.address)))
      return undefined
    if (admitted.size() >= overall && !evict(victimFor(wanted.address))) return undefined
    const admission = { ...wanted, since: performance.now() }
    admitted.add(admission)
    return { [Symbol.dispose]: () => release(admission) }
  }

  function victimFor(address: string): Admission | undefined {
    const isReplaceable = (admission: Admission) =>
      performance.now() - admission.since >= patienceMs
    const oldest = admitted.first()
    return admitted.ofLargest(address) ?? (oldest && isReplaceable(oldest) ? oldest : undefined)
  }

  function evict(victim: Admission | undefined): boolean {
    if (!victim) return false
    admitted.remove(victim)
    victim.onRevoked()
    return true
  }

  function release(admission: Admission): void {
    if (!admitted.remove(admission)) return
    for (const waiter of waiters.all()) {
      if (admitted.size() >= overall) return
      retry(waiter)
    }
  }

  function retry(waiter: Waiter): void {
    const entered = tryAcquire(waiter)
    if (entered) waiter.settle(entered)
  }

  function mayQueue(address: string): boolean {
    if (waiters.from(address) >= perAddress * waitersPerPermit) return false
    if (waiters.size() < overall * waitersPerPermit) return true
    const victim = waiters.ofLargest(address)
    victim?.settle(undefined)
    return victim !== undefined
  }

  return {
    /** Waits for a permit, released by disposing of it; undefined when none is free in time. */
    acquire(address: string, client: Client): Promise<Disposable | undefined> {
      const wanted = { ...client, address, since: performance.now() }
      const entered = tryAcquire(wanted)
      if (entered || !mayQueue(address)) return Promise.resolve(entered)
      return new Promise((resolve) => {
        const late = setTimeout(() => waiter.settle(undefined), waitMs)
        // By then, the clients that have permits now may be disconnected.
        const again = setTimeout(() => retry(waiter), patienceMs)
        const waiter: Waiter = {
          ...wanted,
          settle(admission) {
            clearTimeout(late)
            clearTimeout(again)
            waiters.remove(waiter)
            resolve(admission)
          },
        }
        waiters.add(waiter)
      })
    },
  }
}

/** Members in order of arrival, and by address. */
function createMembers<Member extends { address: string; isIdle?: () => boolean }>() {
  const members = new Set<Member>()
  const byAddress = new Map<string, Set<Member>>()

  const from = (address: string) => byAddress.get(address)?.size ?? 0

  return {
    from,
    size: () => members.size,
    all: () => members.values(),
    first: () => members.values().next().value,

    /** The oldest idle member of an address. */
    idleOf: (address: string): Member | undefined =>
      byAddress
        .get(address)
        ?.values()
        .find(({ isIdle }) => isIdle?.()),

    /** The oldest member of the address with the most, if that has at least two more than `other`. */
    ofLargest(other: string): Member | undefined {
      let largest: Set<Member> | undefined
      for (const group of byAddress.values()) {
        if (group.size > (largest?.size ?? 0)) largest = group
      }
      if (!largest || largest.size < from(other) + 2) return undefined
      return largest.values().next().value
    },

    add(member: Member): void {
      members.add(member)
      const group = byAddress.get(member.address) ?? new Set()
      byAddress.set(member.address, group.add(member))
    },

    /** Returns whether it was a member. */
    remove(member: Member): boolean {
      const group = byAddress.get(member.address)
      group?.delete(member)
      if (group?.size === 0) byAddress.delete(member.address)
      return members.delete(member)
    },
  }
}
