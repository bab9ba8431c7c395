import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { usualPushBody } from '../test/support/raw-git.ts'
import { evenSizes, makeBulk, makeProject } from './fixtures.ts'
import { publish } from './git-commands.ts'
import { startWatcher } from './load-watcher.ts'
import { median, percentile } from './measure.ts'
import { installPeer, startHttpPeer } from './peers.ts'
import { print } from './print.ts'
import { type Row, type RowName, timeRow } from './rows.ts'
import { type Svc, startSvc } from './svc.ts'
import { cloneRequest, startWireClient, type Target } from './wire-client.ts'
import type { Workspace } from './workspace.ts'

/** In ms. */
type Latency = { p50: number; p99: number }

/** The latency of one request: in each round, or the median of the rounds. */
type Latencies<T> = {
  idle: T
  /** While svc serves clones and pushes. */
  busy: T
  /** While the peer serves the same clones and svc is idle: the effect of the load of the machine alone. */
  beside: T
  /** During many clones on the wire, without pushes. */
  storm: T
}

const watched = [
  { path: '/health', p50: 'load: GET /health, p50', p99: 'load: GET /health, p99' },
  { path: '/repos', p50: 'load: GET /repos, p50', p99: 'load: GET /repos, p99' },
] as const satisfies { path: string; p50: RowName; p99: RowName }[]

const bulkMib = 64
const clones = 8
const loadMs = 4000
const stormClones = 32
const pushesPerSecond = 10
/** The branch that is pushed; the digits count. */
const pushedName = 'load-00000'
const idleMs = 4000

/** Measures the latency of short requests to svc, alternately idle and under load. */
export async function measureLoad(
  workspace: Workspace,
  { rounds }: { rounds: number },
): Promise<Row[]> {
  const bulk = await makeBulk(workspace, { name: 'load', sizes: evenSizes(bulkMib) })
  const small = await makeProject(workspace, 'small', { 'readme.txt': 'Hello\n' })
  print('Starting git http-backend behind nginx and fcgiwrap, and svc')
  await using peer = await startHttpPeer(workspace, await installPeer('http'))
  await using svc = await startSvc({ dataDir: join(workspace.folder, 'data-load') })
  await publish(workspace, svc.host, bulk)
  await publish(workspace, peer.durable, bulk)
  await publish(workspace, svc.host, small)
  const pusher = createPusher(svc.target(small.name), await usualPushBody(small.path, pushedName))
  const tip = (await workspace.git(['-C', bulk.path, 'rev-parse', bulk.ref])).output
  await using client = startWireClient()
  // On the wire: clients of git would take more CPU time than the server, and here on its cores.
  const clone = (target: Target, connections: number, ms: number) =>
    client.run(target, { connections, ms, requests: [cloneRequest(tip)] })
  const measured = await measureLatencies(workspace, {
    svc,
    pusher,
    rounds,
    clone: () => clone(svc.target(bulk.name), clones, loadMs),
    cloneFromPeer: () => clone(peer.target(bulk.name), clones, loadMs),
    storm: () => clone(svc.target(bulk.name), stormClones, 0),
  })
  await svc.stop()
  return [
    ...watched.flatMap(({ p50, p99 }, index) => [
      latencyRow(p50, 'p50', measured[index], rounds),
      latencyRow(p99, 'p99', measured[index], rounds),
    ]),
    stormRow(measured[0], rounds),
    { name: 'load: rejected pushes', unit: 'count', values: { svc: pusher.counts.rejected } },
    { name: '  of', unit: 'count', values: { svc: pusher.counts.all } },
  ]
}

type LatencyOptions = {
  svc: Svc
  pusher: ReturnType<typeof createPusher>
  rounds: number
  /** Clones one after the other over several connections. */
  clone: () => Promise<unknown>
  cloneFromPeer: () => Promise<unknown>
  /** Many clones at once. */
  storm: () => Promise<unknown>
}

async function measureLatencies(
  workspace: Workspace,
  { svc, pusher, rounds, clone, cloneFromPeer, storm }: LatencyOptions,
): Promise<Latencies<Latency[]>[]> {
  const { signal } = workspace
  print(`Measuring: requests during ${clones} clones and ${pushesPerSecond} pushes a second`)
  await using watchers = new AsyncDisposableStack()
  const started = watched.map(({ path }) =>
    watchers.use(startWatcher(svc.url + path, svc.adminToken, signal)),
  )
  const during = (works: Promise<unknown>[]) =>
    Promise.all(started.map((watcher) => watcher.during(works)))
  const measured = watched.map(noLatencies)
  // Round 0 warms up.
  for (let round = 0; round <= rounds; round++) {
    const idle = await during([pause(idleMs, undefined, { signal })])
    const busy = await pusher.during(() => during([clone()]))
    const beside = await during([cloneFromPeer()])
    await workspace.sync()
    const stormy = await during([storm()])
    if (round === 0) continue
    for (const [index, of] of measured.entries()) {
      of.idle.push(toLatency(idle[index]))
      of.busy.push(toLatency(busy[index]))
      of.beside.push(toLatency(beside[index]))
      of.storm.push(toLatency(stormy[index]))
    }
  }
  return measured
}

function noLatencies(): Latencies<Latency[]> {
  return { idle: [], busy: [], beside: [], storm: [] }
}

function latencyRow(
  name: RowName,
  measure: keyof Latency,
  { idle, busy, beside } = noLatencies(),
  rounds: number,
): Row {
  const middle = (latencies: Latency[]) => median(latencies.map((one) => one[measure]))
  const values = { svc: middle(busy), idle: middle(idle), peer: middle(beside) }
  return timeRow(name, { values, rounds })
}

function stormRow({ idle, storm } = noLatencies(), rounds: number): Row {
  const middle = (latencies: Latency[]) => median(latencies.map(({ p99 }) => p99))
  const values = { svc: middle(storm), idle: middle(idle) }
  return timeRow('load: GET /health during 32 clones, p99', { values, rounds })
}

/** Pushes new branches at a fixed rate during other work, without waiting for earlier pushes. */
function createPusher(target: Target, body: Buffer) {
  const at = body.indexOf(pushedName)
  const counts = { all: 0, rejected: 0 }

  async function push(): Promise<void> {
    const own = Buffer.from(body)
    own.write(String(++counts.all).padStart(5, '0'), at + pushedName.length - 5, 'latin1')
    const response = await fetch(`${target.url}/git-receive-pack`, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-git-receive-pack-request',
        ...(target.authorization && { authorization: target.authorization }),
      },
      body: new Uint8Array(own),
    })
    const report = await response.text()
    if (response.status === 503) {
      counts.rejected += 1
      return
    }
    if (!report.includes(`ok refs/heads/`)) throw new Error(`A push failed: ${report}`)
  }

  return {
    counts,

    async during<T>(work: () => Promise<T>): Promise<T> {
      const pushes: Promise<void>[] = []
      const begin = () => {
        const pushing = push()
        // A failure is thrown where all are awaited.
        pushing.catch(() => {})
        pushes.push(pushing)
      }
      const timer = setInterval(begin, 1000 / pushesPerSecond)
      try {
        return await work()
      } finally {
        clearInterval(timer)
        await Promise.all(pushes)
      }
    },
  }
}

function toLatency(latencies: number[] = []): Latency {
  return { p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99) }
}
