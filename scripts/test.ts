import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Job, type Suite, suites, toJobs } from '../test/command/jobs.ts'
import { createReport } from '../test/command/report.ts'
import { runJobs } from '../test/command/worker-pool.ts'
import { globalSetup, globalTeardown } from '../test/support/global-setup.ts'

const root = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '')
const durationsFile = join(root, 'node_modules/.cache/svc-test-durations.json')

// In the first run of a checkout.
const usualDurationsMs = { 'test/faults/': 60_000, 'test/contract/': 30_000, 'test/': 5000 }

// Runs a suite of tests: `node scripts/test.ts quick|rest|unit [file or folder …]`.
const [name, ...paths] = process.argv.slice(2)
const suite = suites.find((known) => known === name)
if (!suite) throw new Error(`The first argument is one of: ${suites.join(', ')}.`)
// Node would read these certificates in each of thousands of processes.
delete process.env.NODE_EXTRA_CA_CERTS
process.exitCode = (await runSuite(suite)) ? 0 : 1

async function runSuite(suite: Suite): Promise<boolean> {
  const jobs = longestFirst(toJobs(root, suite, paths))
  if (jobs.length === 0) throw new Error('No file of this suite is at these paths.')
  await globalSetup(jobs.some(({ environment }) => environment.store === 'shared'))
  const report = createReport(jobs.length, process.stdout)
  // Tests wait for disks, sockets and timers half of their time.
  const concurrency = 4 + 2 * availableParallelism()
  try {
    await runJobs(jobs, { concurrency, root, observer: report, signal: interruption() })
  } finally {
    await globalTeardown()
  }
  remember(report.durations())
  return report.end()
}

/** Aborted when the command shall end early, as by Ctrl-C. */
function interruption(): AbortSignal {
  const controller = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => controller.abort())
  return controller.signal
}

/** Starts long jobs early, so that no long one is the last, by what they took before. */
function longestFirst(jobs: Job[]): Job[] {
  const durations = readDurations()
  const usualMs = (path: string) =>
    Object.entries(usualDurationsMs).find(([folder]) => path.startsWith(folder))?.[1] ?? 500
  const expectedMs = ({ path }: Job) => durations[path] ?? usualMs(path)
  return jobs.sort((one, two) => expectedMs(two) - expectedMs(one))
}

function readDurations(): Record<string, number> {
  try {
    return JSON.parse(readFileSync(durationsFile, 'utf8'))
  } catch {
    // The first run.
    return {}
  }
}

function remember(durations: Map<Job, number>): void {
  const all = readDurations()
  for (const [{ path }, durationMs] of durations) all[path] = Math.round(durationMs)
  mkdirSync(dirname(durationsFile), { recursive: true })
  writeFileSync(durationsFile, JSON.stringify(all))
}
