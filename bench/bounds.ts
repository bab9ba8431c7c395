import { type Load, loadClones, loadPushes } from './load.ts'
import type { Footprint, Growth } from './memory.ts'
import type { Result } from './operations.ts'
import {
  boundedBytes,
  boundedTime,
  comparison,
  idleRows,
  largestRows,
  type Medians,
  perSecond,
  timeRow,
  toMs,
} from './rows.ts'
import { type Storm, stormSize } from './storm.ts'
import type { Row } from './table.ts'
import type { Sample, WireResult } from './wire.ts'

const mb = 1e6

/** The bounds that svc must meet. Ratios are of svc to its peer. */
const bounds = {
  ratio: 1.1,
  /** To another checkout of svc. */
  againstRatio: 1.03,
  /** For short operations over HTTP: most of the time is the client's own. */
  http: {
    'ls-remote': 1 / 1.25,
    'fetch, nothing new': 1 / 1.25,
    'push of a commit': 1 / 1.3,
    'push of a commit into 100,000 refs': 1 / 2,
  } as Record<string, number>,
  toStaticReply: 1.1,
  load: { mostMs: 5, mostRatio: 5 },
  /** For short operations over SSH: sshd starts processes for each connection, svc does not. */
  shortSshRatio: 1 / 3,
  /** Of an import to a clone and a check by git. */
  importRatio: 1.2,
  firstStepMs: 150,
  /** Of queued runs to as many clones and bubblewraps: svc also records each step and its output. */
  queueRatio: 8,
  toReceiverMs: 50,
  deliveriesPerSecond: 1000,
  deliveryListMs: 20,
  startMs: 1000,
  idleBytes: 160 * mb,
  growthBytes: 64 * mb,
  storm: {
    cpu: 0.1,
    /** Relative to the time of the clients alone, with the fastest possible server. */
    toLimit: 1.15,
    fresh: 1,
    firstByte: 1 / 3,
    again: 0.1,
    heldBytes: 2 * mb,
  },
  wire: { pairs: 10, p50: 0.1, manyRefs: 5, prefix: 15, pushAdvertisement: 10 },
}

const short = new Set(['ls-remote', 'fetch, nothing new', 'push of a commit'])

type Alone = {
  start: Record<'fresh' | 'used', number>
  idle: Footprint
  /** Not measured when in a hurry. */
  growth: Growth | undefined
}

export type Wire = Record<'one' | 'eight' | 'many' | 'manyRefs' | 'prefix' | 'push', WireResult>

export function wireRows({ one, eight, many, manyRefs, prefix, push }: Wire): Row[] {
  const { pairs, p50, ...least } = bounds.wire
  return [
    comparison(`wire: ${one.what}, p50 (median of ${one.rounds})`, ofEach(one, 'p50'), {
      atMost: p50,
      show: toMs,
    }),
    ...rateRows(eight, pairs),
    ...rateRows(many, pairs),
    ...rateRows(manyRefs, least.manyRefs),
    ...rateRows(prefix, least.prefix),
    ...rateRows(push, least.pushAdvertisement),
  ]
}

export type Clones = {
  storm: Storm
  fresh: WireResult
  again: WireResult
  /** Memory for each, in bytes. */
  held: number
  packs: Record<'before' | 'after', WireResult>
}

export function stormRows({ storm, fresh, again, held, packs }: Clones): Row[] {
  const { wall, cpu, rounds } = storm
  const what = `storm: ${stormSize} clones at once (median of ${rounds})`
  const most = bounds.storm
  return [
    comparison(`${what}, server's CPU time`, toMedians(cpu), { atMost: most.cpu, show: toMs }),
    againstLimit(comparison(what, toMedians(wall), { show: toMs }), wall, most.toLimit),
    cpuRow(fresh, most.fresh),
    comparison(`storm: ${fresh.what}, first byte`, ofEach(fresh, 'firstByte'), {
      atMost: most.firstByte,
      show: toMs,
    }),
    comparison('  last byte', ofEach(fresh, 'p50'), { show: toMs }),
    cpuRow(again, most.again),
    comparison('  last byte', ofEach(again, 'p50'), { show: toMs }),
    cpuRow(packs.before),
    cpuRow(packs.after),
    boundedBytes('storm: memory for a further clone of what is kept', held, most.heldBytes),
  ]
}

export function httpRows(results: Result[]): Row[] {
  return results.flatMap((result) => [
    timeRow(result, 'HTTP', bounds.http[result.operation] ?? bounds.ratio),
    ...besideLimit(result),
  ])
}

export function sshRows(results: Result[]): Row[] {
  const boundOf = (what: string) => (short.has(what) ? bounds.shortSshRatio : bounds.ratio)
  return results.map((result) => timeRow(result, 'SSH', boundOf(result.operation)))
}

/** This checkout beside another one, its peer. */
export function againstRows({ wire, times }: { wire: WireResult[]; times: Result[] }): Row[] {
  const atMost = bounds.againstRatio
  return [
    ...wire.map((result) =>
      comparison(`wire: ${result.what} (median of ${result.rounds}), p50`, ofEach(result, 'p50'), {
        atMost,
        show: toMs,
      }),
    ),
    ...times.map((result) => timeRow(result, 'git', atMost)),
  ]
}

/** Compares svc with much data and with little. */
export function growthRows(results: WireResult[]): Row[] {
  return results.map((result) =>
    comparison(`growth: ${result.what} (median of ${result.rounds}), p50`, ofEach(result, 'p50'), {
      atMost: bounds.ratio,
      show: toMs,
    }),
  )
}

export function loadRows({ answered, rounds, pushes }: Load): Row[] {
  const during = `during ${loadClones} clones and ${loadPushes} pushes/s`
  const { mostMs, mostRatio } = bounds.load
  const show = toMs
  const rows = answered.flatMap(({ what, idle, busy, beside }) => {
    const most = Math.max(mostMs, idle.p99 * mostRatio)
    const p99 = `load: ${what} ${during}, p99`
    return [
      { what: `load: ${what}, idle, p50 (median of ${rounds})`, svc: toMs(idle.p50) },
      { what: `load: ${what}, idle, p99`, svc: toMs(idle.p99) },
      comparison(`load: ${what} ${during}, p50`, { svc: busy.p50, peer: beside.p50 }, { show }),
      {
        ...comparison(p99, { svc: busy.p99, peer: beside.p99 }, { show }),
        ...boundedTime(p99, busy.p99, most),
      },
    ]
  })
  const refused = `${pushes.refused} of ${pushes.all}`
  const isKept = pushes.refused === 0
  return [...rows, { what: 'load: pushes that were refused', svc: refused, bound: '0', isKept }]
}

export function importRows(results: Result[]): Row[] {
  return results.map((result) => timeRow(result, 'import', bounds.importRatio))
}

export function aloneRows({ start, idle, growth }: Alone): Row[] {
  return [
    boundedTime('start, new data directory', start.fresh, bounds.startMs),
    boundedTime('start, used data directory', start.used, bounds.startMs),
    ...idleRows(idle, bounds.idleBytes),
    ...(growth ? hugePushRows(growth) : []),
  ]
}

type Workflows = {
  firstStep: { ms: number; rounds: number }
  queue: Result
  output: { result: Result; growth: Growth }
}

export function workflowRows({ firstStep, queue, output: { result, growth } }: Workflows): Row[] {
  const what = `workflows: request to first step (median of ${firstStep.rounds})`
  return [
    boundedTime(what, firstStep.ms, bounds.firstStepMs),
    timeRow(queue, 'workflows', bounds.queueRatio),
    timeRow(result, 'workflows'),
    boundedBytes('1 GB of output: growth of svc itself', growth.own, bounds.growthBytes),
    ...largestRows(growth),
  ]
}

type Webhooks = {
  toReceiver: { ms: number; rounds: number }
  delivered: { result: Result; count: number }
  list: { ms: number; rounds: number }
}

export function webhookRows({ toReceiver, delivered, list }: Webhooks): Row[] {
  const { result, count } = delivered
  const rates = { svc: (count / result.svc) * 1000, peer: (count / result.peer) * 1000 }
  return [
    boundedTime(
      `webhooks: answer of a push to its delivery (median of ${toReceiver.rounds})`,
      toReceiver.ms,
      bounds.toReceiverMs,
    ),
    timeRow(result, 'webhooks'),
    {
      ...comparison('webhooks: deliveries a second', rates, { show: perSecond }),
      bound: `>= ${perSecond(bounds.deliveriesPerSecond)}`,
      isKept: rates.svc >= bounds.deliveriesPerSecond,
    },
    boundedTime(
      `webhooks: first page of 100,000 deliveries (median of ${list.rounds})`,
      list.ms,
      bounds.deliveryListMs,
    ),
  ]
}

function cpuRow(result: WireResult, atMost?: number): Row {
  const what = `storm: ${result.what} (median of ${result.rounds}), server's CPU time`
  return comparison(what, ofEach(result, 'cpu'), { atMost, show: toMs })
}

/** The bound is relative to the time of the client alone, with the fastest possible server. */
function againstLimit(row: Row, { svc = 0, limit = 0 }: Record<string, number>, most: number): Row {
  return { ...row, bound: `<= limit x ${most}`, isKept: svc <= limit * most }
}

function rateRows(result: WireResult, atLeast: number): Row[] {
  const { what, rounds } = result
  return [
    comparison(`wire: ${what} (median of ${rounds})`, ofEach(result, 'perSecond'), {
      atLeast,
      show: perSecond,
    }),
    comparison('  p50', ofEach(result, 'p50'), { show: toMs }),
    comparison('  p99', ofEach(result, 'p99'), { show: toMs }),
    comparison("  server's CPU time", ofEach(result, 'cpu'), { show: toMs }),
  ]
}

function ofEach({ of }: WireResult, measure: keyof Sample): Medians {
  return toMedians(
    Object.fromEntries(Object.entries(of).map(([name, sample]) => [name, sample[measure]])),
  )
}

function toMedians({ svc = Number.NaN, ...others }: Record<string, number>): Medians {
  return { svc, ...others }
}

/** Short operations, compared with the minimum time of a client. */
function besideLimit({ operation, svc, limit }: Result): Row[] {
  if (limit === undefined || !short.has(operation)) return []
  return [
    comparison(
      `HTTP: ${operation}, beside a static reply`,
      { svc, peer: limit },
      { atMost: bounds.toStaticReply, show: toMs },
    ),
  ]
}

function hugePushRows(growth: Growth): Row[] {
  const { own, tree } = growth
  return [
    boundedBytes('push of 2 GiB: growth of svc itself', own, bounds.growthBytes),
    boundedBytes('push of 2 GiB: growth with its gits', tree, bounds.growthBytes),
    ...largestRows(growth),
  ]
}
