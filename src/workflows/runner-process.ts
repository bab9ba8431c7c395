import { type ChildProcess, spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { extname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Log } from '../base/log.ts'
import type { Sensitive } from '../base/sensitive.ts'
import type { Settings } from '../config/settings.ts'
import type { RunnerOrders } from '../runner/runner-orders.ts'
import { toSandboxOptions } from '../runner/sandbox-options.ts'

export type RunnerProcess = ReturnType<typeof createRunnerProcess>

type Options = {
  /** Where the server listens, for this machine. */
  url: string
  /** By which the server knows its own runner. */
  token: Sensitive<string>
  settings: Settings
  log: Log
  /** The environment in which the process starts. */
  environment: Record<string, string | undefined>
  /** Where programs are looked for. */
  path: string
  version: string
  /** Called when it has ended by itself: what it worked on is lost. */
  onEnd: () => Promise<void>
}

const program = fileURLToPath(new URL(`../runner-main${extname(import.meta.url)}`, import.meta.url))
// What it calls itself; the server knows it by its token.
const runnerName = 'local'

const idleMs = 5 * 60_000
const restartAfterMs = 1000
const restartMostMs = 60_000
// One that has lasted so long was no failure to start.
const soundAfterMs = 60_000
const killAfterMs = 2000
const maxYoungMib = 4

/** The folder in which a server's own runner works. */
function runnerFolder(dataDir: string): string {
  return join(dataDir, 'runner')
}

/**
 * The runner beside the server: started when there is first something to run, ends when there was nothing for
 * long, and is started again when it ends in any other way.
 */
export function createRunnerProcess(options: Options) {
  const { settings, log, environment, path, onEnd } = options
  let current: { child: ChildProcess; ended: Promise<void> } | undefined
  let isStopping = false
  let isPausing = false
  let wokenAt = 0
  let pauseMs = restartAfterMs

  function start(): void {
    const startedAt = performance.now()
    // A session of its own: Ctrl-C is for the main process.
    const child = spawn(process.execPath, [`--max-semi-space-size=${maxYoungMib}`, program], {
      env: { ...environment, PATH: path },
      stdio: ['pipe', 'ignore', 'inherit'],
      cwd: '/',
      detached: true,
    })
    const ended = untilEnd(child).then(async (how) => {
      current = undefined
      if (isStopping) return
      // Whoever wants it in the meantime must not start another: what this one had is not taken back yet.
      isPausing = true
      await onEnd().catch((error) => log.error({ err: error }, 'its runs could not be taken back'))
      const isIdle = how.exitCode === 0
      if (!isIdle) log.error(how, 'the runner ended by itself; it is started again')
      const wasSound = isIdle || performance.now() - startedAt > soundAfterMs
      pauseMs = wasSound ? restartAfterMs : Math.min(restartMostMs, pauseMs * 2)
      // Somebody may have wanted it while it was about to end.
      const isWanted = !isIdle || performance.now() - wokenAt < idleMs / 2
      if (isWanted) await sleep(pauseMs, undefined, { ref: false })
      isPausing = false
      if (isWanted && !isStopping) start()
    })
    current = { child, ended }
    child.stdin.on('error', () => {}) // It has ended, which is seen to elsewhere.
    child.stdin.write(`${JSON.stringify(toOrders(options))}\n`)
  }

  return {
    /** Tells that there is something to run. */
    wake(): void {
      wokenAt = performance.now()
      if (settings.runner && !isStopping && !isPausing && !current) start()
    },

    /** Has it hand back what it works on, and end; after a time it is ended. */
    async stop(timeoutMs: number): Promise<void> {
      isStopping = true
      if (!current) return
      const { child, ended } = current
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs + killAfterMs)
      await ended
      clearTimeout(timer)
    },

    /** Has it end at once, for a program that is about to exit. */
    abandon(): void {
      isStopping = true
      current?.child.kill('SIGKILL')
    },

    /** The id of the process; undefined while there is none. */
    pid: () => current?.child.pid,
  }
}

/** What the process is told. */
export function toOrders({ url, token, settings, path, version }: Options): RunnerOrders {
  return {
    server: url,
    token: token.reveal(),
    name: runnerName,
    labels: [],
    folder: runnerFolder(settings.dataDir),
    jobs: settings.runnerJobs ?? availableParallelism(),
    sandbox: toSandboxOptions(settings),
    idleMs,
    path,
    version,
    logLevel: settings.logLevel,
  }
}

type How = { exitCode: number | null; signal: NodeJS.Signals | null; err?: Error }

function untilEnd(child: ChildProcess): Promise<How> {
  return new Promise((resolve) => {
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }))
    // It could not be started.
    child.once('error', (err) => resolve({ exitCode: null, signal: null, err }))
  })
}
