import { type ChildProcess, spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { extname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type RunnerConfiguration, toSandboxOptions } from '#actions/runner/runner-configuration.ts'
import { createBackoff } from '#base/concurrency/backoff.ts'
import type { Log } from '#base/log.ts'
import type { Sensitive } from '#base/sensitive.ts'
import type { Settings } from '#config/settings.ts'

/**
 * Supervises the server's own runner process. The process starts with the first run, exits when it
 * has been idle for long, and is restarted when it exits in any other way.
 */
export type RunnerProcess = {
  /** Starts the process if it is not running. Called when a run is queued. */
  wake: () => void
  /** Stops the process: it hands back its runs and exits, or is killed after the timeout. */
  stop: (timeoutMs: number) => Promise<void>
  /** Kills the process, when the server is about to exit. */
  abandon: () => void
  /** The process id; undefined while none is running. */
  pid: () => number | undefined
}

type Options = {
  /** The address of the server on this machine. */
  url: string
  /** Identifies the server's own runner to the server. */
  token: Sensitive<string>
  settings: Settings
  log: Log
  /** The PATH of the process. */
  path: string
  version: string
  /** Called when the process has exited unexpectedly; its runs are lost. */
  onEnd: () => Promise<void>
}

const program = fileURLToPath(
  new URL(`../../runner-main${extname(import.meta.url)}`, import.meta.url),
)
// For display only: the server identifies its runner by the token.
const runnerName = 'local'

const idleMs = 5 * 60_000
const restartBackoff = { firstMs: 1000, maxMs: 60_000 }
// A process that ran this long did not fail to start.
const healthyAfterMs = 60_000
const killAfterMs = 2000
const maxSemiSpaceMib = 4

/** The folder in which a server's own runner works. */
function runnerFolder(dataDir: string): string {
  return join(dataDir, 'runner')
}

export function createRunnerProcess(options: Options): RunnerProcess {
  const { settings, log, path, onEnd } = options
  let current: { child: ChildProcess; ended: Promise<void> } | undefined
  let isStopping = false
  let isPausing = false
  let lastWakeAt = 0
  const backoff = createBackoff(restartBackoff)

  function start(): void {
    const startedAt = performance.now()
    // Detached, so that Ctrl-C reaches only the main process.
    const child = spawn(process.execPath, [`--max-semi-space-size=${maxSemiSpaceMib}`, program], {
      env: { PATH: path },
      stdio: ['pipe', 'ignore', 'inherit'],
      cwd: '/',
      detached: true,
    })
    const ended = waitForExit(child).then(async (exit) => {
      current = undefined
      if (isStopping) return
      // No new process may start before the runs of this one are taken back.
      isPausing = true
      await onEnd().catch((error) =>
        log.error({ err: error }, 'taking back the runs of the runner failed'),
      )
      const isIdle = exit.exitCode === 0
      if (!isIdle) log.error(exit, 'runner exited unexpectedly; restarting')
      const wasHealthy = isIdle || performance.now() - startedAt > healthyAfterMs
      if (wasHealthy) backoff.reset()
      // A wake-up may have arrived while the process was exiting.
      const isNeeded = !isIdle || performance.now() - lastWakeAt < idleMs / 2
      if (isNeeded) await sleep(backoff.nextMs(), undefined, { ref: false })
      isPausing = false
      if (isNeeded && !isStopping) start()
    })
    current = { child, ended }
    child.stdin.on('error', () => {}) // The process has exited, which `waitForExit` handles.
    child.stdin.write(`${JSON.stringify(toOrders(options))}\n`)
  }

  return {
    wake() {
      lastWakeAt = performance.now()
      if (settings.runner && !isStopping && !isPausing && !current) start()
    },

    async stop(timeoutMs) {
      isStopping = true
      if (!current) return
      const { child, ended } = current
      child.kill('SIGTERM')
      using _kill = setTimeout(() => child.kill('SIGKILL'), timeoutMs + killAfterMs)
      await ended
    },

    abandon() {
      isStopping = true
      current?.child.kill('SIGKILL')
    },

    pid: () => current?.child.pid,
  }
}

/** The configuration that the process reads from its standard input. */
export function toOrders({ url, token, settings, path, version }: Options): RunnerConfiguration {
  return {
    server: url,
    token: token.reveal(),
    name: runnerName,
    labels: [],
    folder: runnerFolder(settings.dataDir),
    jobs: settings.runnerJobs ?? availableParallelism(),
    sandbox: toSandboxOptions(settings),
    failedWorkspaceMs: settings.failedWorkspaceSeconds * 1000,
    idleMs,
    path,
    version,
    logLevel: settings.logLevel,
  }
}

type Exit = { exitCode: number | null; signal: NodeJS.Signals | null; err?: Error }

function waitForExit(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve) => {
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }))
    // Emitted when the process could not be spawned.
    child.once('error', (err) => resolve({ exitCode: null, signal: null, err }))
  })
}
