import type { Claim } from '../runner-api/runner-api.ts'
import type { RunEntry } from '../workflow-engine/plan.ts'
import { pollOrders, type RunOrder } from './cancellation-poll.ts'
import { execute, type RunTools } from './execution.ts'
import { createReporter } from './reporter.ts'
import { connectRun, type RunConnection, RunLostError } from './run-connection.ts'
import { describeFault } from './server-client.ts'

/** The runner is asked to end. */
export class StoppingError extends Error {
  override readonly name = 'Stopping'
}

// What a run that has ended gets to tell of it when the runner is stopping.
const lastWordsMs = 5000

/**
 * Executes a claimed run and tells the server of it. When the runner stops, or cannot go on with it, the run
 * is handed back to the queue; when it is lost, it is ended and forgotten. Whether the runner is fit for the next.
 */
export async function executeClaim(
  claim: Claim,
  tools: RunTools,
  stop: AbortSignal,
): Promise<boolean> {
  const { runId, attempt, repository } = claim.plan
  const what = { run: runId, attempt, repository: repository.name }
  const { log } = tools
  using connection = connectRun({ client: tools.client, claim })
  log.info(what, 'a run begins')
  try {
    await tellAll(claim, tools, connection, stop)
    log.info(what, 'a run has ended')
    return true
  } catch (error) {
    await giveUp(error)
    return error instanceof RunLostError || error instanceof StoppingError
  }

  async function giveUp(error: unknown): Promise<void> {
    const reason = describeFault(error)
    if (error instanceof RunLostError) {
      log.warn({ ...what, reason }, 'a run is lost')
      return
    }
    if (error instanceof StoppingError) log.info(what, 'a run is handed back to the queue')
    else log.error({ ...what, err: error }, 'a run cannot go on, and is handed back to the queue')
    const isLoss = !(error instanceof StoppingError)
    await connection
      .release({ isLoss, reason: isLoss ? `The runner failed: ${reason}` : reason })
      .catch((fault) =>
        log.warn({ ...what, reason: describeFault(fault) }, 'it was not taken back'),
      )
  }
}

/** Rejects with what kept the run from its end: a RunLost, a Stopping, or a fault. */
async function tellAll(
  claim: Claim,
  tools: RunTools,
  connection: RunConnection,
  stop: AbortSignal,
): Promise<void> {
  const cancel = new AbortController()
  const hurry = new AbortController()
  const listening = new AbortController()
  const end = new AbortController()
  const onOrder = ({ cancel: reason, kill }: RunOrder) => {
    if (reason !== null) cancel.abort(new Error(reason))
    if (reason !== null && kill) hurry.abort(new Error(reason))
  }
  const over = AbortSignal.any([end.signal, connection.lost])
  const givenUp = AbortSignal.any([over, stop])
  const onFault = (error: unknown) => end.abort(error)
  const onAnswer = (reason: string | null) => onOrder({ cancel: reason, kill: false })
  const reporter = createReporter({ connection, onAnswer, onFault })
  const heard = AbortSignal.any([listening.signal, over])
  pollOrders({ connection, leaseSeconds: claim.leaseSeconds, onOrder, signal: heard }).catch(
    (error) => heard.aborted || onFault(error),
  )
  let hasEnded = false
  const report = (entry: RunEntry) => {
    // What is told of the end of a run that is given up is not what became of it.
    if (givenUp.aborted) return
    if (entry.kind === 'run-ended') {
      hasEnded = true
      // The server forgets the run with this entry; to ask it further would look as if the run were lost.
      listening.abort()
    }
    return reporter.report(entry)
  }
  givenUp.addEventListener('abort', () => {
    if (!hasEnded) reporter.drop()
    setTimeout(() => end.abort(givenUp.reason), lastWordsMs).unref()
  })
  try {
    const kill = AbortSignal.any([givenUp, hurry.signal])
    await execute(claim, tools, { connection, report, cancel: cancel.signal, kill })
    if (!hasEnded) givenUp.throwIfAborted()
    await reporter.flush(over)
    over.throwIfAborted()
  } catch (error) {
    // What failed because all was ended is not why.
    throw givenUp.aborted ? givenUp.reason : error
  } finally {
    end.abort()
  }
}
