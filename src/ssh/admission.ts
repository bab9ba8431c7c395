type Options = {
  /** How many clients of one address may be authenticating at once. */
  perAddress: number
  /** The same of all addresses. */
  overall: number
}

type Place = { address: string; since: number; leave: () => void }
type Waiter = Place & { settle: (place: Disposable | undefined) => void }

// A login takes a fraction of this, so in a burst of them places are free again soon.
const waitMs = 3000
const waitersPerPlace = 4
// Whoever has had this long, and has not authenticated, makes room when there is none left.
const patienceMs = 1000

/** The places for clients that have not authenticated yet. A burst of clients waits a little for them. */
export function createAdmission({ perAddress, overall }: Options) {
  const places = new Set<Place>()
  const waiters = new Set<Waiter>()

  function from(all: Iterable<Place>, address: string): number {
    let count = 0
    for (const one of all) if (one.address === address) count += 1
    return count
  }

  function tryEnter(wanted: Place): Disposable | undefined {
    if (from(places, wanted.address) >= perAddress) return undefined
    if (places.size >= overall && !makeRoom()) return undefined
    const place = { ...wanted, since: performance.now() }
    places.add(place)
    return { [Symbol.dispose]: () => release(place) }
  }

  // Silent clients from many addresses must not keep everybody else out.
  function makeRoom(): boolean {
    const [oldest] = places
    if (!oldest || performance.now() - oldest.since < patienceMs) return false
    places.delete(oldest)
    oldest.leave()
    return true
  }

  function release(place: Place): void {
    if (!places.delete(place)) return
    for (const waiter of waiters) {
      if (places.size >= overall) return
      tryAgain(waiter)
    }
  }

  function tryAgain(waiter: Waiter): void {
    const entered = tryEnter(waiter)
    if (entered) waiter.settle(entered)
  }

  function mayWait(address: string): boolean {
    return (
      waiters.size < overall * waitersPerPlace &&
      from(waiters, address) < perAddress * waitersPerPlace
    )
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
        const again = setTimeout(() => tryAgain(waiter), patienceMs)
        const waiter: Waiter = {
          ...wanted,
          settle(place) {
            clearTimeout(late)
            clearTimeout(again)
            waiters.delete(waiter)
            resolve(place)
          },
        }
        waiters.add(waiter)
      })
    },
  }
}
