/** Tells the time, in milliseconds since the Unix epoch. Tests give one that they can move. */
export type Clock = { now(): number }

export const systemClock: Clock = { now: () => Date.now() }

export const dayMs = 24 * 60 * 60 * 1000
