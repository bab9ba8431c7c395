import { LRUCache } from 'lru-cache'

/** What a small push brought. */
export type RecentPack = {
  /** The commit that they build on. A client that has all it reaches needs just this pack for the new value. */
  base: string
  after: string
  /** The entries of the pack, without its header and its checksum. Bases of their deltas may be in what `base` reaches. */
  entries: Buffer
  /** The ids of its objects. */
  ids: ReadonlySet<string>
}

/** The packs of recent small pushes, in memory. */
export type RecentPacks = {
  /** Adds a pack, unless there is one for the same value already. */
  add: (repositoryId: string, pack: RecentPack) => void
  /**
   * The packs that lead from one of the commits that a client has to the wanted one, the oldest first, with that commit.
   * Undefined when they are not known, or when two of them have an object in common.
   */
  find: (
    repositoryId: string,
    wanted: string,
    haves: ReadonlySet<string>,
  ) => { common: string; packs: RecentPack[] } | undefined
}

const packsMaxBytes = 4 * 1024 * 1024
// Approximate overhead of a pack, and of each id.
const packBytes = 512
const idBytes = 100
// Objects are pruned two weeks after they become unreachable, at the earliest.
const maxAgeMs = 3_600_000
const maxSteps = 16

export function createRecentPacks(): RecentPacks {
  const packs = new LRUCache<string, RecentPack>({
    maxSize: packsMaxBytes,
    sizeCalculation: ({ entries, ids }) => packBytes + entries.length + ids.size * idBytes,
    ttl: maxAgeMs,
  })
  const keyOf = (repositoryId: string, after: string) => `${repositoryId} ${after}`

  return {
    add(repositoryId, pack) {
      const key = keyOf(repositoryId, pack.after)
      if (!packs.has(key)) packs.set(key, pack)
    },

    find(repositoryId, wanted, haves) {
      const found: RecentPack[] = []
      const ids = new Set<string>()
      for (let at = wanted; found.length < maxSteps; ) {
        const pack = packs.get(keyOf(repositoryId, at))
        if (!pack?.ids.isDisjointFrom(ids)) return undefined
        found.unshift(pack)
        for (const id of pack.ids) ids.add(id)
        at = pack.base
        if (haves.has(at)) return { common: at, packs: found }
      }
      return undefined
    },
  }
}
