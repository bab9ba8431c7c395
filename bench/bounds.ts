import type { Health } from './health.ts'
import type { Footprint, Growth } from './memory.ts'
import type { Result } from './operations.ts'
import type { Row } from './table.ts'

const mb = 1e6

/** What is promised. */
const bounds = {
  ratio: 1.1,
  /** Over SSH, of what is short: sshd starts some processes for each connection, svc does not. */
  shortSshRatio: 0.5,
  /** Of an import to a clone and a check by git. */
  importRatio: 1.2,
  healthRatio: 5,
  firstStepMs: 150,
  /** Of queued runs to as many clones and bubblewraps: svc keeps a record of each step, and what it wrote. */
  queueRatio: 8,
  toReceiverMs: 50,
  deliveriesPerSecond: 1000,
  deliveryListMs: 20,
  startMs: 1000,
  idleBytes: 120 * mb,
  growthBytes: 64 * mb,
}

const short = new Set(['ls-remote', 'push of a commit'])

type Alone = {
  start: Record<'fresh' | 'used', number>
  idle: Footprint
  /** Not measured when in a hurry. */
  growth: Growth | undefined
}

export function httpRows(results: Result[]): Row[] {
  return results.map((result) => comparisonRow(result, 'HTTP', bounds.ratio))
}

export function sshRows(results: Result[], health: Health): Row[] {
  const boundOf = (what: string) => (short.has(what) ? bounds.shortSshRatio : bounds.ratio)
  return [
    ...results.map((result) => comparisonRow(result, 'SSH', boundOf(result.operation))),
    ...healthRows(health),
  ]
}

export function importRows(results: Result[]): Row[] {
  return results.map((result) => comparisonRow(result, 'import', bounds.importRatio))
}

export function aloneRows({ start, idle, growth }: Alone): Row[] {
  return [
    boundedTime('start, new data directory', start.fresh, bounds.startMs),
    boundedTime('start, used data directory', start.used, bounds.startMs),
    boundedBytes('idle: Pss if it is alone', idle.pssAlone, bounds.idleBytes),
    { what: 'idle: Pss beside this bench', svc: toMb(idle.pss) },
    { what: 'idle: Rss', svc: toMb(idle.rss) },
    ...(growth ? growthRows(growth) : []),
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
    comparisonRow(queue, 'workflows', bounds.queueRatio),
    comparisonRow(result, 'workflows', undefined),
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
  const perSecond = (ms: number) => (count / ms) * 1000
  return [
    boundedTime(
      `webhooks: answer of a push to its delivery (median of ${toReceiver.rounds})`,
      toReceiver.ms,
      bounds.toReceiverMs,
    ),
    comparisonRow(result, 'webhooks', undefined),
    {
      what: 'webhooks: deliveries a second',
      svc: perSecond(result.svc).toFixed(0),
      peer: perSecond(result.peer).toFixed(0),
      ratio: (result.peer / result.svc).toFixed(2),
      bound: `>= ${bounds.deliveriesPerSecond}`,
      isKept: perSecond(result.svc) >= bounds.deliveriesPerSecond,
    },
    boundedTime(
      `webhooks: first page of 100,000 deliveries (median of ${list.rounds})`,
      list.ms,
      bounds.deliveryListMs,
    ),
  ]
}

function comparisonRow(result: Result, door: string, bound: number | undefined): Row {
  const { operation, svc, peer, defaults, rounds } = result
  return {
    what: `${door}: ${operation} (median of ${rounds})`,
    svc: toMs(svc),
    ...comparedTo(peer, svc),
    ...(bound !== undefined && {
      bound: `<= ${bound.toFixed(2)}`,
      isKept: svc / peer <= bound,
    }),
    ...(defaults !== undefined && {
      defaults: toMs(defaults),
      defaultsRatio: (svc / defaults).toFixed(2),
    }),
  }
}

function healthRows({ idle, busy, beside, clones, rounds }: Health): Row[] {
  const during = `GET /health during ${clones} clones over SSH`
  return [
    { what: `GET /health, p50 (median of ${rounds})`, svc: toMs(idle.p50) },
    { what: `GET /health, p99 (median of ${rounds})`, svc: toMs(idle.p99) },
    { what: `${during}, p50`, svc: toMs(busy.p50), ...comparedTo(beside.p50, busy.p50) },
    {
      ...boundedTime(`${during}, p99`, busy.p99, idle.p99 * bounds.healthRatio),
      ...comparedTo(beside.p99, busy.p99),
    },
  ]
}

function comparedTo(peer: number, svc: number): Pick<Row, 'peer' | 'ratio'> {
  return { peer: toMs(peer), ratio: (svc / peer).toFixed(2) }
}

function growthRows(growth: Growth): Row[] {
  const { own, tree } = growth
  return [
    boundedBytes('push of 2 GiB: growth of svc itself', own, bounds.growthBytes),
    boundedBytes('push of 2 GiB: growth with its gits', tree, bounds.growthBytes),
    ...largestRows(growth),
  ]
}

function largestRows({ largest }: Growth): Row[] {
  return largest
    .slice(0, 4)
    .map(({ command, bytes }) => ({ what: `  at the peak: ${command}`, svc: toMb(bytes) }))
}

function boundedTime(what: string, ms: number, most: number): Row {
  return { what, svc: toMs(ms), bound: `<= ${toMs(most)}`, isKept: ms <= most }
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
