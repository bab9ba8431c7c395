import { Problem, type ProblemCode } from '../base/problem.ts'
import { within } from '../base/timeouts.ts'
import { createSingleFlight } from '../concurrency/single-flight.ts'

/** A part that the service depends on. */
type Part = {
  /** The problem when it is unavailable. */
  code: ProblemCode
  detail: string
  /** Rejects when the part is unavailable; may never settle. */
  probe: () => Promise<unknown>
}

// The health check needs no authentication, so its cost is bounded.
const freshMs = 500
// Below the timeouts of common load balancers.
const probeTimeoutMs = 2000
const retryAfterSeconds = 5

/** Checks all parts, in bounded time. Throws the problem of the first unavailable one; the detail names all. */
export function createHealthCheck(parts: Part[]) {
  const checked = parts.map((part) => ({ ...part, isAvailable: createProbe(part.probe) }))

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

/** Shares concurrent probes of a part, and caches a success for a moment. */
function createProbe(probe: () => Promise<unknown>): () => Promise<boolean> {
  const share = createSingleFlight<boolean>()
  let startedAt = 0
  let succeededAt = Number.NEGATIVE_INFINITY

  async function run(): Promise<boolean> {
    startedAt = performance.now()
    await probe()
    succeededAt = performance.now()
    return true
  }

  return async () => {
    const now = performance.now()
    if (now - succeededAt < freshMs) return true
    const result = share('probe', run)
    const left = Math.max(0, startedAt + probeTimeoutMs - now)
    return within(left, result).catch(() => false)
  }
}
