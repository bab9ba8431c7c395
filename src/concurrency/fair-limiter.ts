import { Problem } from '../base/problem.ts'
import { Levels } from './levels.ts'
import { type Link, LinkedList } from './linked-list.ts'

export type Turns = ReturnType<typeof createTurns>

type Options = {
  overall: number
  /** How many of them one key may have: a repository, a user. Nobody gets all, unless there is but one. */
  perKey: number
  /** How many may wait; further ones are refused. */
  waiting: number
  waitMs: number
}

/** Whoever shares in the turns by one key, and the place of that key in its list. */
type Party = {
  place: number
  key: string
  running: number
  waiting: number
  /** Its lanes by how many wait in them. */
  lanes: Levels<Lane>
  /** Those of its lanes whose next one may be served, as far as is known. */
  ready: LinkedList<Lane>
  /** Those that wait for it to have fewer running. */
  parked: LinkedList<Lane>
}

/** All who wait with the same keys, in the order in which they came. */
type Lane = {
  id: string
  parties: Party[]
  waiters: LinkedList<Waiter>
  waiting: number
  /** Where it stands: ready at each of its parties, or parked at one that has all it may have. */
  links: { list: LinkedList<Lane>; link: Link<Lane> }[]
}

type Waiter = { serve: (turn: Disposable) => void; refuse: () => void }

/**
 * Limits how much work runs at once, overall and for each key; what is too much waits for its turn. Who waits has a
 * list of keys, a user and a repository for example. A free turn goes to the user who has the fewest, the next one to
 * the repository that has the fewest, and so on; equals go round. So however many wait of one user or for one repository,
 * everybody else passes by them. Nothing is searched: it takes the same time however many wait. Of the room to wait, users
 * have equal shares first, and then repositories.
 */
export function createTurns({ overall, perKey, waiting, waitMs }: Options) {
  const most = Math.max(1, Math.min(perKey, Math.floor((overall * 3) / 4)))
  // By place and key, and by all keys.
  const parties = new Map<string, Party>()
  const lanes = new Map<string, Lane>()
  // For each place the parties who may be served, by how many they have running.
  const rotations: Levels<Party>[] = []
  // For each place all parties by how many of theirs wait.
  const crowds: Levels<Party>[] = []
  let running = 0
  let waitingNow = 0
  let nextPlace = 0

  const isFull = (party: Party) => party.running >= most

  function partiesOf(keys: string[]): Party[] {
    return keys.map((key, place) => {
      const known = parties.get(idOf({ place, key }))
      if (known) return known
      const lists = { ready: new LinkedList<Lane>(), parked: new LinkedList<Lane>() }
      return { place, key, running: 0, waiting: 0, lanes: new Levels<Lane>(), ...lists }
    })
  }

  /** Has a party stand where it belongs, after something about it has changed. */
  function update(party: Party): void {
    const mayBeServed = !isFull(party) && !party.ready.isEmpty()
    rotations[party.place] ??= new Levels()
    rotations[party.place]?.put(party, mayBeServed ? party.running : undefined)
    crowds[party.place] ??= new Levels()
    crowds[party.place]?.put(party, party.waiting || undefined)
    if (party.running === 0 && party.waiting === 0) parties.delete(idOf(party))
    else parties.set(idOf(party), party)
  }

  function stand(lane: Lane): void {
    const obstacle = lane.parties.find(isFull)
    const lists = obstacle ? [obstacle.parked] : lane.parties.map(({ ready }) => ready)
    lane.links = lists.map((list) => ({ list, link: list.append(lane) }))
    lane.parties.forEach(update)
  }

  function leave(lane: Lane): void {
    for (const { list, link } of lane.links) list.remove(link)
    lane.links = []
  }

  /** Has the next one who was parked at a party stand anew. */
  function unpark({ parked }: Party): void {
    const lane = parked.first
    if (!lane) return
    leave(lane)
    stand(lane)
  }

  /** What has room has somebody ready if anybody waits for it: few are parked elsewhere, as few can be full. */
  function refill(party: Party): void {
    while (!isFull(party) && party.ready.isEmpty() && !party.parked.isEmpty()) unpark(party)
    update(party)
  }

  function restand(lane: Lane): void {
    leave(lane)
    stand(lane)
    lane.parties.forEach(refill)
  }

  function nextAt(place: number): Lane | undefined {
    for (;;) {
      const lane = rotations[place]?.lowest()?.ready.first
      if (!lane?.parties.some(isFull)) return lane
      // It became ready before that party had its last turn.
      restand(lane)
    }
  }

  function next(): Lane | undefined {
    for (let asked = 0; asked < rotations.length; asked++) {
      const lane = nextAt(nextPlace)
      nextPlace = (nextPlace + 1) % rotations.length
      if (lane) return lane
    }
    return undefined
  }

  function dispatch(): void {
    while (running < overall) {
      const lane = next()
      const waiter = lane?.waiters.first
      if (!lane || !waiter) return
      waiter.serve(occupy(lane.parties))
      if (lane.waiting > 0) restand(lane)
    }
  }

  function occupy(by: Party[]): Disposable {
    running += 1
    for (const party of by) {
      party.running += 1
      update(party)
    }
    return {
      [Symbol.dispose]() {
        running -= 1
        for (const party of by) party.running -= 1
        by.forEach(unpark)
        by.forEach(refill)
        dispatch()
      },
    }
  }

  function enqueue(by: Party[], waiter: Waiter): Disposable {
    const id = JSON.stringify(by.map(({ key }) => key))
    const lane = lanes.get(id) ?? {
      id,
      parties: by,
      waiters: new LinkedList<Waiter>(),
      waiting: 0,
      links: [],
    }
    lanes.set(id, lane)
    const link = lane.waiters.append(waiter)
    count(lane, 1)
    if (lane.waiting === 1) stand(lane)
    return {
      [Symbol.dispose]() {
        lane.waiters.remove(link)
        count(lane, -1)
        if (lane.waiting > 0) return
        lanes.delete(id)
        leave(lane)
        lane.parties.forEach(refill)
      },
    }
  }

  function count(lane: Lane, by: 1 | -1): void {
    waitingNow += by
    lane.waiting += by
    for (const party of lane.parties) {
      party.waiting += by
      party.lanes.put(lane, lane.waiting || undefined)
      update(party)
    }
  }

  /** Whether there is room to wait. If not, the last one to come of those who take the most of it gives way to who takes less. */
  function hasRoom(by: Party[]): boolean {
    if (waitingNow < waiting) return true
    const greediest = crowds.map((crowd) => crowd.highest()?.lanes.highest())
    const waiter = greediest.find((lane) => lane && isGreedier(lane.parties, by))?.waiters.last
    waiter?.refuse()
    return waiter !== undefined
  }

  return {
    /** How many have their turn, and how many wait for it. */
    counts: () => ({ running, waiting: waitingNow }),

    /** Waits for a turn, which lasts until it is disposed of. Throws `git_busy` when it would wait too long. */
    async take(keys: string[], signal: AbortSignal): Promise<Disposable> {
      const by = partiesOf(keys)
      // Whoever waits is kept by one of the limits, so nobody is passed by.
      if (running < overall && !by.some(isFull)) return occupy(by)
      if (signal.aborted || !hasRoom(by)) {
        throw busy()
      }
      return new Promise((resolve, reject) => {
        const refuse = () => {
          end()
          reject(busy())
        }
        const place = enqueue(by, {
          serve(turn) {
            end()
            resolve(turn)
          },
          refuse,
        })
        const timer = setTimeout(refuse, waitMs)
        signal.addEventListener('abort', refuse)
        function end() {
          place[Symbol.dispose]()
          clearTimeout(timer)
          signal.removeEventListener('abort', refuse)
        }
      })
    },
  }
}

/** Whether some take more of the waiting room than others would with one more. */
function isGreedier(some: Party[], others: Party[]): boolean {
  for (const [place, party] of some.entries()) {
    const other = others[place]
    if (!other || other === party || party.waiting === other.waiting + 1) continue
    return party.waiting > other.waiting + 1
  }
  return false
}

function idOf({ place, key }: Pick<Party, 'place' | 'key'>): string {
  return `${place} ${key}`
}

const retryAfterSeconds = 10

function busy(): Problem {
  const detail = 'Too many clones, fetches, pushes and imports are running; try again in a moment.'
  return new Problem('git_busy', detail, { retryAfterSeconds })
}
