import type { Clock } from '#base/clock.ts'
import { createSemaphore } from '#base/concurrency/semaphore.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { Sensitive } from '#base/sensitive.ts'
import { orAborted, within } from '#base/timeouts.ts'
import type { Composer } from '../composing/composer.ts'
import type { AttemptOutcome, Sender } from '../sending/sender.ts'
import type { SigningSecrets } from '../signing-secrets.ts'
import type { DeliveryJob, Settled } from './delivery-change.ts'
import type { DeliveryQueue } from './delivery-queue.ts'
import { signatureHeaders } from './signatures.ts'

/** The outcome of an attempt, and how long it took. */
export type OnAttempt = (attempt: {
  event: string
  outcome: 'success' | 'failed'
  seconds: number
}) => void

type Dependencies = {
  queue: DeliveryQueue
  composer: Composer
  sender: Sender
  clock: Clock
  log: Log
  version: string
  onAttempt: OnAttempt | undefined
  /** Aborted when the server stops. */
  stopping: AbortSignal
}

const maxComposing = 8
const composeTimeoutMs = 30_000
const recordRetryMs = 500

/** Composes, sends and records claimed deliveries. */
export function createDeliveryWorker(dependencies: Dependencies) {
  const { queue, composer, sender, clock, log, version, onAttempt, stopping } = dependencies
  const composing = createSemaphore(maxComposing)

  /** The job with its body, now stored; or its result when it has none. Undefined when the lease was lost. */
  async function compose(
    job: DeliveryJob,
    signal: AbortSignal,
  ): Promise<DeliveryJob | Settled | undefined> {
    const { delivery } = job
    const startedAt = clock.now()
    try {
      const permit = await composing.acquire(signal)
      // Held until it has ended, also when it is no longer waited for.
      const composed = composer.compose(delivery).finally(() => permit[Symbol.dispose]())
      const body = await orAborted(within(composeTimeoutMs, composed), signal)
      if (body === undefined) return { job, end: 'The event or webhook no longer exists.' }
      return await queue.storeBody(job, body)
    } catch (error) {
      if (signal.aborted) {
        await queue.release(job)
        return undefined
      }
      return { job, outcome: internalFault(error, startedAt, delivery.id) }
    }
  }

  /** Makes one attempt; undefined when it was aborted because the server stops or the webhook is deleted. */
  async function attempt(
    job: DeliveryJob,
    { open, signal }: { open: SigningSecrets['open']; signal: AbortSignal },
  ): Promise<AttemptOutcome | undefined> {
    const { delivery, target } = job
    const startedAt = clock.now()
    try {
      const body = Buffer.from(job.body ?? '')
      const secrets = await orAborted(open(target), signal)
      const headers = deliveryHeaders(job, { body, secrets, now: startedAt, version })
      const { url, ownerUsername, scopeId } = target
      const lookupKey = ownerUsername ?? scopeId
      return await sender.send({ url, lookupKey, headers, body, signal })
    } catch (error) {
      return signal.aborted ? undefined : internalFault(error, startedAt, delivery.id)
    }
  }

  function internalFault(error: unknown, startedAt: number, delivery: string): AttemptOutcome {
    log.error({ err: error, delivery }, 'webhook delivery could not be prepared')
    return {
      startedAt,
      duration: Math.max(0, clock.now() - startedAt),
      requestHeaders: {},
      responseStatus: null,
      responseHeaders: {},
      responseBody: '',
      fault:
        error instanceof Problem ? error.message : 'The server could not prepare the delivery.',
      isOwnFault: true,
      retryAfterMs: undefined,
    }
  }

  /** Records the result of a job, retrying while its lease lasts; after that the delivery is attempted again. */
  async function record(settled: Settled): Promise<void> {
    for (;;) {
      try {
        await queue.record(settled)
        break
      } catch (error) {
        const isOver = clock.now() + recordRetryMs >= settled.job.lease.leaseUntil
        if (isOver || stopping.aborted) throw error
        log.warn({ err: error }, 'webhook attempt not recorded, trying again')
        await new Promise((resolve) => setTimeout(resolve, recordRetryMs))
      }
    }
    if (!('outcome' in settled)) return
    const { fault, duration } = settled.outcome
    const { event } = settled.job.delivery
    onAttempt?.({ event, outcome: fault === '' ? 'success' : 'failed', seconds: duration / 1000 })
  }

  return { compose, attempt, record }
}

type Options = {
  body: Uint8Array
  secrets: Sensitive<string>[]
  /** When the attempt starts. */
  now: number
  version: string
}

/** The headers of an attempt: those of GitHub, those of Standard Webhooks, and our own. */
function deliveryHeaders(
  { delivery, target, repositoryName }: Pick<DeliveryJob, 'delivery' | 'target' | 'repositoryName'>,
  { body, secrets, now, version }: Options,
): Record<string, string> {
  const { id, event, seq, previousSeq, attempts } = delivery
  const timestamp = Math.floor(now / 1000)
  return {
    host: new URL(target.url).host,
    'content-type': 'application/json',
    'content-length': String(body.length),
    'user-agent': `svc/${version}`,
    'x-github-event': event,
    'x-github-delivery': id,
    'x-github-hook-id': target.id,
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    ...signatureHeaders({ secrets, id, timestamp, body }),
    'x-svc-event': event,
    'x-svc-delivery': id,
    'x-svc-webhook': target.id,
    ...(repositoryName !== undefined && { 'x-svc-repository': repositoryName }),
    'x-svc-attempt': String(attempts + 1),
    ...(seq !== null && { 'x-svc-sequence': String(seq) }),
    ...(previousSeq !== null && { 'x-svc-previous-sequence': String(previousSeq) }),
  }
}
