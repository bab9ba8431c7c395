import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import { Problem, type ProblemCode } from '#base/problem.ts'
import { within } from '#base/timeouts.ts'

/** A part that the service depends on. */
type Part = {
  /** The problem when it is unavailable. */
  code: ProblemCode
  detail: string
  /** Rejects when the part is unavailable; may never settle. */
  probe: () => Promise<unknown>
  /** How long a success counts. */
  freshMs?: number
}

// The health check needs no authentication, so its cost is bounded.
const defaultFreshMs = 500
// A part of that time: how long a failure counts.
const failureShare = 0.1
// Below the timeouts of common load balancers.
const probeTimeoutMs = 2000
const retryAfterSeconds = 5

/**
 * Checks all parts, in bounded time. Throws the problem of the first unavailable one; the detail names all. `now` is in ms,
 * from any moment.
 */
export function createHealthCheck(parts: Part[], now: () => number = () => performance.now()) {
  const checked = parts.map((part) => ({ ...part, isAvailable: createProbe(part, now) }))

  return async function requireParts(): Promise<void> {
    const found = await Promise.all(
      checked.map(async (part) => ((await part.isAvailable()) ? [] : [part])),
    )
    const missing = found.flat()
    const [first] = missing
    if (!first) return
    const detail = missing.map((part) => part.detail).join(' ')
    throw new Problem(first.code, detail, { retryAfterSeconds })
  }
}

/**
 * Shares concurrent probes of a part, and caches their results for a moment. After a success the next probe starts before
 * that is over, so that frequent requests do not wait for one.
 */
function createProbe(
  { probe, freshMs = defaultFreshMs }: Part,
  now: () => number,
): () => Promise<boolean> {
  const share = createSingleFlight<boolean>()
  let startedAt = 0
  let succeededAt = Number.NEGATIVE_INFINITY
  let failedAt = Number.NEGATIVE_INFINITY

  async function run(): Promise<boolean> {
    startedAt = now()
    try {
      await probe()
    } catch {
      failedAt = now()
      return false
    }
    succeededAt = now()
    return true
  }

  return async () => {
    const age = now() - succeededAt
    if (age < freshMs / 2) return true
    if (now() - failedAt < freshMs * failureShare) return age < freshMs
    const result = share('probe', run)
    if (age < freshMs) return true
    const left = Math.max(0, startedAt + probeTimeoutMs - now())
    return within(left, result).catch(() => false)
  }
}
