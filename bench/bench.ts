import { availableParallelism, cpus, loadavg, totalmem } from 'node:os'
import { parseArgs } from 'node:util'
import { measureAgainst } from './against-part.ts'
import { clientCores, goWhereClientsRun, serverCores } from './cores.ts'
import { countsCpu } from './enclosure.ts'
import { makeFixtures } from './fixtures.ts'
import { measureAsItGrows } from './growth-part.ts'
import { say } from './output.ts'
import {
  measureAlone,
  measureImports,
  measureOverHttp,
  measureOverSsh,
  measureUnderLoad,
  measureWebhooks,
  measureWorkflows,
} from './parts.ts'
import { measureStorms } from './storm-part.ts'
import { type Row, toTable } from './table.ts'
import { measureOnWire } from './wire-part.ts'
import { createWorkspace, type Workspace } from './workspace.ts'

const usage = `Usage: npm run bench -- [--quick] [--only wire|storm|http|ssh|load|growth|import|workflows|webhooks]
       npm run bench -- [--quick] --against DIRECTORY

Compares svc with git http-backend behind nginx and fcgiwrap and below Apache, with git daemon, with Debian's sshd and
git-shell, and with a server that knows its answers beforehand; its imports with a clone and a check by git, its runs
of workflows with bubblewrap alone, its deliveries to webhooks with a client that only sends; and measures its start
and its memory. With --against it compares svc with another checkout of svc alone: what a change costs.
docs/performance.md explains the table.
The run takes about twenty-five minutes; with --quick six, without the push of 2 GiB; with --only just one of the
parts. It ends with 1 when a bound is not kept and with 2 when it could not
measure. Other work on the machine slows down svc and its peer alike, but not always alike enough: measure again
before you believe a narrow result.
`

const thorough = {
  storm: { storms: 5, clones: 25, shallowMs: 1000, seconds: 90 },
  wire: { rounds: 5, ms: 2000, seconds: 60 },
  http: { listings: 150, fetches: 150, clones: 25, smallPushes: 60, bigPushes: 9, seconds: 75 },
  ssh: { listings: 60, clones: 25, smallPushes: 40, bigClones: 9, seconds: 60 },
  load: { rounds: 5 },
  growth: { repositories: 10_000, refs: 100_000, rounds: 9, ms: 1000, seconds: 60 },
  imports: { imports: 15, seconds: 60 },
  workflows: { firstSteps: 60, queues: 4, outputs: 4, seconds: 60 },
  webhooks: { toReceivers: 60, deliveries: 6, lists: 40, seconds: 60 },
  alone: { starts: 9, hasHugePush: true },
  against: { wire: { rounds: 15, ms: 1000 }, commands: 60, bigPushes: 9, seconds: 90 },
  limitMs: 45 * 60_000,
}

type Effort = typeof thorough

const quick: Effort = {
  storm: { storms: 1, clones: 8, shallowMs: 500, seconds: 20 },
  wire: { rounds: 3, ms: 500, seconds: 15 },
  http: { listings: 20, fetches: 20, clones: 8, smallPushes: 12, bigPushes: 3, seconds: 15 },
  ssh: { listings: 20, clones: 8, smallPushes: 12, bigClones: 3, seconds: 15 },
  load: { rounds: 2 },
  growth: { repositories: 1000, refs: 100_000, rounds: 5, ms: 400, seconds: 20 },
  imports: { imports: 5, seconds: 20 },
  workflows: { firstSteps: 15, queues: 1, outputs: 1, seconds: 20 },
  webhooks: { toReceivers: 20, deliveries: 2, lists: 15, seconds: 20 },
  alone: { starts: 3, hasHugePush: false },
  against: { wire: { rounds: 7, ms: 500 }, commands: 20, bigPushes: 3, seconds: 20 },
  limitMs: 20 * 60_000,
}

const parts = [
  'wire',
  'storm',
  'http',
  'ssh',
  'load',
  'growth',
  'import',
  'workflows',
  'webhooks',
] as const
type Part = (typeof parts)[number]

/** Parts that share repositories, which take a while to create. */
const withFixtures = new Set<Part>(['wire', 'storm', 'http', 'ssh', 'growth', 'import'])

const exitCodes = { kept: 0, notKept: 1, notMeasured: 2, interrupted: 130 }

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
  if (values.help) say(usage)
  else process.exitCode = await bench(values.quick ? quick : thorough, toChoice(values))
} catch (error) {
  say(stop.signal.aborted ? 'Interrupted; all processes are stopped.' : String(error))
  process.exitCode = stop.signal.aborted ? exitCodes.interrupted : exitCodes.notMeasured
}

async function bench(effort: Effort, { against, chosen }: Choice) {
  // A server that hangs must not hang the bench.
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(effort.limitMs)])
  await using workspace = await createWorkspace(signal)
  sayWhere()
  await goWhereClientsRun()
  const rows =
    against === undefined
      ? await measureParts(workspace, effort, chosen)
      : await measureBeside(workspace, effort, against)
  say(`\n${toTable(rows)}\n`)
  const notKept = rows.filter(({ isKept }) => isKept === false)
  if (notKept.length === 0) return exitCodes.kept
  say(`Not kept:\n${notKept.map(({ what }) => `- ${what}`).join('\n')}`)
  return exitCodes.notKept
}

async function measureBeside(workspace: Workspace, effort: Effort, directory: string) {
  const fixtures = await makeFixtures(workspace, effort.against.commands + 1)
  return measureAgainst(workspace, fixtures, { directory, ...effort.against })
}

async function measureParts(workspace: Workspace, effort: Effort, chosen: Part[]): Promise<Row[]> {
  const ofGit = chosen.filter((part) => withFixtures.has(part))
  return [
    ...(ofGit.length > 0 ? await measureGit(workspace, effort, ofGit) : []),
    ...(chosen.includes('load') ? await measureUnderLoad(workspace, effort.load) : []),
    ...(chosen.includes('workflows') ? await measureWorkflows(workspace, effort.workflows) : []),
    ...(chosen.includes('webhooks') ? await measureWebhooks(workspace, effort.webhooks) : []),
  ]
}

function sayWhere(): void {
  const memory = `${(totalmem() / 2 ** 30).toFixed(0)} GiB`
  say(`On ${availableParallelism()} cores of ${cpus()[0]?.model} with ${memory} of memory`)
  say(`Load before: ${loadavg()[0]?.toFixed(1)}`)
  say(`Servers run on cores ${serverCores}, clients on cores ${clientCores}`)
  if (!countsCpu())
    say('No control group can be created here: the CPU time of servers is not counted')
}

async function measureGit(workspace: Workspace, effort: Effort, chosen: Part[]): Promise<Row[]> {
  const { http, ssh, imports, alone } = effort
  const fixtures = await makeFixtures(workspace, Math.max(http.smallPushes, ssh.smallPushes) + 1)
  return [
    ...(chosen.includes('wire') ? await measureOnWire(workspace, fixtures, effort.wire) : []),
    ...(chosen.includes('storm') ? await measureStorms(workspace, fixtures, effort.storm) : []),
    ...(chosen.includes('http') ? await measureOverHttp(workspace, fixtures, http) : []),
    ...(chosen.includes('ssh') ? await measureOverSsh(workspace, fixtures, ssh) : []),
    ...(chosen.includes('growth')
      ? await measureAsItGrows(workspace, fixtures, effort.growth)
      : []),
    ...(chosen.includes('import') ? await measureImports(workspace, fixtures, imports) : []),
    ...(chosen.includes('http') && chosen.length > 1 ? await measureAlone(workspace, alone) : []),
  ]
}

/** The parts to measure, or another checkout to compare with. */
type Choice = { against: string | undefined; chosen: Part[] }

function toChoice({ only, against }: { only?: string; against?: string }): Choice {
  if (only !== undefined && against !== undefined)
    throw new Error('--against cannot be combined with --only.')
  return { against, chosen: toParts(only) }
}

function toParts(only: string | undefined): Part[] {
  if (only === undefined) return [...parts]
  const part = parts.find((one) => one === only)
  if (part) return [part]
  throw new Error(`--only takes ${parts.join(', ')}; not ${only}.`)
}
