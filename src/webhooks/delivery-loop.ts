import type { Clock } from '../base/clock.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import type { Log } from '../base/log.ts'
import { Problem } from '../base/problem.ts'
import { orAborted, within } from '../base/timeouts.ts'
import { createSemaphore } from '../concurrency/semaphore.ts'
import type { Database } from '../database/database.ts'
import type { EventNotifier } from '../events/event-notifier.ts'
import type { Outbound } from '../outbound/outbound.ts'
import type { Composer } from './composer.ts'
import { deliveryHeaders } from './delivery-headers.ts'
import { createDeliveryLimits, type DeliveryTarget } from './delivery-limits.ts'
import { createDeliveryQueue, type DeliveryJob, type Settled } from './delivery-queue.ts'
import { findNextDue, listDueWebhooks } from './queue-store.ts'
import { createConnections } from './receiver-connections.ts'
import type { Schedule } from './retry-schedule.ts'
import { type AttemptOutcome, createSender } from './sender.ts'
import type { SigningSecrets } from './signing-secrets.ts'
import { createWebhookRotation } from './webhook-rotation.ts'

type Dependencies = {
  db: Database
  notifier: EventNotifier
  composer: Composer
  signing: Pick<SigningSecrets, 'open'>
  outbound: Pick<Outbound, 'resolve'>
  schedule: Schedule
  clock: Clock
  log: Log
  faultPoint: FaultPoint
  version: string
  /** The name of this server, which no other one has. */
  holder: string
  /** How long attempts that are under way are waited for at the end. */
  stopMs: number
  attemptTimeoutMs?: number
  /** Called after each attempt. */
  onAttempt?: OnAttempt
}

/** What came of an attempt, and how long it took. */
export type OnAttempt = (attempt: {
  event: string
  outcome: 'success' | 'failed'
  seconds: number
}) => void

// What other servers of the same database put there is seen by looking.
const lookEveryMs = 2000
const lookedAtOnce = 64
const composedAtOnce = 8
const composeMs = 30_000
const recordAgainMs = 500
// An answer that takes longer is as little use to the others who wait as none.
const slowMs = 2000

/** Delivers what is due, as long as it lives: claims, composes, sends and records. */
export function createDeliveryLoop(dependencies: Dependencies) {
  const { db, notifier, composer, signing, outbound, clock, log, faultPoint } = dependencies
  const { schedule, version, holder, stopMs, attemptTimeoutMs, onAttempt } = dependencies
  const queue = createDeliveryQueue({ db, clock, schedule, holder })
  const connections = createConnections({ outbound })
  const sender = createSender({ connections, clock, ...(attemptTimeoutMs && { attemptTimeoutMs }) })
  const deliveryLimits = createDeliveryLimits()
  const shares = createWebhookRotation()
  const composing = createSemaphore(composedAtOnce)
  const stopping = new AbortController()
  const deliveries = new Set<Promise<void>>()
  // Deliveries in progress, by webhook; and the webhooks that get no further delivery.
  const working = new Map<string, Set<{ end: AbortController; work: Promise<void> }>>()
  const ended = new Set<string>()
  let claiming: Promise<DeliveryJob[]> | undefined
  let isStopped = false
  let looking: Promise<void> | undefined
  let isAskedAgain = false
  let timer: NodeJS.Timeout | undefined
  let isRecovered = false

  async function look(): Promise<void> {
    if (!isRecovered) await queue.recover()
    isRecovered = true
    while (!isStopped) {
      const now = clock.now()
      const count = deliveryLimits.count()
      if (count.isFull()) return
      const closed = count.closed()
      const due = await listDueWebhooks(db, { now, most: lookedAtOnce, closed })
      const wanted = shares.share(due, count)
      if (wanted.size === 0) return
      claiming = queue.claim(wanted)
      const jobs = await claiming
      if (jobs.length === 0) return
      faultPoint('delivery.claimed')
      const openOnce = once(signing.open)
      for (const job of jobs) start(job, openOnce)
    }
  }

  function start(job: DeliveryJob, open: SigningSecrets['open']): void {
    const { id: webhookId, receiver, repositoryId } = job.target
    const place = { webhookId, receiver, repositoryId }
    const end = new AbortController()
    if (ended.has(webhookId)) end.abort()
    deliveryLimits.start(place)
    const signal = AbortSignal.any([stopping.signal, end.signal])
    const work = deliver(job, { place, open, signal })
      .catch((error) => {
        deliveryLimits.end(place, 'none')
        log.error({ err: error, delivery: job.delivery.id }, 'a delivery could not be worked on')
      })
      .finally(() => {
        deliveries.delete(work)
        own.delete(one)
        if (own.size === 0) working.delete(webhookId)
        wake()
      })
    const own = working.get(webhookId) ?? new Set()
    const one = { end, work }
    working.set(webhookId, own.add(one))
    deliveries.add(work)
  }

  /** Cuts off what is on its way to a webhook; nothing more is sent to it when this returns. */
  async function cutOff(webhookId: string): Promise<void> {
    ended.add(webhookId)
    // A claim may have been made before the webhook was deleted, and its jobs start only now.
    await claiming?.catch(() => {})
    const own = [...(working.get(webhookId) ?? [])]
    for (const { end } of own) end.abort(new Error('The webhook was deleted.'))
    await Promise.all(own.map(({ work }) => work))
    ended.delete(webhookId)
  }

  async function deliver(
    claimed: DeliveryJob,
    {
      place,
      open,
      signal,
    }: { place: DeliveryTarget; open: SigningSecrets['open']; signal: AbortSignal },
  ): Promise<void> {
    const composed = claimed.body === undefined ? await compose(claimed, signal) : claimed
    if (composed === undefined) return deliveryLimits.end(place, 'none')
    if ('job' in composed) {
      await settle(composed)
      return deliveryLimits.end(place, 'none')
    }
    faultPoint('delivery.composed')
    const slow = setTimeout(() => deliveryLimits.slow(place), slowMs)
    const outcome = await attempt(composed, { open, signal }).finally(() => clearTimeout(slow))
    if (!outcome) {
      await queue.release(composed)
      return deliveryLimits.end(place, 'none')
    }
    faultPoint('delivery.answered')
    // The next one of the webhook begins while this one is recorded, and is claimed in the same transaction.
    deliveryLimits.end(place, resultOf(outcome))
    wake()
    await settle({ job: composed, outcome })
    faultPoint('delivery.recorded')
  }

  /** The job with its body, which is kept; or what has become of it without one. Undefined when it is not ours any more. */
  async function compose(
    job: DeliveryJob,
    signal: AbortSignal,
  ): Promise<DeliveryJob | Settled | undefined> {
    const { delivery } = job
    const startedAt = clock.now()
    try {
      using _slot = await composing.acquire(signal)
      const body = await orAborted(within(composeMs, composer.compose(delivery)), signal)
      if (body === undefined) return { job, end: 'What it would tell of is gone.' }
      return await queue.keepBody(job, body)
    } catch (error) {
      if (signal.aborted) {
        await queue.release(job)
        return undefined
      }
      return { job, outcome: ownFault(error, startedAt, delivery.id) }
    }
  }

  /** Makes one attempt; undefined when it was cut off: the server stops, or the webhook is deleted. */
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
      return await sender.send({ url: target.url, headers, body, signal })
    } catch (error) {
      return signal.aborted ? undefined : ownFault(error, startedAt, delivery.id)
    }
  }

  function ownFault(error: unknown, startedAt: number, delivery: string): AttemptOutcome {
    log.error({ err: error, delivery }, 'a delivery could not be made ready')
    return {
      startedAt,
      duration: Math.max(0, clock.now() - startedAt),
      requestHeaders: {},
      responseStatus: null,
      responseHeaders: {},
      responseBody: '',
      fault:
        error instanceof Problem ? error.message : 'The server could not make it ready to send.',
      isOwnFault: true,
      retryAfterMs: undefined,
    }
  }

  /** Records what has become of a job, for as long as it is ours; after that somebody attempts it again. */
  async function settle(settled: Settled): Promise<void> {
    for (;;) {
      try {
        await queue.record(settled)
        break
      } catch (error) {
        const isOver = clock.now() + recordAgainMs >= settled.job.lease.leaseUntil
        if (isOver || stopping.signal.aborted) throw error
        log.warn({ err: error }, 'an attempt of a delivery could not be recorded yet')
        await new Promise((resolve) => setTimeout(resolve, recordAgainMs))
      }
    }
    if (!('outcome' in settled)) return
    const { fault, duration } = settled.outcome
    const { event } = settled.job.delivery
    onAttempt?.({ event, outcome: fault === '' ? 'success' : 'failed', seconds: duration / 1000 })
  }

  function wake(): void {
    if (isStopped) return
    isAskedAgain = looking !== undefined
    looking ??= look()
      .then(() => untilNextDue())
      .catch((error) => {
        log.error({ err: error }, 'deliveries could not be looked at')
        return lookEveryMs
      })
      .then((waitMs) => {
        looking = undefined
        if (isStopped) return
        clearTimeout(timer)
        if (isAskedAgain) wake()
        else timer = setTimeout(wake, waitMs)
      })
  }

  async function untilNextDue(): Promise<number> {
    const now = clock.now()
    const next = await findNextDue(db, now)
    return next === undefined ? lookEveryMs : Math.min(next - now + 1, lookEveryMs)
  }

  const listening = notifier.onEvents(wake)
  wake()

  return {
    /** Looks at once: something has become due. */
    wake,

    cutOff,

    countInFlight: deliveryLimits.countInFlight,

    /** Begins nothing any more, waits a while for what is under way, and gives back what is not done by then. */
    async [Symbol.asyncDispose]() {
      isStopped = true
      listening[Symbol.dispose]()
      clearTimeout(timer)
      await looking
      const cutting = setTimeout(() => stopping.abort(new Error('The server stops.')), stopMs)
      await Promise.all(deliveries)
      clearTimeout(cutting)
      await connections[Symbol.asyncDispose]()
    },
  }
}

/** Opens the secrets of each webhook once. */
function once(open: SigningSecrets['open']): SigningSecrets['open'] {
  const opened = new Map<string, ReturnType<SigningSecrets['open']>>()
  return (webhook) => {
    const secrets = opened.get(webhook.id) ?? open(webhook)
    opened.set(webhook.id, secrets)
    return secrets
  }
}

function resultOf({
  fault,
  isOwnFault,
  duration,
}: AttemptOutcome): Parameters<ReturnType<typeof createDeliveryLimits>['end']>[1] {
  if (isOwnFault) return 'none'
  if (fault !== '') return 'failure'
  return duration > slowMs ? 'slow' : 'success'
}
