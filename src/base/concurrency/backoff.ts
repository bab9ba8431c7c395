import { pause } from '../timeouts.ts'

/** Spaces attempts: each pause is up to twice as long as the one before, with jitter, so that clients spread. */
export function createBackoff({ firstMs, maxMs }: { firstMs: number; maxMs: number }) {
  let currentMs = firstMs

  /** The length of the next pause. */
  function nextMs(): number {
    const jitteredMs = currentMs * (0.5 + Math.random() / 2)
    currentMs = Math.min(maxMs, currentMs * 2)
    return jitteredMs
  }

  return {
    nextMs,

    /** Waits before the next attempt, at least `minMs`; rejects with the signal's reason. */
    pause: (signal: AbortSignal, minMs = 0): Promise<void> =>
      pause(Math.max(nextMs(), minMs), signal),

    /** Starts with the first pause again, after a success. */
    reset(): void {
      currentMs = firstMs
    },
  }
}
