/** Tells the time, in milliseconds since the Unix epoch. Tests give one that they can move. */
export type Clock = { now(): number }

export const systemClock: Clock = { now: () => Date.now() }

export const dayMs = 24 * 60 * 60 * 1000

/** The same time, but later with each call: it tells what came first, also when the clock is put back. */
export function increasing(clock: Clock): Clock {
  let last = 0
  return {
    now() {
      last = Math.max(last + 1, clock.now())
      return last
    },
  }
}
