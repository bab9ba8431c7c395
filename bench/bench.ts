import { availableParallelism, loadavg } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { measureHugePush, measureIdle, measureStart } from './alone.ts'
import { toRows } from './bounds.ts'
import { compare, type Effort } from './comparison.ts'
import { say } from './output.ts'
import { startPeer } from './peer.ts'
import { startSubject } from './subject.ts'
import { toTable } from './table.ts'
import { createWorkspace, type Workspace } from './workspace.ts'

const usage = `Usage: npm run bench -- [--quick]

Compares svc with git http-backend behind nginx and fcgiwrap, and measures its start and its memory. The run
takes about five minutes; with --quick one, without the push of 2 GiB. It ends with 1 when a bound is not kept
and with 2 when it could not measure. Other work on the machine slows down svc and its peer alike, but not
always alike enough: measure again before you believe a narrow result.
`

const thorough = {
  effort: {
    listings: 150,
    fetches: 150,
    clones: 25,
    smallPushes: 60,
    bigPushes: 9,
    bigPushMib: 256,
    seconds: 75,
  },
  starts: 9,
  hasHugePush: true,
  limitMs: 12 * 60_000,
}

const quick: typeof thorough = {
  effort: {
    listings: 20,
    fetches: 20,
    clones: 8,
    smallPushes: 12,
    bigPushes: 3,
    bigPushMib: 256,
    seconds: 15,
  },
  starts: 3,
  hasHugePush: false,
  limitMs: 4 * 60_000,
}

const exitCodes = { kept: 0, notKept: 1, notMeasured: 2, interrupted: 130 }

const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort())

const { values } = parseArgs({ options: { quick: { type: 'boolean' }, help: { type: 'boolean' } } })
try {
  if (values.help) say(usage)
  else process.exitCode = await bench(values.quick ? quick : thorough)
} catch (error) {
  say(stop.signal.aborted ? 'Stopped; all that was started is gone.' : String(error))
  process.exitCode = stop.signal.aborted ? exitCodes.interrupted : exitCodes.notMeasured
}

async function bench({ effort, starts, hasHugePush, limitMs }: typeof thorough): Promise<number> {
  // A server that hangs must not hang the bench.
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(limitMs)])
  await using workspace = await createWorkspace(signal)
  say(`Load of the machine before: ${loadavg()[0]?.toFixed(1)} on ${availableParallelism()} cores`)
  const dataDir = join(workspace.folder, 'data')
  const compared = await compareWithPeer(workspace, dataDir, effort)
  const start = await measureStart(workspace, dataDir, starts)
  const idle = await measureIdle(workspace, dataDir)
  const growth = hasHugePush ? await measureHugePush(workspace) : undefined
  const rows = toRows({ compared, start, idle, growth })
  say(`\n${toTable(rows)}\n`)
  return rows.every(({ isKept }) => isKept !== false) ? exitCodes.kept : exitCodes.notKept
}

async function compareWithPeer(workspace: Workspace, dataDir: string, effort: Effort) {
  say('Starting git http-backend behind nginx and fcgiwrap, and svc')
  await using peer = await startPeer(workspace)
  await using subject = await startSubject({ dataDir })
  const hosts = { svc: subject.host, peer: peer.durable, defaults: peer.defaults }
  const compared = await compare(workspace, hosts, effort)
  await subject.stop()
  return compared
}
