export type Random = ReturnType<typeof createRandom>

/** Random choices that a seed repeats (the generator is "mulberry32"). */
export function createRandom(seed: number) {
  let state = seed >>> 0

  function fraction(): number {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  return {
    /** A whole number from 0 up to, but not including, a limit. */
    below: (limit: number): number => Math.floor(fraction() * limit),

    chance: (probability: number): boolean => fraction() < probability,

    pick<T>(list: readonly [T, ...T[]]): T {
      return list[Math.floor(fraction() * list.length)] ?? list[0]
    },
  }
}
