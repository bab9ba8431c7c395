import { print } from './print.ts'
import { type Medians, mapServers, type PerServer } from './rows.ts'
import { type Request, startWireClient, type Target } from './wire-client.ts'

/** Runs one round, given its number; returns the measurement, or undefined if it skips the round. */
export type Contestant<Sample = number> = (round: number) => Promise<Sample | undefined>

/** Rounds of a measurement, and the approximate limit of seconds. */
export type Effort = { rounds: number; seconds: number }

/** The result of one round on the wire, in ms, for all requests together. */
export type WireSample = {
  perSecond: number
  p50: number
  p99: number
  /** To the first byte of the last body. */
  firstByte: number
  /** CPU time of the server. */
  cpu: number
  bytes: number
}

export type WireResult = { rounds: number; samples: PerServer<WireSample> }

export type WireEffort = Effort & {
  connections?: number
  /** The duration of each round; 0 for a single pass. */
  ms: number
  /** The requests of a round. */
  requests: (round: number) => Request[]
  /** Whether the responses are those of different versions. */
  mayDifferInSize?: boolean
}

const minRounds = 3
const maxDifferenceInSize = 1.05

/**
 * Collects the measurements of all servers. They alternate, with a different order in each round, so that other load on
 * the machine affects all of them equally. Round 0 is the warm-up.
 */
export async function interleave<Sample>(
  contestants: PerServer<Contestant<Sample>>,
  { rounds, seconds }: Effort,
): Promise<{ samples: PerServer<Sample[]>; rounds: number }> {
  const samples = mapServers(contestants, (): Sample[] => [])
  // `Object.keys` loses the type of the keys.
  const servers = Object.keys(contestants) as (keyof typeof contestants)[]
  const startedAt = performance.now()
  let round = 0
  for (; round <= rounds; round++) {
    const isLate = performance.now() - startedAt > seconds * 1000
    if (isLate && round > minRounds) break
    for (const server of rotated(servers, round)) {
      const sample = await contestants[server]?.(round)
      if (round > 0 && sample !== undefined) samples[server]?.push(sample)
    }
  }
  return { samples, rounds: round - 1 }
}

/** The median of each server. */
export async function compare(
  title: string,
  contestants: PerServer<Contestant>,
  effort: Effort,
): Promise<Medians> {
  print(`Measuring: ${title}`)
  const { samples, rounds } = await interleave(contestants, effort)
  return { values: mapServers(samples, median), rounds }
}

/** Sends the same requests to each server, and returns the medians. */
export async function compareOnWire(
  title: string,
  targets: PerServer<Target>,
  { connections = 1, ms, requests, mayDifferInSize = false, ...effort }: WireEffort,
): Promise<WireResult> {
  print(`Measuring: ${title}`)
  await using client = startWireClient()
  const measure =
    (target: Target) =>
    async (round: number): Promise<WireSample> => {
      const cpuBefore = target.cpuMs()
      const { latencies, firstBytes, ...seen } = await client.run(target, {
        connections,
        ms,
        requests: requests(round),
      })
      // Each connection sends one unmeasured request first, unless the job runs only once.
      const count = latencies.length + (ms > 0 ? connections : 0)
      return {
        perSecond: count / seen.seconds,
        p50: percentile(latencies, 0.5),
        p99: percentile(latencies, 0.99),
        firstByte: percentile(firstBytes, 0.5),
        cpu: (target.cpuMs() - cpuBefore) / count,
        bytes: seen.bytes,
      }
    }
  const { samples, rounds } = await interleave(mapServers(targets, measure), effort)
  const medians = mapServers(samples, toMedians)
  if (!mayDifferInSize) assertSameSize(title, medians)
  return { rounds, samples: medians }
}

/** One measure of a result. */
export function mediansOf({ samples, rounds }: WireResult, measure: keyof WireSample): Medians {
  return { values: mapServers(samples, (sample) => sample[measure]), rounds }
}

/** The middle of some numbers; the mean of the two in the middle when their count is even. */
export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.slice(Math.ceil(sorted.length / 2) - 1, Math.floor(sorted.length / 2) + 1)
  return middle.reduce((sum, value) => sum + value, 0) / middle.length
}

/** The value below which a share of them is. */
export function percentile(values: number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN
}

function toMedians(samples: WireSample[]): WireSample {
  const of = (measure: keyof WireSample) => median(samples.map((sample) => sample[measure]))
  return {
    perSecond: of('perSecond'),
    p50: of('p50'),
    p99: of('p99'),
    firstByte: of('firstByte'),
    cpu: of('cpu'),
    bytes: of('bytes'),
  }
}

// Shorter responses are less work. Capabilities and packing may differ slightly.
function assertSameSize(title: string, samples: PerServer<WireSample>): void {
  const sizes = Object.values(mapServers(samples, ({ bytes }) => bytes))
  if (Math.max(...sizes) <= Math.min(...sizes) * maxDifferenceInSize) return
  throw new Error(`${title}: the responses differ in size: ${sizes.join(', ')}`)
}

function rotated<T>(items: T[], by: number): T[] {
  const first = by % items.length
  return [...items.slice(first), ...items.slice(0, first)]
}
