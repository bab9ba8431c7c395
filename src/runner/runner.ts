import type { Log } from '../base/log.ts'
import type { Sensitive } from '../base/sensitive.ts'
import { orAborted } from '../base/timeouts.ts'
import { createBackoff } from '../concurrency/backoff.ts'
import { createSemaphore } from '../concurrency/semaphore.ts'
import { createTaskGroup } from '../concurrency/task-group.ts'
import { readSpace } from '../config/free-space.ts'
import { openSandbox } from '../sandbox/open-sandbox.ts'
import { createClaims } from './claims.ts'
import { executeClaim, StoppingError } from './execute-claim.ts'
import { takeFolder } from './runner-folder.ts'
import type { RunnerSandboxOptions } from './sandbox-options.ts'
import { createServerClient } from './server-client.ts'
import { toStepPath } from './step-path.ts'

export type RunnerOptions = {
  /** The address of the service. */
  server: URL
  /** A token with the permission `runner`. */
  token: Sensitive<string>
  name: string
  /** Labels for `runs-on`, besides those that every runner has. */
  labels: string[]
  /** A folder for this runner alone. */
  folder: string
  /** Jobs that are worked on at once. */
  jobs: number
  sandbox: RunnerSandboxOptions
  /** Time without a run after which the runner ends; undefined for never. */
  idleMs: number | undefined
  /** Where programs are looked for. */
  path: string
  version: string
  log: Log
  /** Ends the runner: runs that are under way are handed back to the queue. */
  signal: AbortSignal
}

const recoveryBackoff = { firstMs: 200, maxMs: 60_000 }

/**
 * Claims runs from a server and executes them, until it is told to stop or has had nothing to do for long.
 * Throws a RunnerFault when somebody has to mend something first.
 */
export async function runRunner(options: RunnerOptions): Promise<void> {
  const { server, token, name, labels, jobs, path, version, log, idleMs, signal } = options
  await using folder = await takeFolder(options.folder)
  const { mode, network, readOnlyPaths, hiddenPaths } = options.sandbox
  const { minFreeBytes: freeSpaceMinBytes } = await readSpace({
    folder: options.folder,
    minBytes: options.sandbox.freeSpaceMinBytes,
  })
  const limits = { ...options.sandbox.limits, freeSpaceMinBytes }
  const sandbox = await openSandbox({
    folder: folder.rooms,
    path,
    mode,
    network,
    readOnlyPaths,
    hiddenPaths: [...hiddenPaths, options.folder],
    limits,
  })
  const { kind: isolation, memoryLimit, description } = sandbox.isolation
  log[isolation === 'none' ? 'warn' : 'info']({ isolation, memoryLimit }, description)
  const stepPath = toStepPath({ path, isolation, readOnlyPaths })
  const client = createServerClient(server)
  const asked = { name, version, labels, isolation }
  const claims = createClaims({ client, server, token, runner: asked, log })
  const tools = {
    client,
    folder,
    sandbox,
    jobLimit: createSemaphore(jobs),
    runner: { name, labels, arch: toArchitecture(), path: stepPath },
    sourceMaxBytes: limits.fileMaxBytes,
    freeSpaceMinBytes,
    log,
  }
  const stop = new AbortController()
  const onStop = () => stop.abort(new StoppingError('The runner is stopping.'))
  if (signal.aborted) onStop()
  signal.addEventListener('abort', onStop)
  const idle = watchIdleness(idleMs)
  const ending = AbortSignal.any([stop.signal, idle.signal])
  const running = createTaskGroup()
  // With a full disk, say, run after run would be claimed in vain.
  const recovery = createBackoff(recoveryBackoff)
  let isFit = true
  try {
    for (;;) {
      if (running.size() >= jobs) await orAborted(running.next(), ending)
      if (!isFit) await recovery.pause(ending)
      const claim = await claims.next(ending)
      idle.end()
      const work = executeClaim(claim, tools, stop.signal).then((fit) => {
        isFit = fit
        if (fit) recovery.reset()
      })
      void running.add(work).then(() => {
        if (running.size() === 0) idle.begin()
      })
    }
  } catch (error) {
    if (!(error instanceof StoppingError)) throw error
  } finally {
    await running.settled()
    idle.end()
    client.close()
    signal.removeEventListener('abort', onStop)
  }
}

/** A signal that is aborted when nothing was to do for so long. */
function watchIdleness(idleMs: number | undefined) {
  const idle = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const watch = {
    signal: idle.signal,
    begin(): void {
      const onTime = () => idle.abort(new StoppingError('Nothing was to do.'))
      if (idleMs !== undefined) timer = setTimeout(onTime, idleMs)
    },
    end: () => clearTimeout(timer),
  }
  watch.begin()
  return watch
}

// As GitHub's runners call it.
function toArchitecture(): string {
  const names: Record<string, string> = { x64: 'X64', arm64: 'ARM64', arm: 'ARM', ia32: 'X86' }
  return names[process.arch] ?? process.arch
}
