/** Runs one round, given its number; returns the measurement, or undefined if it skips the round. */
export type Contestant<Sample = number> = (round: number) => Promise<Sample | undefined>

type Contest<Name extends string, Sample> = {
  contestants: Record<Name, Contestant<Sample>>
  rounds: number
  /** No round begins after this time. */
  seconds: number
}

const leastRounds = 3

/**
 * Collects the measurements of all contestants. They alternate, with a different order in each round, so that
 * other load of the machine affects all of them equally. Round 0 is the warm-up.
 */
export async function takeTurns<Name extends string, Sample>({
  contestants,
  rounds,
  seconds,
}: Contest<Name, Sample>): Promise<{ samples: Record<Name, Sample[]>; rounds: number }> {
  // `Object.keys` loses the type of the keys.
  const names = Object.keys(contestants) as Name[]
  const taken = new Map(names.map((name) => [name, [] as Sample[]]))
  const startedAt = performance.now()
  let round = 0
  for (; round <= rounds; round++) {
    const isLate = performance.now() - startedAt > seconds * 1000
    if (isLate && round > leastRounds) break
    for (const name of rotated(names, round)) {
      const sample = await contestants[name](round)
      if (round > 0 && sample !== undefined) taken.get(name)?.push(sample)
    }
  }
  // One entry for each of the names.
  return { samples: Object.fromEntries(taken) as Record<Name, Sample[]>, rounds: round - 1 }
}

/** The median time of each contestant, in ms. */
export async function interleave<Name extends string>(
  contest: Contest<Name, number>,
): Promise<{ medians: Record<Name, number>; rounds: number }> {
  const { samples, rounds } = await takeTurns(contest)
  const medians = Object.entries<number[]>(samples).map(([name, values]) => [name, median(values)])
  // One entry for each of the names.
  return { medians: Object.fromEntries(medians) as Record<Name, number>, rounds }
}

/** The middle of some numbers; the mean of the two in the middle when their count is even. */
export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.slice(Math.ceil(sorted.length / 2) - 1, Math.floor(sorted.length / 2) + 1)
  return middle.reduce((sum, value) => sum + value, 0) / middle.length
}

/** The value below which a share of them is. */
export function percentile(values: number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN
}

function rotated<T>(items: T[], by: number): T[] {
  const first = by % items.length
  return [...items.slice(first), ...items.slice(0, first)]
}
