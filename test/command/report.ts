import type { Job } from './jobs.ts'
import type { Observer } from './worker-pool.ts'

type Failure = { path: string; name: string; error: string }

export type Report = Observer & {
  /** Prints the result; whether all tests have passed. */
  end: () => boolean
  /** How long each job took, in milliseconds. */
  durations: () => Map<Job, number>
}

const shownSlowest = 20
const printIntervalMs = 15_000
const redrawIntervalMs = 200

/** Prints the progress of tests, each failure at once, and at the end the slowest files. */
export function createReport(jobs: number, output: NodeJS.WriteStream): Report {
  const startedAt = performance.now()
  const durations = new Map<Job, number>()
  const running = new Set<Job>()
  const failures: Failure[] = []
  const skipped = new Map<string, number>()
  const isTerminal = output.isTTY === true
  let passed = 0

  const progress = () => {
    const files = `${durations.size} of ${jobs} files`
    const time = toClock(performance.now() - startedAt)
    return `${time}  ${files}, ${passed} passed, ${failures.length} failed`
  }
  // Of the jobs that run, the first has run for the longest time.
  const longest = () => [...running].slice(0, 1).map((job) => `; in ${nameOf(job)}`)
  const line = () => `${progress()}${longest().join('')}`
  const clear = isTerminal ? '\r\x1b[K' : ''
  const print = (text: string) => output.write(`${clear}${text}\n`)
  const timer = setInterval(
    () => (isTerminal ? output.write(`${clear}${line()}`) : print(line())),
    isTerminal ? redrawIntervalMs : printIntervalMs,
  )
  // What a file has printed helps to understand its failures: seeds, for instance.
  const failedJobs = new Set<Job>()

  return {
    onEvent(job, event) {
      if (event.kind === 'passed') passed++
      if (event.kind === 'skipped') skipped.set(event.reason, (skipped.get(event.reason) ?? 0) + 1)
      if (event.kind !== 'failed') return
      failedJobs.add(job)
      const failure = { path: nameOf(job), name: event.names.join(' › '), error: event.error }
      failures.push(failure)
      print(`\n✗ ${failure.path}: ${failure.name}\n${indent(failure.error)}`)
    },

    onStart: (job) => void running.add(job),

    onEnd(job, { durationMs, output }) {
      running.delete(job)
      durations.set(job, durationMs)
      if (failedJobs.has(job) && output !== '') print(`  Printed meanwhile:\n${indent(output)}`)
    },

    durations: () => durations,

    end() {
      clearInterval(timer)
      const slowest = [...durations].sort(([, one], [, two]) => two - one).slice(0, shownSlowest)
      print('\nThe slowest files:')
      for (const [job, durationMs] of slowest)
        print(`${(durationMs / 1000).toFixed(1).padStart(7)} s  ${nameOf(job)}`)
      for (const [reason, count] of skipped) print(`Skipped: ${count} (${reason})`)
      if (failures.length > 0) print('\nFailed:')
      for (const { path, name } of failures) print(`✗ ${path}: ${name}`)
      print(`\n${progress()}`)
      return failures.length === 0
    },
  }
}

function nameOf({ path, environment }: Job): string {
  return environment.store === 'shared' ? `${path} (shared store)` : path
}

function toClock(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000)
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

function indent(text: string): string {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => `    ${line}`)
    .join('\n')
}
