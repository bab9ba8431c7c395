// Generous, for slow and busy machines: a condition that holds ends the wait at once.
const deadlineMs = 180_000
const pauseMs = 5

/** Waits until a condition gives something other than undefined or false; fails when it never does. */
export async function until<T>(
  what: string,
  condition: () => T | undefined | false | Promise<T | undefined | false>,
): Promise<T> {
  const deadline = performance.now() + deadlineMs
  for (;;) {
    const found = await condition()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) throw new Error(`It never came to this: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}
