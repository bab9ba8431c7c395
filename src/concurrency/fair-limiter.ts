import { Problem } from '../base/problem.ts'
import { Levels } from './levels.ts'
import { type Link, LinkedList } from './linked-list.ts'

export type FairLimiter = ReturnType<typeof createFairLimiter>

type Options = {
  /** How many permits there are. */
  overall: number
  /** How many permits one key may hold, such as a repository or a user; at most three quarters of all. */
  perKey: number
  /** How many requests may wait; further ones are rejected. */
  waiting: number
  /** How long a request may wait. */
  waitMs: number
}

/** The state of one key at one position of the key lists. */
type KeyState = {
  position: number
  key: string
  running: number
  waiting: number
  /** Its groups by how many requests wait in them. */
  groups: Levels<LimitGroup>
  /** Its groups whose next request may be served; checked again when its turn comes. */
  ready: LinkedList<LimitGroup>
  /** Groups that wait for this key to hold fewer permits. */
  parked: LinkedList<LimitGroup>
}

/** All waiting requests with the same keys, in order of arrival. */
type LimitGroup = {
  id: string
  keyStates: KeyState[]
  waiters: LinkedList<Waiter>
  waiting: number
  /** Its list entries: ready at each of its keys, or parked at one that is full. */
  links: { list: LinkedList<LimitGroup>; link: Link<LimitGroup> }[]
}

type Waiter = { serve: (permit: Disposable) => void; reject: () => void }

/**
 * Limits concurrency overall and per key; requests beyond the limits wait in a bounded queue. Each request has a list
 * of keys, such as a user and a repository. A free permit goes to the user who holds the fewest, the next one to the
 * repository that holds the fewest, and so on; ties go round-robin. So a burst from one user or repository cannot starve
 * others. When the queue is full, the newest request of the heaviest user, then repository, is rejected. Every operation
 * takes constant time, regardless of the queue's length.
 */
export function createFairLimiter({ overall, perKey, waiting, waitMs }: Options) {
  const maxPerKey = Math.max(1, Math.min(perKey, Math.floor((overall * 3) / 4)))
  // By position and key, and by all keys.
  const keyStates = new Map<string, KeyState>()
  const groups = new Map<string, LimitGroup>()
  // For each position, the keys that may be served, by the number of permits that they hold.
  const readyKeys: Levels<KeyState>[] = []
  // For each position, all keys by the number of their waiting requests.
  const waitingKeys: Levels<KeyState>[] = []
  let running = 0
  let waitingNow = 0
  let nextPosition = 0

  const isFull = (state: KeyState) => state.running >= maxPerKey

  function keyStatesOf(keys: string[]): KeyState[] {
    return keys.map((key, position) => {
      const known = keyStates.get(idOf({ position, key }))
      if (known) return known
      const lists = { ready: new LinkedList<LimitGroup>(), parked: new LinkedList<LimitGroup>() }
      return { position, key, running: 0, waiting: 0, groups: new Levels<LimitGroup>(), ...lists }
    })
  }

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

  function insert(group: LimitGroup): void {
    const obstacle = group.keyStates.find(isFull)
    const lists = obstacle ? [obstacle.parked] : group.keyStates.map(({ ready }) => ready)
    group.links = lists.map((list) => ({ list, link: list.append(group) }))
    group.keyStates.forEach(update)
  }

  function withdraw(group: LimitGroup): void {
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

  function reinsert(group: LimitGroup): void {
    withdraw(group)
    insert(group)
    group.keyStates.forEach(refill)
  }

  function nextAt(position: number): LimitGroup | undefined {
    for (;;) {
      const group = readyKeys[position]?.lowest()?.ready.first
      if (!group?.keyStates.some(isFull)) return group
      // It became ready before one of its keys became full.
      reinsert(group)
    }
  }

  function next(): LimitGroup | undefined {
    for (let tried = 0; tried < readyKeys.length; tried++) {
      const group = nextAt(nextPosition)
      nextPosition = (nextPosition + 1) % readyKeys.length
      if (group) return group
    }
    return undefined
  }

  function dispatch(): void {
    while (running < overall) {
      const group = next()
      const waiter = group?.waiters.first
      if (!group || !waiter) return
      waiter.serve(grant(group.keyStates))
      if (group.waiting > 0) reinsert(group)
    }
  }

  function grant(states: KeyState[]): Disposable {
    running += 1
    for (const state of states) {
      state.running += 1
      update(state)
    }
    return {
      [Symbol.dispose]() {
        running -= 1
        for (const state of states) state.running -= 1
        states.forEach(unpark)
        states.forEach(refill)
        dispatch()
      },
    }
  }

  function enqueue(states: KeyState[], waiter: Waiter): Disposable {
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
  }

  function count(group: LimitGroup, by: 1 | -1): void {
    waitingNow += by
    group.waiting += by
    for (const state of group.keyStates) {
      state.waiting += by
      state.groups.put(group, group.waiting || undefined)
      update(state)
    }
  }

  /** Makes space in a full queue by rejecting the newest request of heavier keys; false when there are none. */
  function makeSpaceFor(states: KeyState[]): boolean {
    if (waitingNow < waiting) return true
    const heaviest = waitingKeys.map((levels) => levels.highest()?.groups.highest())
    const waiter = heaviest.find((group) => group && isHeavier(group.keyStates, states))?.waiters
      .last
    waiter?.reject()
    return waiter !== undefined
  }

  return {
    /** How many permits are held, and how many requests wait. */
    counts: () => ({ running, waiting: waitingNow }),

    /** Waits for a permit, which is released when disposed. Throws `git_busy` when the queue is full or the wait too long. */
    async acquire(keys: string[], signal: AbortSignal): Promise<Disposable> {
      const states = keyStatesOf(keys)
      // All waiting requests are blocked by a limit, so this overtakes none that could run.
      if (running < overall && !states.some(isFull)) return grant(states)
      if (signal.aborted || !makeSpaceFor(states)) {
        throw busy()
      }
      return new Promise((resolve, reject) => {
        const rejectBusy = () => {
          end()
          reject(busy())
        }
        const queued = enqueue(states, {
          serve(permit) {
            end()
            resolve(permit)
          },
          reject: rejectBusy,
        })
        const timer = setTimeout(rejectBusy, waitMs)
        signal.addEventListener('abort', rejectBusy)
        function end() {
          queued[Symbol.dispose]()
          clearTimeout(timer)
          signal.removeEventListener('abort', rejectBusy)
        }
      })
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

const retryAfterSeconds = 10

function busy(): Problem {
  const detail = 'Too many clones, fetches, pushes and imports are running; try again in a moment.'
  return new Problem('git_busy', detail, { retryAfterSeconds })
}
