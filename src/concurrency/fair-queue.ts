import { Levels } from './levels.ts'
import { type Link, LinkedList } from './linked-list.ts'

/** The state of one key at one position of the key lists. */
export type KeyState = {
  position: number
  key: string
  running: number
  waiting: number
  /** Its groups by how many requests wait in them. */
  groups: Levels<WaitingGroup>
  /** Its groups whose next request may be served; checked again when its turn comes. */
  ready: LinkedList<WaitingGroup>
  /** Groups that wait for this key to hold fewer permits. */
  parked: LinkedList<WaitingGroup>
}

/** All waiting requests with the same keys, in order of arrival. */
type WaitingGroup = {
  id: string
  keyStates: KeyState[]
  waiters: LinkedList<Waiter>
  waiting: number
  /** Its list entries: ready at each of its keys, or parked at one that is full. */
  links: { list: LinkedList<WaitingGroup>; link: Link<WaitingGroup> }[]
}

export type Waiter = { serve: (permit: Disposable) => void; reject: () => void }

/**
 * The queue of a fair limiter: the requests that wait, by their keys, and how many permits each key holds. Every
 * operation takes constant time, regardless of the queue's length.
 */
export function createFairQueue(maxPerKey: number) {
  // By position and key, and by all keys.
  const keyStates = new Map<string, KeyState>()
  const groups = new Map<string, WaitingGroup>()
  // For each position, the keys that may be served, by the number of permits that they hold.
  const readyKeys: Levels<KeyState>[] = []
  // For each position, all keys by the number of their waiting requests.
  const waitingKeys: Levels<KeyState>[] = []
  let waiting = 0
  let nextPosition = 0

  const isFull = (state: KeyState) => state.running >= maxPerKey

  /** Reinserts a key into the indexes after a change. */
  function update(state: KeyState): void {
    const mayBeServed = !isFull(state) && !state.ready.isEmpty()
    readyKeys[state.position] ??= new Levels()
    readyKeys[state.position]?.put(state, mayBeServed ? state.running : undefined)
    waitingKeys[state.position] ??= new Levels()
    waitingKeys[state.position]?.put(state, state.waiting || undefined)
    if (state.running === 0 && state.waiting === 0) keyStates.delete(idOf(state))
    else keyStates.set(idOf(state), state)
  }

  function insert(group: WaitingGroup): void {
    const obstacle = group.keyStates.find(isFull)
    const lists = obstacle ? [obstacle.parked] : group.keyStates.map(({ ready }) => ready)
    group.links = lists.map((list) => ({ list, link: list.append(group) }))
    group.keyStates.forEach(update)
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
    while (!isFull(state) && state.ready.isEmpty() && !state.parked.isEmpty()) unpark(state)
    update(state)
  }

  function reinsert(group: WaitingGroup): void {
    withdraw(group)
    insert(group)
    group.keyStates.forEach(refill)
  }

  function nextAt(position: number): WaitingGroup | undefined {
    for (;;) {
      const group = readyKeys[position]?.lowest()?.ready.first
      if (!group?.keyStates.some(isFull)) return group
      // It became ready before one of its keys became full.
      reinsert(group)
    }
  }

  function next(): WaitingGroup | undefined {
    for (let tried = 0; tried < readyKeys.length; tried++) {
      const group = nextAt(nextPosition)
      nextPosition = (nextPosition + 1) % readyKeys.length
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
      update(state)
    }
  }

  return {
    /** The number of waiting requests. */
    size: () => waiting,

    statesOf(keys: string[]): KeyState[] {
      return keys.map((key, position) => {
        const known = keyStates.get(idOf({ position, key }))
        if (known) return known
        const [ready, parked] = [new LinkedList<WaitingGroup>(), new LinkedList<WaitingGroup>()]
        const groups = new Levels<WaitingGroup>()
        return { position, key, running: 0, waiting: 0, groups, ready, parked }
      })
    },

    /** Whether one of the keys holds all the permits that it may. */
    hasFull: (states: KeyState[]): boolean => states.some(isFull),

    /** Records that each of the keys holds one permit more. */
    hold(states: KeyState[]): void {
      for (const state of states) {
        state.running += 1
        update(state)
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
      const heaviest = waitingKeys.map((levels) => levels.highest()?.groups.highest())
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

function idOf({ position, key }: Pick<KeyState, 'position' | 'key'>): string {
  return `${position} ${key}`
}
