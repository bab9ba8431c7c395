import { compareVersions } from './version-order.ts'

/** A ref; its name is raw (latin1), without the prefix. */
export type ListedRef = { name: string; id: string }

export type RefPage = { refs: ListedRef[]; hasMore: boolean }

export const refOrders = ['name', 'version'] as const
export const refFilterMaxLength = 200

/** Which refs a page has. */
export type WantedRefs = {
  /** The raw name after which the page starts. */
  after: string
  limit: number
  /** Highest version first; by name without it. */
  order?: (typeof refOrders)[number] | undefined
  /** A part of the name, in any case. */
  filter?: string | undefined
}

/** Collects the refs of a page from all, which are added in the order of their names. */
export function createRefSelection({ after, limit, order = 'name', filter = '' }: WantedRefs) {
  const part = filter.toLowerCase()
  const refs: ListedRef[] = []
  let hasMore = false

  function matches(name: string): boolean {
    return part === '' || Buffer.from(name, 'latin1').toString('utf8').toLowerCase().includes(part)
  }

  function addByName(ref: ListedRef): void {
    if (after !== '' && ref.name <= after) return
    if (refs.length === limit) hasMore = true
    else refs.push(ref)
  }

  /** Keeps the highest ones, sorted: pages are short, so most refs are compared with the last one alone. */
  function addByVersion(ref: ListedRef): void {
    if (after !== '' && compareVersions(ref.name, after) >= 0) return
    const last = refs.at(-1)
    const isFull = refs.length === limit
    hasMore ||= isFull
    if (isFull && last && compareVersions(ref.name, last.name) < 0) return
    refs.splice(placeOf(ref.name), 0, ref)
    refs.length = Math.min(refs.length, limit)
  }

  function placeOf(name: string): number {
    let [low, high] = [0, refs.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (compareVersions(refs[middle]?.name ?? '', name) > 0) low = middle + 1
      else high = middle
    }
    return low
  }

  return {
    /** Adds a ref if the page has it; returns whether the page is complete. */
    add(ref: ListedRef): boolean {
      if (!matches(ref.name)) return false
      if (order === 'version') addByVersion(ref)
      else addByName(ref)
      return order === 'name' && hasMore
    },
    page: (): RefPage => ({ refs, hasMore }),
  }
}
