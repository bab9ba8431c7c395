// Generous, for slow and busy machines: a condition that holds ends the wait at once.
const deadlineMs = 180_000
// Checks become rarer during a long wait: conditions that send requests would keep a core busy.
const minPauseMs = 5
const usualMaxPauseMs = 200
const pauseShare = 0.05

/**
 * Waits until a condition gives something other than undefined or false; fails when it never does. `maxPauseMs` is for one that
 * holds only for a moment.
 */
export async function until<T>(
  what: string,
  condition: () => T | undefined | false | Promise<T | undefined | false>,
  { maxPauseMs = usualMaxPauseMs } = {},
): Promise<T> {
  const startedAt = performance.now()
  for (;;) {
    const found = await condition()
    if (found !== undefined && found !== false) return found
    const waitedMs = performance.now() - startedAt
    if (waitedMs > deadlineMs) throw new Error(`It never came to this: ${what}`)
    const pauseMs = Math.min(Math.max(waitedMs * pauseShare, minPauseMs), maxPauseMs)
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}
