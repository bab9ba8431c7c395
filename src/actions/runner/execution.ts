import type { Semaphore } from '#base/concurrency/semaphore.ts'
import type { Log } from '#base/log.ts'
import type { Claim } from '../runner-api/runner-api.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { RunnerContext } from '../workflow-engine/contexts.ts'
import { executeRun } from '../workflow-engine/execute-run.ts'
import type { RunEntry } from '../workflow-engine/plan.ts'
import { checkOut } from './check-out.ts'
import { checkOutAgain } from './check-out-again.ts'
import type { FailedWorkspaces } from './failed-workspaces.ts'
import type { LeaseThread } from './lease-thread.ts'
import type { RunConnection } from './run-connection.ts'
import { fetchSource } from './run-source.ts'
import type { RunnerFolder } from './runner-folder.ts'
import type { ServerClient } from './server-client.ts'
import { createServerStorage } from './server-storage.ts'
import { createSourceCache } from './source-cache.ts'

/** What the runner provides to each run. */
export type RunTools = {
  client: ServerClient
  leases: LeaseThread
  folder: RunnerFolder
  sandbox: Sandbox
  jobLimit: Semaphore
  failedWorkspaces: FailedWorkspaces
  /** For the `runner` context. */
  runner: RunnerContext
  /** Maximum size of a commit's pack. */
  sourceMaxBytes: number
  /** Bytes that must stay free on the disk. */
  freeSpaceMinBytes: number
  log: Log
}

type Execution = {
  connection: RunConnection
  report: (entry: RunEntry) => void | Promise<void>
  cancel: AbortSignal
  /** Kills all steps at once. */
  kill: AbortSignal
}

/** Fetches the commit of a claimed run, and executes the run. Its files are removed at the end. */
export async function execute(claim: Claim, tools: RunTools, execution: Execution): Promise<void> {
  const { plan } = claim
  const { folder, sandbox, jobLimit, runner, sourceMaxBytes, freeSpaceMinBytes } = tools
  const { failedWorkspaces } = tools
  const { connection, report, cancel, kill } = execution
  await using place = await folder.forRun()
  const done = new AbortController()
  const sources = createSourceCache(place.path, (request, path) =>
    fetchSource({
      ...{ connection, request, path },
      commit: plan.commit,
      maxBytes: sourceMaxBytes,
      freeSpaceMinBytes,
      signal: AbortSignal.any([kill, done.signal]),
    }),
  )
  const source = sources.get({ ref: undefined, depth: 1, tags: false })
  try {
    await executeRun({
      plan,
      sandbox,
      jobLimit,
      runner,
      report,
      signal: cancel,
      kill,
      storage: createServerStorage(connection),
      keepFailed: failedWorkspaces.keeperOf(plan, connection),
      checkOut: (workspace, signal) =>
        checkOut({ workspace, plan, source, path: runner.path, signal }),
      checkOutAgain: (workspace, checkout, signal) =>
        checkOutAgain({
          ...{ workspace, plan, checkout, signal },
          source: sources.get(checkout.source),
          path: runner.path,
        }),
    })
  } finally {
    done.abort()
    await sources.settled()
  }
}
