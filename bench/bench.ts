import { availableParallelism, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { makeFixtures } from './fixtures.ts'
import { say } from './output.ts'
import {
  measureAlone,
  measureImports,
  measureOverHttp,
  measureOverSsh,
  measureWebhooks,
  measureWorkflows,
} from './parts.ts'
import { type Row, toTable } from './table.ts'
import { createWorkspace, type Workspace } from './workspace.ts'

const usage = `Usage: npm run bench -- [--quick] [--only http|ssh|import|workflows|webhooks]

Compares svc with git http-backend behind nginx and fcgiwrap, over SSH with Debian's sshd and git-shell, its import
with a clone and a check by git, its runs of workflows with bubblewrap alone, its deliveries to webhooks with a client
that only sends, and measures its start and its memory.
The run takes about twelve minutes; with --quick four, without the push of 2 GiB; with --only just one of the
comparisons. It ends with 1 when a bound is not kept and with 2 when it could not
measure. Other work on the machine slows down svc and its peer alike, but not always alike enough: measure again
before you believe a narrow result.
`

const thorough = {
  http: { listings: 150, fetches: 150, clones: 25, smallPushes: 60, bigPushes: 9, seconds: 75 },
  ssh: { listings: 60, clones: 25, smallPushes: 40, bigClones: 9, healths: 5, seconds: 60 },
  imports: { imports: 15, seconds: 60 },
  workflows: { firstSteps: 60, queues: 4, outputs: 4, seconds: 60 },
  webhooks: { toReceivers: 60, deliveries: 6, lists: 40, seconds: 60 },
  alone: { starts: 9, hasHugePush: true },
  limitMs: 20 * 60_000,
}

type Effort = typeof thorough

const quick: Effort = {
  http: { listings: 20, fetches: 20, clones: 8, smallPushes: 12, bigPushes: 3, seconds: 15 },
  ssh: { listings: 20, clones: 8, smallPushes: 12, bigClones: 3, healths: 2, seconds: 15 },
  imports: { imports: 5, seconds: 20 },
  workflows: { firstSteps: 15, queues: 1, outputs: 1, seconds: 20 },
  webhooks: { toReceivers: 20, deliveries: 2, lists: 15, seconds: 20 },
  alone: { starts: 3, hasHugePush: false },
  limitMs: 8 * 60_000,
}

const parts = ['http', 'ssh', 'import', 'workflows', 'webhooks'] as const
type Part = (typeof parts)[number]

const exitCodes = { kept: 0, notKept: 1, notMeasured: 2, interrupted: 130 }

const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort())

try {
  const { values } = parseArgs({
    options: { quick: { type: 'boolean' }, only: { type: 'string' }, help: { type: 'boolean' } },
  })
  if (values.help) say(usage)
  else process.exitCode = await bench(values.quick ? quick : thorough, toParts(values.only))
} catch (error) {
  say(stop.signal.aborted ? 'Stopped; all that was started is gone.' : String(error))
  process.exitCode = stop.signal.aborted ? exitCodes.interrupted : exitCodes.notMeasured
}

async function bench(effort: Effort, chosen: Part[]) {
  // A server that hangs must not hang the bench.
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(effort.limitMs)])
  await using workspace = await createWorkspace(signal)
  say(`Load of the machine before: ${loadavg()[0]?.toFixed(1)} on ${availableParallelism()} cores`)
  const ofGit = chosen.filter((part) => part !== 'workflows' && part !== 'webhooks')
  const rows = [
    ...(ofGit.length > 0 ? await measureGit(workspace, effort, ofGit) : []),
    ...(chosen.includes('workflows') ? await measureWorkflows(workspace, effort.workflows) : []),
    ...(chosen.includes('webhooks') ? await measureWebhooks(workspace, effort.webhooks) : []),
  ]
  say(`\n${toTable(rows)}\n`)
  return rows.every(({ isKept }) => isKept !== false) ? exitCodes.kept : exitCodes.notKept
}

async function measureGit(workspace: Workspace, effort: Effort, chosen: Part[]): Promise<Row[]> {
  const { http, ssh, imports, alone } = effort
  const fixtures = await makeFixtures(workspace, Math.max(http.smallPushes, ssh.smallPushes) + 1)
  return [
    ...(chosen.includes('http') ? await measureOverHttp(workspace, fixtures, http) : []),
    ...(chosen.includes('ssh') ? await measureOverSsh(workspace, fixtures, ssh) : []),
    ...(chosen.includes('import') ? await measureImports(workspace, fixtures, imports) : []),
    ...(chosen.length > 1 ? await measureAlone(workspace, alone) : []),
  ]
}

function toParts(only: string | undefined): Part[] {
  if (only === undefined) return [...parts]
  const part = parts.find((one) => one === only)
  if (part) return [part]
  throw new Error(`--only takes ${parts.join(', ')}; not ${only}.`)
}
