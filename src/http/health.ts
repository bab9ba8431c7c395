import { Problem, type ProblemCode } from '../base/problem.ts'
import { within } from '../base/timeouts.ts'
import { createSingleFlight } from '../concurrency/single-flight.ts'

/** A part that the service cannot work without. */
type Part = {
  /** The problem that its absence is. */
  code: ProblemCode
  detail: string
  /** Rejects when the part is missing; may take for ever. */
  probe: () => Promise<unknown>
}

// Anyone may ask for the health, as often as they like.
const freshMs = 500
// Below the time-outs of load balancers, with some allowance for a part that is busy.
const probeTimeoutMs = 2000
const retryAfterSeconds = 5

/** Checks that every part is there, in a bounded time. Throws the problem of the first one that is missing; the detail names them all. */
export function createHealthCheck(parts: Part[]) {
  const checked = parts.map((part) => ({ ...part, isThere: createProbe(part.probe) }))

  return async function requireParts(): Promise<void> {
    const found = await Promise.all(
      checked.map(async (part) => ((await part.isThere()) ? [] : [part])),
    )
    const missing = found.flat()
    const [first] = missing
    if (!first) return
    const detail = missing.map((part) => part.detail).join(' ')
    throw new Problem(first.code, detail, { retryAfterSeconds })
  }
}

/** Probes a part at most once at a time, and not again within a moment of a success. */
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
