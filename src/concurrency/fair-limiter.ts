import { Problem } from '../base/problem.ts'
import { Levels } from './levels.ts'
import { type Link, LinkedList } from './linked-list.ts'

export type FairLimiter = ReturnType<typeof createFairLimiter>

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
  groups: Levels<LimitGroup>
  /** Those of its lanes whose next one may be served, as far as is known. */
  ready: LinkedList<LimitGroup>
  /** Those that wait for it to have fewer running. */
  parked: LinkedList<LimitGroup>
}

/** All who wait with the same keys, in the order in which they came. */
type LimitGroup = {
  id: string
  parties: Party[]
  waiters: LinkedList<Waiter>
  waiting: number
  /** Where it stands: ready at each of its parties, or parked at one that has all it may have. */
  links: { list: LinkedList<LimitGroup>; link: Link<LimitGroup> }[]
}

type Waiter = { serve: (turn: Disposable) => void; refuse: () => void }

/**
 * Limits how much work runs at once, overall and for each key; what is too much waits for its turn. Who waits has a
 * list of keys, a user and a repository for example. A free turn goes to the user who has the fewest, the next one to
 * the repository that has the fewest, and so on; equals go round. So however many wait of one user or for one repository,
 * everybody else passes by them. Nothing is searched: it takes the same time however many wait. Of the room to wait, users
 * have equal shares first, and then repositories.
 */
export function createFairLimiter({ overall, perKey, waiting, waitMs }: Options) {
  const most = Math.max(1, Math.min(perKey, Math.floor((overall * 3) / 4)))
  // By place and key, and by all keys.
  const parties = new Map<string, Party>()
  const groups = new Map<string, LimitGroup>()
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
      const lists = { ready: new LinkedList<LimitGroup>(), parked: new LinkedList<LimitGroup>() }
      return { place, key, running: 0, waiting: 0, groups: new Levels<LimitGroup>(), ...lists }
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

  function stand(group: LimitGroup): void {
    const obstacle = group.parties.find(isFull)
    const lists = obstacle ? [obstacle.parked] : group.parties.map(({ ready }) => ready)
    group.links = lists.map((list) => ({ list, link: list.append(group) }))
    group.parties.forEach(update)
  }

  function leave(group: LimitGroup): void {
    for (const { list, link } of group.links) list.remove(link)
    group.links = []
  }

  /** Has the next one who was parked at a party stand anew. */
  function unpark({ parked }: Party): void {
    const group = parked.first
    if (!group) return
    leave(group)
    stand(group)
  }

  /** What has room has somebody ready if anybody waits for it: few are parked elsewhere, as few can be full. */
  function refill(party: Party): void {
    while (!isFull(party) && party.ready.isEmpty() && !party.parked.isEmpty()) unpark(party)
    update(party)
  }

  function restand(group: LimitGroup): void {
    leave(group)
    stand(group)
    group.parties.forEach(refill)
  }

  function nextAt(place: number): LimitGroup | undefined {
    for (;;) {
      const group = rotations[place]?.lowest()?.ready.first
      if (!group?.parties.some(isFull)) return group
      // It became ready before that party had its last turn.
      restand(group)
    }
  }

  function next(): LimitGroup | undefined {
    for (let asked = 0; asked < rotations.length; asked++) {
      const group = nextAt(nextPlace)
      nextPlace = (nextPlace + 1) % rotations.length
      if (group) return group
    }
    return undefined
  }

  function dispatch(): void {
    while (running < overall) {
      const group = next()
      const waiter = group?.waiters.first
      if (!group || !waiter) return
      waiter.serve(occupy(group.parties))
      if (group.waiting > 0) restand(group)
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
    const group = groups.get(id) ?? {
      id,
      parties: by,
      waiters: new LinkedList<Waiter>(),
      waiting: 0,
      links: [],
    }
    groups.set(id, group)
    const link = group.waiters.append(waiter)
    count(group, 1)
    if (group.waiting === 1) stand(group)
    return {
      [Symbol.dispose]() {
        group.waiters.remove(link)
        count(group, -1)
        if (group.waiting > 0) return
        groups.delete(id)
        leave(group)
        group.parties.forEach(refill)
      },
    }
  }

  function count(group: LimitGroup, by: 1 | -1): void {
    waitingNow += by
    group.waiting += by
    for (const party of group.parties) {
      party.waiting += by
      party.groups.put(group, group.waiting || undefined)
      update(party)
    }
  }

  /** Whether there is room to wait. If not, the last one to come of those who take the most of it gives way to who takes less. */
  function hasRoom(by: Party[]): boolean {
    if (waitingNow < waiting) return true
    const greediest = crowds.map((crowd) => crowd.highest()?.groups.highest())
    const waiter = greediest.find((group) => group && isGreedier(group.parties, by))?.waiters.last
    waiter?.refuse()
    return waiter !== undefined
  }

  return {
    /** How many have their turn, and how many wait for it. */
    counts: () => ({ running, waiting: waitingNow }),

    /** Waits for a turn, which lasts until it is disposed of. Throws `git_busy` when it would wait too long. */
    async acquire(keys: string[], signal: AbortSignal): Promise<Disposable> {
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
