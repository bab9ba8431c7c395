import type { Semaphore } from '#base/concurrency/semaphore.ts'
import type { Log } from '#base/log.ts'
import type { Claim } from '../runner-api/runner-api.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { RunnerContext } from '../workflow-engine/contexts.ts'
import { executeRun } from '../workflow-engine/execute-run.ts'
import type { RunEntry } from '../workflow-engine/plan.ts'
import { checkOut, checkOutAgain } from './check-out.ts'
import type { RequestedCancellation } from './lease.ts'
import type { LeaseThread } from './leases/lease-thread.ts'
import { createReporter } from './reporter.ts'
import { connectRun, type LeasedRun, type RunConnection, RunLostError } from './run-connection.ts'
import { createSourceCache, fetchSource } from './run-source.ts'
import type { RunnerFolder } from './runner-folder.ts'
import { describeError, type ServerClient } from './server-client.ts'
import { createServerStorage } from './server-storage.ts'
import type { FailedWorkspaces } from './shells/failed-workspaces.ts'

export class StoppingError extends Error {
  override readonly name = 'StoppingError'
}

// How long a run that has ended may send its last report when the runner is stopping.
const finalReportTimeoutMs = 5000

/**
 * Executes a claimed run and reports it to the server. When the runner stops or fails, the run returns to the queue;
 * when the run is lost, it is killed. Returns false when the runner failed.
 */
export async function executeClaim(
  claim: Claim,
  tools: RunTools,
  stop: AbortSignal,
): Promise<boolean> {
  const { runId, attempt, repository } = claim.plan
  const context = { run: runId, attempt, repository: repository.name }
  const { log } = tools
  const held = { runId, claimToken: claim.claimToken, leaseSeconds: claim.leaseSeconds }
  using connection = connectRun({ client: tools.client, held })
  log.info(context, 'run started')
  try {
    await executeAndReport(claim, tools, { connection, held }, stop)
    log.info(context, 'run ended')
    tools.failedWorkspaces.onRunEnd(claim.plan, true)
    return true
  } catch (error) {
    tools.failedWorkspaces.onRunEnd(claim.plan, false)
    await abandon(error)
    return error instanceof RunLostError || error instanceof StoppingError
  }

  async function abandon(error: unknown): Promise<void> {
    const reason = describeError(error)
    if (error instanceof RunLostError) {
      log.warn({ ...context, reason }, 'run lost')
      return
    }
    if (error instanceof StoppingError) log.info(context, 'run returned to the queue')
    else log.error({ ...context, err: error }, 'run failed and returned to the queue')
    const isLoss = !(error instanceof StoppingError)
    await connection
      .release({ isLoss, reason: isLoss ? `The runner failed: ${reason}` : reason })
      .catch((releaseError) =>
        log.warn({ ...context, reason: describeError(releaseError) }, 'run not released'),
      )
  }
}

/** Rejects with what prevented the end of the run: a RunLostError, a StoppingError, or a bug. */
async function executeAndReport(
  claim: Claim,
  tools: RunTools,
  { connection, held }: { connection: RunConnection; held: LeasedRun },
  stop: AbortSignal,
): Promise<void> {
  const cancel = new AbortController()
  const killed = new AbortController()
  const polling = new AbortController()
  const end = new AbortController()
  const onCancellation = ({ cancel: reason, kill }: RequestedCancellation) => {
    if (reason !== null) cancel.abort(new Error(reason))
    if (reason !== null && kill) killed.abort(new Error(reason))
  }
  const over = AbortSignal.any([end.signal, connection.lost])
  const abandoned = AbortSignal.any([over, stop])
  const onError = (error: unknown) => end.abort(error)
  const onResponse = (reason: string | null) => onCancellation({ cancel: reason, kill: false })
  const reporter = createReporter({ connection, onResponse, onError })
  const pollSignal = AbortSignal.any([polling.signal, over])
  tools.leases.hold(held, { connection, onCancellation, onError, signal: pollSignal })
  let hasEnded = false
  const report = (entry: RunEntry) => {
    // Entries of an abandoned run say nothing about its result.
    if (abandoned.aborted) return
    if (entry.kind === 'run-ended') {
      hasEnded = true
      // This entry completes the run on the server, which would answer further polls as if it were lost.
      polling.abort()
    }
    return reporter.report(entry)
  }
  abandoned.addEventListener('abort', () => {
    if (!hasEnded) reporter.drop()
    setTimeout(() => end.abort(abandoned.reason), finalReportTimeoutMs).unref()
  })
  try {
    const kill = AbortSignal.any([abandoned, killed.signal])
    await execute(claim, tools, { connection, report, cancel: cancel.signal, kill })
    if (!hasEnded) abandoned.throwIfAborted()
    await reporter.flush(over)
    over.throwIfAborted()
  } catch (error) {
    // Once the run is abandoned, other errors are only consequences.
    throw abandoned.aborted ? abandoned.reason : error
  } finally {
    end.abort()
  }
}

/** What the runner provides to each run. */
type RunTools = {
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
async function execute(claim: Claim, tools: RunTools, execution: Execution): Promise<void> {
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
