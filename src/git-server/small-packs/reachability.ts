import type { ObjectPool } from '#git/objects/object-pool.ts'
import type { RefCache } from '#git/refs/ref-cache.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix, type RefUpdate, readDefaultBranch, readRefs } from '#git/refs/refs.ts'
import { isNearby } from './nearby-history.ts'

/** What refs reach, as far as that is found without a git process. */
export type Reachability = {
  /** Whether refs certainly reach a commit, at a push that moves a ref: one points to it, or is not far ahead of it. */
  isReached: (directory: string, update: RefUpdate, id: string) => Promise<boolean>
  /** Whether a ref is certainly new, or moves forward, to a commit that refs reach. */
  canMove: (directory: string, update: RefUpdate) => Promise<boolean>
}

type Dependencies = { pool: Pick<ObjectPool, 'of'>; refCache: Pick<RefCache, 'of'> }

export function createReachability({ pool, refCache }: Dependencies): Reachability {
  async function isReached(directory: string, { before }: RefUpdate, id: string): Promise<boolean> {
    if (id === before || (await refCache.of(directory))?.hasValue(id)) return true
    const reader = pool.of(directory)
    if (before !== zeroId && (await isNearby(reader, before, id))) return true
    const mainline = branchPrefix + (await readDefaultBranch(directory))
    const tip = (await readRefs(directory, [mainline])).get(mainline) ?? zeroId
    return tip !== zeroId && (await isNearby(reader, tip, id))
  }

  return {
    isReached,

    async canMove(directory, update) {
      const { before, after } = update
      const reader = pool.of(directory)
      const isForward = before === zeroId || (await isNearby(reader, after, before))
      if (!isForward || !(await isReached(directory, update, after))) return false
      const found = await reader.find(after).catch(() => undefined)
      return found?.type === 'commit'
    },
  }
}
