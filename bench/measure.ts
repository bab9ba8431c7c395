/** Does its part of a round, the number of which it is given; how long that took, in ms, if it took part. */
export type Contestant = (round: number) => Promise<number | undefined>

type Contest<Name extends string> = {
  contestants: Record<Name, Contestant>
  rounds: number
  /** No further round is begun after this time. */
  seconds: number
}

const leastRounds = 3

/**
 * The median time of each contestant, in ms. They take turns, so that what else goes on at the machine
 * falls on all of them; whoever comes first in a round comes later in the next. Round 0 warms up.
 */
export async function interleave<Name extends string>({
  contestants,
  rounds,
  seconds,
}: Contest<Name>): Promise<{ medians: Record<Name, number>; rounds: number }> {
  // `Object.keys` gives up the type of the keys that it returns.
  const names = Object.keys(contestants) as Name[]
  const times = new Map(names.map((name) => [name, [] as number[]]))
  const startedAt = performance.now()
  let round = 0
  for (; round <= rounds; round++) {
    const isLate = performance.now() - startedAt > seconds * 1000
    if (isLate && round > leastRounds) break
    for (const name of rotated(names, round)) {
      const elapsedMs = await contestants[name](round)
      if (round > 0 && elapsedMs !== undefined) times.get(name)?.push(elapsedMs)
    }
  }
  const medians = [...times].map(([name, values]) => [name, median(values)])
  // One entry for each of the names.
  return { medians: Object.fromEntries(medians) as Record<Name, number>, rounds: round - 1 }
}

/** The middle of some numbers; the mean of the two in the middle when their count is even. */
export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.slice(Math.ceil(sorted.length / 2) - 1, Math.floor(sorted.length / 2) + 1)
  return middle.reduce((sum, value) => sum + value, 0) / middle.length
}

function rotated<T>(items: T[], by: number): T[] {
  const first = by % items.length
  return [...items.slice(first), ...items.slice(0, first)]
}
