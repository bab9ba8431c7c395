import type { Result } from './comparison.ts'
import type { Footprint, Growth } from './memory.ts'
import type { Row } from './table.ts'

const mb = 1e6

/** What is promised. */
const bounds = {
  ratio: 1.1,
  startMs: 1000,
  idleBytes: 120 * mb,
  growthBytes: 64 * mb,
}

type Results = {
  compared: Result[]
  start: Record<'fresh' | 'used', number>
  idle: Footprint
  /** Not measured when in a hurry. */
  growth: Growth | undefined
}

/** Holds the results against the bounds. */
export function toRows({ compared, start, idle, growth }: Results): Row[] {
  return [
    ...compared.map(comparisonRow),
    boundedTime('start, new data directory', start.fresh),
    boundedTime('start, used data directory', start.used),
    boundedBytes('idle: Pss if it is alone', idle.pssAlone, bounds.idleBytes),
    { what: 'idle: Pss beside this bench', svc: toMb(idle.pss) },
    { what: 'idle: Rss', svc: toMb(idle.rss) },
    ...(growth ? growthRows(growth) : []),
  ]
}

function comparisonRow({ operation, svc, peer, defaults, rounds }: Result): Row {
  return {
    what: `${operation} (median of ${rounds})`,
    svc: toMs(svc),
    peer: toMs(peer),
    ratio: (svc / peer).toFixed(2),
    bound: `<= ${bounds.ratio.toFixed(2)}`,
    isKept: svc / peer <= bounds.ratio,
    ...(defaults !== undefined && {
      defaults: toMs(defaults),
      defaultsRatio: (svc / defaults).toFixed(2),
    }),
  }
}

function growthRows({ own, tree, largest }: Growth): Row[] {
  return [
    boundedBytes('push of 2 GiB: growth of svc itself', own, bounds.growthBytes),
    boundedBytes('push of 2 GiB: growth with its gits', tree, bounds.growthBytes),
    ...largest
      .slice(0, 4)
      .map(({ command, bytes }) => ({ what: `  at the peak: ${command}`, svc: toMb(bytes) })),
  ]
}

function boundedTime(what: string, ms: number): Row {
  return { what, svc: toMs(ms), bound: `< ${toMs(bounds.startMs)}`, isKept: ms < bounds.startMs }
}

function boundedBytes(what: string, bytes: number, most: number): Row {
  return { what, svc: toMb(bytes), bound: `< ${toMb(most)}`, isKept: bytes < most }
}

function toMs(ms: number): string {
  return `${ms.toFixed(ms < 100 ? 1 : 0)} ms`
}

function toMb(bytes: number): string {
  return `${(bytes / mb).toFixed(1)} MB`
}
