type Options = {
  /** How many clients of one address may be authenticating at once. */
  perAddress: number
  /** The same of all addresses. */
  overall: number
}

type Admission = { address: string; since: number; leave: () => void }
type Waiter = Admission & { settle: (place: Disposable | undefined) => void }

// A login takes a fraction of this, so in a burst of them places are free again soon.
const waitMs = 3000
const waitersPerPlace = 4
// Whoever has had this long, and has not authenticated, makes room when there is none left.
const patienceMs = 1000

/**
 * The places for clients that have not authenticated yet. A burst of clients waits a little for them.
 * When they are all taken, an address that has many makes room for one that has fewer.
 */
export function createUnauthenticatedLimit({ perAddress, overall }: Options) {
  const places = createCrowd<Admission>()
  const waiters = createCrowd<Waiter>()

  function tryEnter(wanted: Admission): Disposable | undefined {
    if (places.from(wanted.address) >= perAddress) return undefined
    if (places.size() >= overall && !makeWorkspace(wanted.address)) return undefined
    const place = { ...wanted, since: performance.now() }
    places.add(place)
    return { [Symbol.dispose]: () => release(place) }
  }

  function makeWorkspace(address: string): boolean {
    const isPatient = (place: Admission) => performance.now() - place.since >= patienceMs
    const oldest = places.first()
    const victim = places.ofLargest(address) ?? (oldest && isPatient(oldest) ? oldest : undefined)
    if (!victim) return false
    places.remove(victim)
    victim.leave()
    return true
  }

  function release(place: Admission): void {
    if (!places.remove(place)) return
    for (const waiter of waiters.all()) {
      if (places.size() >= overall) return
      retries(waiter)
    }
  }

  function retries(waiter: Waiter): void {
    const entered = tryEnter(waiter)
    if (entered) waiter.settle(entered)
  }

  function mayWait(address: string): boolean {
    if (waiters.from(address) >= perAddress * waitersPerPlace) return false
    if (waiters.size() < overall * waitersPerPlace) return true
    const victim = waiters.ofLargest(address)
    victim?.settle(undefined)
    return victim !== undefined
  }

  return {
    /**
     * Waits for a place, which is given up by disposing of it; undefined when none is free in time.
     * `leave` is called when the place is taken away again.
     */
    enter(address: string, leave: () => void): Promise<Disposable | undefined> {
      const wanted = { address, since: performance.now(), leave }
      const entered = tryEnter(wanted)
      if (entered || !mayWait(address)) return Promise.resolve(entered)
      return new Promise((resolve) => {
        const late = setTimeout(() => waiter.settle(undefined), waitMs)
        // Those that are in by now will by then have had the time that they are given.
        const again = setTimeout(() => retries(waiter), patienceMs)
        const waiter: Waiter = {
          ...wanted,
          settle(place) {
            clearTimeout(late)
            clearTimeout(again)
            waiters.remove(waiter)
            resolve(place)
          },
        }
        waiters.add(waiter)
      })
    },
  }
}

/** Members in the order in which they came, and by address. */
function createCrowd<Member extends { address: string }>() {
  const members = new Set<Member>()
  const byAddress = new Map<string, Set<Member>>()

  const from = (address: string) => byAddress.get(address)?.size ?? 0

  return {
    from,
    size: () => members.size,
    all: () => members.values(),
    first: () => members.values().next().value,

    /** The oldest of the address with most members, if that has at least two more than another. */
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

    /** Says whether it was there. */
    remove(member: Member): boolean {
      const group = byAddress.get(member.address)
      group?.delete(member)
      if (group?.size === 0) byAddress.delete(member.address)
      return members.delete(member)
    },
  }
}
