import { setTimeout as sleep } from 'node:timers/promises'

const firstMs = 200
const usualMostMs = 5000
// A server may ask for more patience than that, but not for any amount of it.
const askedMostMs = 30_000

/** Pauses between tries: longer from one to the next, and never the same for two that failed together. */
export function createBackoff(mostMs = usualMostMs) {
  let nextMs = firstMs
  return {
    /** Waits before the next try, no shorter than the server asked for; rejects when the signal is aborted. */
    async pause(signal: AbortSignal, askedMs = 0): Promise<void> {
      const jittered = nextMs * (0.5 + Math.random() / 2)
      nextMs = Math.min(mostMs, nextMs * 2)
      await pause(Math.max(jittered, Math.min(askedMs, askedMostMs)), signal)
    },

    /** Has the next pause be a short one: a try went well. */
    reset(): void {
      nextMs = firstMs
    },
  }
}

/** Waits; rejects with the signal's own reason when it is aborted. */
export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  await sleep(Math.max(0, milliseconds), undefined, { signal }).catch(() => {})
  signal.throwIfAborted()
}
