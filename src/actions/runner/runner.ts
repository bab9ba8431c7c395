import { createBackoff } from '#base/concurrency/backoff.ts'
import { createSemaphore } from '#base/concurrency/semaphore.ts'
import { createTaskGroup } from '#base/concurrency/task-group.ts'
import type { Log } from '#base/log.ts'
import type { Sensitive } from '#base/sensitive.ts'
import { orAborted } from '#base/timeouts.ts'
import { readSpace } from '#config/free-space.ts'
import { openSandbox } from '../sandbox/open-sandbox.ts'
import { createToolset } from '../tool-cache/toolset.ts'
import { toRunnerArchitecture } from '../workflow-engine/contexts.ts'
import { createClaims } from './claims.ts'
import { executeClaim, StoppingError } from './execute-claim.ts'
import { createLeaseThread } from './leases/lease-thread.ts'
import { type RunnerChoices, toStepPath } from './runner-configuration.ts'
import { acquireRunnerFolder } from './runner-folder.ts'
import { createServerClient } from './server-client.ts'
import { createFailedWorkspaces } from './shells/failed-workspaces.ts'

export type RunnerOptions = RunnerChoices & {
  /** The address of the service. */
  server: URL
  /** A token with the permission `runner`. */
  token: Sensitive<string>
  /** The runner exits after this time without a run or a kept workspace; undefined for never. */
  idleMs: number | undefined
  log: Log
  /** Stops the runner: its current runs return to the queue. */
  signal: AbortSignal
}

const recoveryBackoff = { firstMs: 200, maxMs: 60_000 }

/**
 * Claims runs from a server and executes them, until it is stopped or has been idle for too long. Throws a RunnerError
 * for a problem that retries cannot solve.
 */
export async function runRunner(options: RunnerOptions): Promise<void> {
  const { server, token, name, labels, jobs, path, version, log, idleMs, signal } = options
  await using folder = await acquireRunnerFolder(options.folder)
  const { mode, network, hosts, readOnlyPaths, hiddenPaths } = options.sandbox
  const { minFreeBytes: freeSpaceMinBytes } = await readSpace({
    folder: options.folder,
    minBytes: options.sandbox.freeSpaceMinBytes,
  })
  const limits = { ...options.sandbox.limits, freeSpaceMinBytes }
  const sandbox = await openSandbox({
    folder: folder.workspaces,
    path,
    mode,
    network,
    hosts,
    readOnlyPaths,
    hiddenPaths: [...hiddenPaths, options.folder],
    limits,
  })
  const { kind: isolation, memoryLimit, description } = sandbox.isolation
  log[isolation === 'none' ? 'warn' : 'info']({ isolation, memoryLimit }, description)
  const stepPath = toStepPath({ path, isolation, readOnlyPaths })
  const toolset = createToolset({
    folders: options.sandbox.toolFolders,
    path: stepPath,
    architecture: process.arch,
  })
  const client = createServerClient(server)
  const runner = { name, version, labels, isolation }
  const claims = createClaims({ client, server, token, runner, log })
  const idle = watchIdleness(idleMs)
  const running = createTaskGroup()
  const onIdle = () => {
    if (running.size() === 0 && failedWorkspaces.size() === 0) idle.begin()
  }
  const failedWorkspaces = createFailedWorkspaces({
    keptMs: options.failedWorkspaceMs,
    folder: folder.workspaces,
    freeSpaceMinBytes,
    request: (path, body, limits) =>
      client.request({ method: 'POST', path, token, body: JSON.stringify(body), ...limits }),
    log,
    onEmpty: onIdle,
  })
  const leases = createLeaseThread(server)
  const tools = {
    client,
    leases,
    failedWorkspaces,
    folder,
    sandbox,
    jobLimit: createSemaphore(jobs),
    runner: {
      ...{ name, labels, path: stepPath, tools: toolset },
      arch: toRunnerArchitecture(),
      env: options.sandbox.stepEnv,
    },
    sourceMaxBytes: limits.fileMaxBytes,
    freeSpaceMinBytes,
    log,
  }
  const stop = new AbortController()
  const onStop = () => stop.abort(new StoppingError('The runner is stopping.'))
  if (signal.aborted) onStop()
  signal.addEventListener('abort', onStop)
  const ending = AbortSignal.any([stop.signal, idle.signal])
  // With a full disk, for instance, it would claim and fail one run after another.
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
      void running.add(work).then(onIdle)
    }
  } catch (error) {
    if (!(error instanceof StoppingError)) throw error
  } finally {
    await running.settled()
    await failedWorkspaces[Symbol.asyncDispose]()
    await leases[Symbol.asyncDispose]()
    idle.end()
    client.close()
    signal.removeEventListener('abort', onStop)
  }
}

/** A signal that is aborted after a period without runs and kept workspaces. */
function watchIdleness(idleMs: number | undefined) {
  const idle = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const watch = {
    signal: idle.signal,
    begin(): void {
      clearTimeout(timer)
      const onTime = () => idle.abort(new StoppingError('The runner was idle.'))
      if (idleMs !== undefined) timer = setTimeout(onTime, idleMs)
    },
    end: () => clearTimeout(timer),
  }
  watch.begin()
  return watch
}
