import { availableParallelism, cpus, loadavg, totalmem } from 'node:os'
import { parseArgs } from 'node:util'
import { againstParts, measureAgainst } from './against.ts'
import { measureBrowsing } from './browse.ts'
import type { HistorySize } from './browse-history.ts'
import { measureClones } from './clones.ts'
import { type Fixtures, makeFixtures } from './fixtures.ts'
import { measureGrowth } from './growth.ts'
import { measureHttp } from './http.ts'
import { measureImports } from './import.ts'
import { clientCores, countsCpu, moveToClientCores, serverCores } from './isolation.ts'
import { measureLfs } from './lfs.ts'
import { measureLoad } from './load.ts'
import { measureMemory } from './memory.ts'
import { measureNodes } from './nodes.ts'
import { measurePages } from './pages.ts'
import { print, printRows } from './print.ts'
import { measureQueue } from './queue.ts'
import { type Row, verdictOf } from './rows.ts'
import { measureSlowPages } from './slow-pages.ts'
import { measureSsh } from './ssh.ts'
import { measureStart } from './start.ts'
import { measureWebhooks } from './webhooks.ts'
import { measureWire } from './wire.ts'
import { measureWorkflows } from './workflows.ts'
import { createWorkspace, type Workspace } from './workspace.ts'

const complete = {
  wire: { rounds: 5, ms: 2000, seconds: 60 },
  clones: { storms: 5, clones: 25, shallowMs: 1000, seconds: 90 },
  http: { listings: 150, fetches: 150, clones: 25, smallPushes: 60, bigPushes: 9, seconds: 75 },
  ssh: { listings: 60, clones: 25, smallPushes: 40, bigClones: 9, seconds: 60 },
  lfs: { transfers: 7, seconds: 60 },
  load: { rounds: 5 },
  growth: { repositories: 10_000, refs: 100_000, rounds: 9, ms: 1000, seconds: 60 },
  import: { imports: 15, seconds: 60 },
  workflows: { firstSteps: 60, queues: 4, outputs: 4, restores: 6, seconds: 60 },
  queue: { changes: 200, alone: 8, rounds: 1, seconds: 300 },
  webhooks: { toReceivers: 60, deliveries: 6, lists: 40, seconds: 60 },
  nodes: {
    listings: 60,
    fetches: 40,
    clones: 9,
    smallPushes: 60,
    bigPushes: 5,
    packs: 100,
    seconds: 60,
  },
  browse: { size: 'large' as HistorySize, rounds: 9, requests: 8, commits: 30, seconds: 45 },
  pages: { size: 'large' as HistorySize, rounds: 9, requests: 8, seconds: 30 },
  start: { starts: 9 },
  memory: { hasHugePush: true },
  against: { wire: { rounds: 15, ms: 1000 }, commands: 60, bigPushes: 9, starts: 15, seconds: 90 },
  limitMs: 45 * 60_000,
}

type Efforts = typeof complete

const quick: Efforts = {
  wire: { rounds: 3, ms: 500, seconds: 15 },
  clones: { storms: 1, clones: 8, shallowMs: 500, seconds: 20 },
  http: { listings: 20, fetches: 20, clones: 8, smallPushes: 12, bigPushes: 3, seconds: 15 },
  ssh: { listings: 20, clones: 8, smallPushes: 12, bigClones: 3, seconds: 15 },
  lfs: { transfers: 3, seconds: 20 },
  load: { rounds: 2 },
  growth: { repositories: 1000, refs: 100_000, rounds: 5, ms: 400, seconds: 20 },
  import: { imports: 5, seconds: 20 },
  workflows: { firstSteps: 15, queues: 1, outputs: 1, restores: 2, seconds: 20 },
  queue: { changes: 60, alone: 3, rounds: 1, seconds: 60 },
  webhooks: { toReceivers: 20, deliveries: 2, lists: 15, seconds: 20 },
  nodes: {
    listings: 20,
    fetches: 12,
    clones: 5,
    smallPushes: 15,
    bigPushes: 2,
    packs: 30,
    seconds: 20,
  },
  browse: { size: 'small', rounds: 3, requests: 4, commits: 8, seconds: 10 },
  pages: { size: 'small', rounds: 3, requests: 4, seconds: 10 },
  start: { starts: 3 },
  memory: { hasHugePush: false },
  against: { wire: { rounds: 7, ms: 500 }, commands: 20, bigPushes: 3, starts: 5, seconds: 20 },
  limitMs: 20 * 60_000,
}

type Bench = {
  workspace: Workspace
  efforts: Efforts
  /** Repositories that several parts share, created by the first of them. */
  fixtures: () => Promise<Fixtures>
}

/** The parts in their order; each returns its rows. */
const parts = {
  wire: async ({ workspace, fixtures, efforts }: Bench) =>
    measureWire(workspace, await fixtures(), efforts.wire),
  clones: async ({ workspace, fixtures, efforts }: Bench) =>
    measureClones(workspace, await fixtures(), efforts.clones),
  http: async ({ workspace, fixtures, efforts }: Bench) =>
    measureHttp(workspace, await fixtures(), efforts.http),
  ssh: async ({ workspace, fixtures, efforts }: Bench) =>
    measureSsh(workspace, await fixtures(), efforts.ssh),
  lfs: ({ workspace, efforts }: Bench) => measureLfs(workspace, efforts.lfs),
  load: ({ workspace, efforts }: Bench) => measureLoad(workspace, efforts.load),
  growth: async ({ workspace, fixtures, efforts }: Bench) =>
    measureGrowth(workspace, await fixtures(), efforts.growth),
  import: async ({ workspace, fixtures, efforts }: Bench) =>
    measureImports(workspace, await fixtures(), efforts.import),
  workflows: ({ workspace, efforts }: Bench) => measureWorkflows(workspace, efforts.workflows),
  queue: ({ workspace, efforts }: Bench) => measureQueue(workspace, efforts.queue),
  webhooks: ({ workspace, efforts }: Bench) => measureWebhooks(workspace, efforts.webhooks),
  nodes: async ({ workspace, fixtures, efforts }: Bench) =>
    measureNodes(workspace, await fixtures(), efforts.nodes),
  browse: ({ workspace, efforts }: Bench) => measureBrowsing(workspace, efforts.browse),
  pages: async ({ workspace, efforts }: Bench) => [
    ...(await measurePages(workspace, efforts.pages)),
    ...(await measureSlowPages(workspace)),
  ],
  start: ({ workspace, efforts }: Bench) => measureStart(workspace, efforts.start),
  memory: ({ workspace, efforts }: Bench) => measureMemory(workspace, efforts.memory),
}

const usage = `Usage: npm run bench -- [--quick] [--only ${Object.keys(parts).join('|')}]
       npm run bench -- [--quick] [--only ${againstParts.join('|')}] --against DIRECTORY

Compares svc with other Git servers, or with --against with another checkout of svc: the cost of a change. It takes
about 25 minutes, with --quick about six. docs/performance.md explains the table.

Exit code: 0 when all bounds hold, even if targets are not reached; 1 when a bound is exceeded; 2 when it could not
measure.
`

const exitCodes = { ok: 0, exceeded: 1, notMeasured: 2, interrupted: 130 }

const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort())

try {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean' },
      only: { type: 'string' },
      against: { type: 'string' },
      help: { type: 'boolean' },
    },
  })
  if (values.help) print(usage)
  else process.exitCode = await bench(values.quick ? quick : complete, toMeasurement(values))
} catch (error) {
  print(stop.signal.aborted ? 'Interrupted; all processes are stopped.' : String(error))
  process.exitCode = stop.signal.aborted ? exitCodes.interrupted : exitCodes.notMeasured
}

async function bench(efforts: Efforts, measure: (bench: Bench) => Promise<Row[]>) {
  // A server that hangs must not hang the bench.
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(efforts.limitMs)])
  await using workspace = await createWorkspace(signal)
  printMachine()
  await moveToClientCores()
  let made: Promise<Fixtures> | undefined
  const fixtures = () => {
    made ??= makeFixtures(workspace, mostPushes(efforts) + 1)
    return made
  }
  const rows = await measure({ workspace, efforts, fixtures })
  printRows(rows)
  const isExceeded = rows.some((row) => verdictOf(row) === 'BOUND EXCEEDED')
  return isExceeded ? exitCodes.exceeded : exitCodes.ok
}

/** Each push of a small commit needs a commit of its own, and so does each clone that must not be cached. */
function mostPushes({ http, ssh, clones, nodes, against }: Efforts): number {
  return Math.max(nodes.packs, http.smallPushes, ssh.smallPushes, clones.clones, against.commands)
}

function printMachine(): void {
  const memory = `${(totalmem() / 2 ** 30).toFixed(0)} GiB`
  print(`On ${availableParallelism()} cores of ${cpus()[0]?.model} with ${memory} of memory`)
  print(`Load before: ${loadavg()[0]?.toFixed(1)}`)
  print(`Servers run on cores ${serverCores}, clients on cores ${clientCores}`)
  if (!countsCpu())
    print('No control group can be created here: the CPU time of servers is not counted')
}

function toMeasurement({ only, against: directory }: { only?: string; against?: string }) {
  if (directory !== undefined) {
    const chosen = choose(againstParts, only)
    return ({ workspace, fixtures, efforts }: Bench) =>
      measureAgainst(workspace, fixtures, { directory, parts: chosen, ...efforts.against })
  }
  // `Object.keys` loses the type of the keys.
  const chosen = choose(Object.keys(parts) as (keyof typeof parts)[], only)
  return async (bench: Bench) => {
    const rows: Row[] = []
    for (const part of chosen) rows.push(...(await parts[part](bench)))
    return rows
  }
}

function choose<Part extends string>(all: readonly Part[], only: string | undefined): Part[] {
  if (only === undefined) return [...all]
  const part = all.find((one) => one === only)
  if (part) return [part]
  throw new Error(`--only takes ${all.join(', ')}; not ${only}.`)
}
