const factor = Number(process.env.SVC_SOAK ?? 1)

/** How often a test repeats what it does at random; `npm run soak` raises it with SVC_SOAK. */
export function toRounds(usual: number): number {
  return Math.ceil(usual * factor)
}

/** Some of a list at random; in the soak all of it. */
export function sampleOf<T>(list: readonly T[], count: number): readonly T[] {
  if (factor > 1) return list
  const keyed = list.map((value) => ({ value, key: Math.random() }))
  return keyed
    .sort((one, two) => one.key - two.key)
    .slice(0, count)
    .map(({ value }) => value)
}
