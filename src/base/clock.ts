/** The current time in milliseconds since the Unix epoch. Tests pass a clock that they control. */
export type Clock = { now(): number }

export const systemClock: Clock = { now: () => Date.now() }

export const dayMs = 24 * 60 * 60 * 1000

/** Returns a strictly increasing clock, which orders events even when the system clock is set back. */
export function increasing(clock: Clock): Clock {
  let last = 0
  return {
    now() {
      last = Math.max(last + 1, clock.now())
      return last
    },
  }
}
