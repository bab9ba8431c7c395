import type { Footprint, Growth } from './memory.ts'
import type { Result } from './operations.ts'
import type { Other, Row } from './table.ts'

const mb = 1e6

/** Medians of one measure, of svc and of others. */
export type Medians = { svc: number; peer?: number } & Partial<Record<Other, number>>

type Options = {
  /** The maximum of svc as a ratio to its peer, or the minimum. */
  atMost?: number | undefined
  atLeast?: number | undefined
  show: (value: number) => string
}

/** A measure of svc beside those of others. */
export function comparison(what: string, medians: Medians, options: Options): Row {
  const { show, atMost, atLeast } = options
  const { svc, peer, ...others } = medians
  const ratio = peer === undefined ? undefined : svc / peer
  const ofOthers = Object.entries(others).map(([name, value]) => [
    name,
    `${show(value)} (${(svc / value).toFixed(2)})`,
  ])
  return {
    what,
    svc: show(svc),
    ...(peer !== undefined && ratio !== undefined && { peer: show(peer), ratio: ratio.toFixed(2) }),
    ...(ratio !== undefined && toBound(ratio, { atMost, atLeast })),
    others: Object.fromEntries(ofOthers),
  }
}

/** The times of an operation, with svc's bound as a ratio to its peer. */
export function timeRow(result: Result, via: string, atMost?: number): Row {
  const { operation, rounds, ...medians } = result
  return comparison(`${via}: ${operation} (median of ${rounds})`, medians, { atMost, show: toMs })
}

export function boundedTime(what: string, ms: number, most: number): Row {
  return { what, svc: toMs(ms), bound: `<= ${toMs(most)}`, isKept: ms <= most }
}

export function boundedBytes(what: string, bytes: number, most: number): Row {
  return { what, svc: toMb(bytes), bound: `< ${toMb(most)}`, isKept: bytes < most }
}

export function idleRows(idle: Footprint, mostBytes: number): Row[] {
  return [
    boundedBytes('idle: Pss if it is alone', idle.pssAlone, mostBytes),
    { what: 'idle: Pss beside this bench', svc: toMb(idle.pss) },
    { what: 'idle: Rss', svc: toMb(idle.rss) },
  ]
}

export function largestRows({ largest }: Growth): Row[] {
  return largest
    .slice(0, 4)
    .map(({ command, bytes }) => ({ what: `  at the peak: ${command}`, svc: toMb(bytes) }))
}

export function toMs(ms: number): string {
  if (Number.isNaN(ms)) return 'not counted'
  return `${ms.toFixed(ms < 1 ? 2 : ms < 100 ? 1 : 0)} ms`
}

function toMb(bytes: number): string {
  return `${(bytes / mb).toFixed(1)} MB`
}

export function perSecond(count: number): string {
  return `${count.toFixed(count < 100 ? 1 : 0)}/s`
}

// Without a measurement, no bound is met.
function toBound(ratio: number, { atMost, atLeast }: Omit<Options, 'show'>): Partial<Row> {
  if (Number.isNaN(ratio)) return {}
  if (atMost !== undefined) return { bound: `<= ${atMost.toFixed(2)}`, isKept: ratio <= atMost }
  if (atLeast !== undefined) return { bound: `>= ${atLeast.toFixed(2)}`, isKept: ratio >= atLeast }
  return {}
}
