import { join } from 'node:path'
import type { Log } from '../base/log.ts'
import type { Semaphore } from '../concurrency/semaphore.ts'
import type { Claim } from '../runner-api/runner-api.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { RunnerContext } from '../workflow-engine/contexts.ts'
import { executeRun } from '../workflow-engine/execute-run.ts'
import type { RunEntry } from '../workflow-engine/plan.ts'
import { checkOut } from './check-out.ts'
import type { FailedWorkspaces } from './failed-workspaces.ts'
import type { RunConnection } from './run-connection.ts'
import { fetchSource } from './run-source.ts'
import type { RunnerFolder } from './runner-folder.ts'
import type { ServerClient } from './server-client.ts'
import { createServerStorage } from './server-storage.ts'

/** What the runner provides to each run. */
export type RunTools = {
  client: ServerClient
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

/** Fetches the commit of a claimed run and executes the run. Its files are removed at the end. */
export async function execute(claim: Claim, tools: RunTools, execution: Execution): Promise<void> {
  const { plan } = claim
  const { folder, sandbox, jobLimit, runner, sourceMaxBytes, freeSpaceMinBytes } = tools
  const { failedWorkspaces } = tools
  const { connection, report, cancel, kill } = execution
  await using place = await folder.forRun()
  const done = new AbortController()
  const pack = fetchSource({
    connection,
    commit: plan.commit,
    path: join(place.path, 'source.pack'),
    maxBytes: sourceMaxBytes,
    freeSpaceMinBytes,
    signal: AbortSignal.any([kill, done.signal]),
  })
  // Jobs that check out report a failure; there may be none.
  pack.catch(() => {})
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
        checkOut({ workspace, plan, pack, path: runner.path, signal }),
    })
  } finally {
    done.abort()
    await pack.catch(() => {})
  }
}
