import { createFairLimiter, type FairLimiter } from '../concurrency/fair-limiter.ts'

// libuv's own default.
const defaultThreads = 4
const maxWaiting = 256

/** How long a name lookup may take, and may wait before that. */
export const lookupTimeoutMs = 10_000

/** The size of the server's thread pool, in which Node looks up names and accesses files. */
export const serverThreads = 16

/**
 * Creates the limit of concurrent name lookups: as many as Node really makes at once, which leave half of its threads to
 * other work. After its timeout a lookup still blocks a thread until the system's resolver returns, so one user may hold
 * only a quarter.
 */
export function createLookupLimiter(
  threads = defaultThreads,
  waitMs = lookupTimeoutMs,
): FairLimiter {
  const overall = Math.max(1, Math.floor(threads / 2))
  const perKey = Math.max(1, Math.floor(overall / 4))
  return createFairLimiter({ overall, perKey, waiting: maxWaiting, waitMs })
}
