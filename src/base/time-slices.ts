import { setImmediate as yieldToOthers } from 'node:timers/promises'

/**
 * Divides long work of the event loop: `rest` returns at once until a slice of time has been used, and then lets other
 * events be handled.
 */
export function createTimeSlices(sliceMs = 4): { rest: () => Promise<void> | undefined } {
  let startedAt = performance.now()

  async function yieldNow(): Promise<void> {
    await yieldToOthers()
    startedAt = performance.now()
  }

  return { rest: () => (performance.now() - startedAt < sliceMs ? undefined : yieldNow()) }
}
