import { join } from 'node:path'
import type { Log } from '../base/log.ts'
import type { Semaphore } from '../concurrency/semaphore.ts'
import type { Claim } from '../runner-api/runner-api.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { RunnerContext } from '../workflow-engine/contexts.ts'
import { executeRun } from '../workflow-engine/execute-run.ts'
import type { RunEntry } from '../workflow-engine/plan.ts'
import { checkOut } from './check-out.ts'
import type { RunConnection } from './run-connection.ts'
import { fetchSource } from './run-source.ts'
import type { RunnerFolder } from './runner-folder.ts'
import type { ServerClient } from './server-client.ts'

/** What a run needs of its runner. */
export type RunTools = {
  client: ServerClient
  folder: RunnerFolder
  sandbox: Sandbox
  jobLimit: Semaphore
  /** What the engine is told of it. */
  runner: RunnerContext
  /** Bytes of a commit's pack at most. */
  sourceMaxBytes: number
  /** Bytes that are to stay free on the disk. */
  freeSpaceMinBytes: number
  log: Log
}

type Execution = {
  connection: RunConnection
  report: (entry: RunEntry) => void | Promise<void>
  cancel: AbortSignal
  /** Ends it at once. */
  kill: AbortSignal
}

/** Fetches the commit of a claimed run and executes the run; when it returns, nothing of it remains. */
export async function execute(claim: Claim, tools: RunTools, execution: Execution): Promise<void> {
  const { plan } = claim
  const { folder, sandbox, jobLimit, runner, sourceMaxBytes, freeSpaceMinBytes } = tools
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
  // Whoever needs the files learns of a failure; it may be nobody.
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
      checkOut: (room, signal) => checkOut({ room, plan, pack, path: runner.path, signal }),
    })
  } finally {
    done.abort()
    await pack.catch(() => {})
  }
}
