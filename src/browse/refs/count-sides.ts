import { createTimeSlices } from '#base/time-slices.ts'
import { createLineSplitter } from '../line-splitter.ts'

/** The numbers of commits that a branch has and its base has not, and the other way round. */
export type AheadBehind = { ahead: number; behind: number }

/** A set of tips, each a bit: the lowest is the base. */
type Tips = bigint

/** With histories that are farther apart, comparing two of them is faster. */
const maxListed = 20_000
const lineMaxLength = 1024 * 1024
const talliesPerCheck = 500

/**
 * Compares commits with a base by a list of commits with their parents, each after all that reach it, such as that of
 * git-rev-list(1) with `--date-order --parents`. Reads it until what follows is part of all histories, and leaves out
 * commits for which a list that was cut is too short. Does not rely on the dates of commits.
 */
export async function countSides(
  output: AsyncIterable<Buffer>,
  base: string,
  ids: readonly string[],
): Promise<Map<string, AheadBehind>> {
  const all: Tips = (1n << BigInt(ids.length + 1)) - 1n
  // The tips that reach a commit which has not been listed yet.
  const pending = new Map<string, Tips>()
  // How many of these are not reached by all.
  let partial = 0
  const tallies = new Map<Tips, number>()

  function reach(id: string, tips: Tips): void {
    const before = pending.get(id)
    const after = (before ?? 0n) | tips
    if (before !== undefined && before !== all) partial -= 1
    if (after !== all) partial += 1
    pending.set(id, after)
  }

  function take(line: string): void {
    const [id = '', ...parents] = line.split(' ')
    const tips = pending.get(id)
    if (tips === undefined) return
    pending.delete(id)
    if (tips !== all) {
      partial -= 1
      tallies.set(tips, (tallies.get(tips) ?? 0) + 1)
    }
    for (const parent of parents) reach(parent, tips)
  }

  for (const [index, id] of [base, ...ids].entries()) reach(id, 1n << BigInt(index))
  const split = createLineSplitter(lineMaxLength)
  let listed = 0
  reading: for await (const chunk of output) {
    for (const line of split(chunk)) {
      take(line)
      listed += 1
      if (partial === 0 || listed === maxListed) break reading
    }
  }
  const unknown = [...pending.values()].reduce((sum, tips) => sum | differing(tips, all), 0n)
  return distribute(tallies, ids, unknown)
}

/** The tips of which either they or the base reach a commit, but not both. */
function differing(tips: Tips, all: Tips): Tips {
  return (tips & 1n) === 0n ? tips : tips ^ all
}

async function distribute(
  tallies: ReadonlyMap<Tips, number>,
  ids: readonly string[],
  unknown: Tips,
): Promise<Map<string, AheadBehind>> {
  const counts = ids.map(() => ({ ahead: 0, behind: 0 }))
  const slices = createTimeSlices()
  let tallied = 0
  for (const [tips, count] of tallies) {
    if (tallied++ % talliesPerCheck === 0) await slices.rest()
    const isOfBase = (tips & 1n) === 1n
    for (const [index, one] of counts.entries()) {
      const isOwn = hasTip(tips, index)
      if (isOwn && !isOfBase) one.ahead += count
      if (!isOwn && isOfBase) one.behind += count
    }
  }
  const known = [...counts.entries()].filter(([index]) => !hasTip(unknown, index))
  return new Map(known.map(([index, one]) => [ids[index] ?? '', one]))
}

function hasTip(tips: Tips, index: number): boolean {
  return ((tips >> BigInt(index + 1)) & 1n) === 1n
}
