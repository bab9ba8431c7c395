const factor = Number(process.env.SVC_SOAK ?? 1)

/** Whether tests run for long: with SVC_SOAK above 1. */
export const isSoak = factor > 1

/** How often a test repeats what it does at random; SVC_SOAK multiplies that. */
export function toRounds(usual: number): number {
  return Math.ceil(usual * factor)
}

/** Some of a list at random; in the soak all of it. */
export function sampleOf<T>(list: readonly T[], count: number): readonly T[] {
  if (isSoak) return list
  const keyed = list.map((value) => ({ value, key: Math.random() }))
  return keyed
    .sort((one, two) => one.key - two.key)
    .slice(0, count)
    .map(({ value }) => value)
}

/** For a test that takes long where a shorter one covers the same code. */
export const onlyInSoak = { skip: isSoak ? false : 'runs with SVC_SOAK=16' }
