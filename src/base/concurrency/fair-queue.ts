import { createKeyIndex, type KeyState, type Waiter, type WaitingGroup } from './key-index.ts'
import { LinkedList } from './linked-list.ts'

/**
 * The queue of a fair limiter: the requests that wait, by their keys, and how many permits each key holds. Every
 * operation takes constant time, regardless of the queue's length.
 */
export function createFairQueue(maxPerKey: number) {
  const keys = createKeyIndex(maxPerKey)
  // By all keys.
  const groups = new Map<string, WaitingGroup>()
  let waiting = 0
  let nextPosition = 0

  function insert(group: WaitingGroup): void {
    const obstacle = group.keyStates.find(keys.isFull)
    const lists = obstacle ? [obstacle.parked] : group.keyStates.map(({ ready }) => ready)
    group.links = lists.map((list) => ({ list, link: list.append(group) }))
    group.keyStates.forEach(keys.update)
  }

  function withdraw(group: WaitingGroup): void {
    for (const { list, link } of group.links) list.remove(link)
    group.links = []
  }

  /** Reinserts the first group that is parked at a key. */
  function unpark({ parked }: KeyState): void {
    const group = parked.first
    if (!group) return
    withdraw(group)
    insert(group)
  }

  /** Ensures that a key below its limit has a ready group if any wait for it. Few keys can be full, so this is quick. */
  function refill(state: KeyState): void {
    while (!keys.isFull(state) && state.ready.isEmpty() && !state.parked.isEmpty()) unpark(state)
    keys.update(state)
  }

  function reinsert(group: WaitingGroup): void {
    withdraw(group)
    insert(group)
    group.keyStates.forEach(refill)
  }

  function nextAt(position: number): WaitingGroup | undefined {
    for (;;) {
      const group = keys.leastRunning(position)?.ready.first
      if (!group?.keyStates.some(keys.isFull)) return group
      // It became ready before one of its keys became full.
      reinsert(group)
    }
  }

  function next(): WaitingGroup | undefined {
    for (let tried = 0; tried < keys.positions(); tried++) {
      const group = nextAt(nextPosition)
      nextPosition = (nextPosition + 1) % keys.positions()
      if (group) return group
    }
    return undefined
  }

  function count(group: WaitingGroup, by: 1 | -1): void {
    waiting += by
    group.waiting += by
    for (const state of group.keyStates) {
      state.waiting += by
      state.groups.put(group, group.waiting || undefined)
      keys.update(state)
    }
  }

  return {
    /** The number of waiting requests. */
    size: () => waiting,

    statesOf: keys.statesOf,

    /** Whether one of the keys holds all the permits that it may. */
    hasFull: (states: KeyState[]): boolean => states.some(keys.isFull),

    /** Records that each of the keys holds one permit more. */
    hold(states: KeyState[]): void {
      for (const state of states) {
        state.running += 1
        keys.update(state)
      }
    },

    /** Records that each of the keys holds one permit less. */
    release(states: KeyState[]): void {
      for (const state of states) state.running -= 1
      states.forEach(unpark)
      states.forEach(refill)
    },

    /** Adds a waiter, until disposed. */
    add(states: KeyState[], waiter: Waiter): Disposable {
      const id = JSON.stringify(states.map(({ key }) => key))
      const group = groups.get(id) ?? {
        id,
        keyStates: states,
        waiters: new LinkedList<Waiter>(),
        waiting: 0,
        links: [],
      }
      groups.set(id, group)
      const link = group.waiters.append(waiter)
      count(group, 1)
      if (group.waiting === 1) insert(group)
      return {
        [Symbol.dispose]() {
          group.waiters.remove(link)
          count(group, -1)
          if (group.waiting > 0) return
          groups.delete(id)
          withdraw(group)
          group.keyStates.forEach(refill)
        },
      }
    },

    /** Serves the next waiter whose keys are not full, which leaves the queue; false when there is none. */
    serveNext(grant: (states: KeyState[]) => Disposable): boolean {
      const group = next()
      const waiter = group?.waiters.first
      if (!group || !waiter) return false
      waiter.serve(grant(group.keyStates))
      if (group.waiting > 0) reinsert(group)
      return true
    },

    /** The newest waiter of the heaviest keys; undefined when none are heavier than the given ones. */
    newestOfHeavier(states: KeyState[]): Waiter | undefined {
      const heaviest = keys.mostWaiting().map((state) => state?.groups.highest())
      return heaviest.find((group) => group && isHeavier(group.keyStates, states))?.waiters.last
    },
  }
}

/** Whether some keys have more waiting requests than others would have with one more. */
function isHeavier(some: KeyState[], others: KeyState[]): boolean {
  for (const [position, state] of some.entries()) {
    const other = others[position]
    if (!other || other === state || state.waiting === other.waiting + 1) continue
    return state.waiting > other.waiting + 1
  }
  return false
}
