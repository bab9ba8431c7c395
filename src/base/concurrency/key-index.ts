import { Levels } from './levels.ts'
import { type Link, LinkedList } from './linked-list.ts'

/** A request that waits. */
export type Waiter = { serve: (permit: Disposable) => void; reject: () => void }

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
export type WaitingGroup = {
  id: string
  keyStates: KeyState[]
  waiters: LinkedList<Waiter>
  waiting: number
  /** Its list entries: ready at each of its keys, or parked at one that is full. */
  links: { list: LinkedList<WaitingGroup>; link: Link<WaitingGroup> }[]
}

/** The keys of a fair queue, found in constant time by how many permits they hold and how many requests wait for them. */
export function createKeyIndex(maxPerKey: number) {
  // By position and key.
  const known = new Map<string, KeyState>()
  // For each position, the keys that may be served, by the number of permits that they hold.
  const readyKeys: Levels<KeyState>[] = []
  // For each position, all keys by the number of their waiting requests.
  const waitingKeys: Levels<KeyState>[] = []

  const isFull = (state: KeyState) => state.running >= maxPerKey

  return {
    /** Whether a key holds all the permits that it may. */
    isFull,

    /** Reinserts a key after a change. */
    update(state: KeyState): void {
      const mayBeServed = !isFull(state) && !state.ready.isEmpty()
      readyKeys[state.position] ??= new Levels()
      readyKeys[state.position]?.put(state, mayBeServed ? state.running : undefined)
      waitingKeys[state.position] ??= new Levels()
      waitingKeys[state.position]?.put(state, state.waiting || undefined)
      if (state.running === 0 && state.waiting === 0) known.delete(idOf(state))
      else known.set(idOf(state), state)
    },

    statesOf(keys: string[]): KeyState[] {
      return keys.map((key, position) => {
        const state = known.get(idOf({ position, key }))
        if (state) return state
        const [ready, parked] = [new LinkedList<WaitingGroup>(), new LinkedList<WaitingGroup>()]
        const groups = new Levels<WaitingGroup>()
        return { position, key, running: 0, waiting: 0, groups, ready, parked }
      })
    },

    /** The number of positions that had keys so far. */
    positions: () => readyKeys.length,

    /** Of the keys at a position that may be served, one that holds the fewest permits. */
    leastRunning: (position: number): KeyState | undefined => readyKeys[position]?.lowest(),

    /** For each position, a key for which the most requests wait. */
    mostWaiting: (): (KeyState | undefined)[] => waitingKeys.map((levels) => levels.highest()),
  }
}

function idOf({ position, key }: Pick<KeyState, 'position' | 'key'>): string {
  return `${position} ${key}`
}
