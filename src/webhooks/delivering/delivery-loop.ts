import type { Clock } from '#base/clock.ts'
import { createPoller } from '#base/concurrency/poller.ts'
import { createTaskGroup } from '#base/concurrency/task-group.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import { createOncePerKey } from '#base/once.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import type { Database } from '#database/database.ts'
import type { EventNotifier } from '#events/event-notifier.ts'
import type { Publish } from '#events/events.ts'
import type { Composer } from '../composing/composer.ts'
import { createDeliveryLimits, type DeliveryTarget } from '../delivery-limits.ts'
import { findNextDue, listDueWebhooks } from '../queue-store.ts'
import type { Schedule } from '../retry-schedule.ts'
import { createConnections } from '../sending/receiver-connections.ts'
import { type AttemptOutcome, createSender } from '../sending/sender.ts'
import type { SigningSecrets } from '../signing-secrets.ts'
import type { DeliveryJob } from './delivery-change.ts'
import { createDeliveryQueue } from './delivery-queue.ts'
import { createDeliveryWorker, type OnAttempt } from './delivery-worker.ts'
import { createWebhookRotation } from './webhook-rotation.ts'

/** Delivers webhooks until disposed: claims, composes, sends and records what is due. */
export type DeliveryLoop = AsyncDisposable & {
  /** Claims at once, since something has become due. */
  wake: () => void
  /** Aborts the deliveries of a webhook that are in flight; nothing is sent to it after this returns. */
  cutOff: (webhookId: string) => Promise<void>
  countInFlight: () => number
}

type Dependencies = {
  db: Database
  publish: Publish
  notifier: EventNotifier
  composer: Composer
  signing: Pick<SigningSecrets, 'open'>
  outbound: Pick<Outbound, 'of'>
  schedule: Schedule
  clock: Clock
  log: Log
  faultPoint: FaultPoint
  version: string
  /** The unique name of this server, which owns its leases. */
  leaseOwner: string
  /** How long attempts in flight may take when the server stops. */
  stopMs: number
  attemptTimeoutMs?: number
  /** Called after each attempt. */
  onAttempt?: OnAttempt
}

// Deliveries that other servers of the same database queue are found by polling.
const pollIntervalMs = 2000
const webhooksPerQuery = 64
// A slower response holds up other deliveries as much as none.
const slowAfterMs = 2000

export function createDeliveryLoop(dependencies: Dependencies): DeliveryLoop {
  const { db, notifier, signing, outbound, clock, log, faultPoint } = dependencies
  const { stopMs, attemptTimeoutMs, onAttempt } = dependencies
  const queue = createDeliveryQueue(dependencies)
  const connections = createConnections({ outbound })
  const sender = createSender({ connections, clock, ...(attemptTimeoutMs && { attemptTimeoutMs }) })
  const deliveryLimits = createDeliveryLimits()
  const rotation = createWebhookRotation()
  const stopping = new AbortController()
  const stopped = stopping.signal
  const worker = createDeliveryWorker({
    ...dependencies,
    queue,
    sender,
    onAttempt,
    stopping: stopped,
  })
  const deliveries = createTaskGroup()
  // Deliveries in flight, by webhook; and the webhooks that were cut off.
  const working = new Map<string, Set<{ end: AbortController; work: Promise<void> }>>()
  const ended = new Set<string>()
  let claiming: Promise<DeliveryJob[]> | undefined
  let isRecovered = false

  async function claimDue(signal: AbortSignal): Promise<void> {
    if (!isRecovered) await queue.recover()
    isRecovered = true
    while (!signal.aborted) {
      const now = clock.now()
      const count = deliveryLimits.count()
      if (count.isFull()) return
      const exhausted = count.exhausted()
      const due = await listDueWebhooks(db, { now, limit: webhooksPerQuery, exhausted })
      const wanted = rotation.share(due, count)
      if (wanted.size === 0) return
      claiming = queue.claim(wanted)
      const jobs = await claiming
      if (jobs.length === 0) return
      faultPoint('delivery.claimed')
      const secrets = createOncePerKey<ReturnType<SigningSecrets['open']>>()
      for (const job of jobs)
        start(job, (webhook) => secrets(webhook.id, () => signing.open(webhook)))
    }
  }

  function start(job: DeliveryJob, open: SigningSecrets['open']): void {
    const { id: webhookId, receiver, scopeId } = job.target
    const target = { webhookId, receiver, scopeId }
    const end = new AbortController()
    if (ended.has(webhookId)) end.abort()
    deliveryLimits.start(target)
    const signal = AbortSignal.any([stopped, end.signal])
    const work = deliver(job, { target, open, signal })
      .catch((error) => {
        deliveryLimits.end(target, 'none')
        log.error({ err: error, delivery: job.delivery.id }, 'webhook delivery failed')
      })
      .finally(() => {
        own.delete(current)
        if (own.size === 0) working.delete(webhookId)
        poller.wake()
      })
    const own = working.get(webhookId) ?? new Set()
    const current = { end, work }
    working.set(webhookId, own.add(current))
    void deliveries.add(work)
  }

  async function cutOff(webhookId: string): Promise<void> {
    ended.add(webhookId)
    // A claim made before the webhook was deleted may start its jobs only now.
    await claiming?.catch(() => {})
    const own = [...(working.get(webhookId) ?? [])]
    for (const { end } of own) end.abort(new Error('The webhook was deleted.'))
    await Promise.all(own.map(({ work }) => work))
    ended.delete(webhookId)
  }

  async function deliver(
    claimed: DeliveryJob,
    {
      target,
      open,
      signal,
    }: { target: DeliveryTarget; open: SigningSecrets['open']; signal: AbortSignal },
  ): Promise<void> {
    const composed = claimed.body === undefined ? await worker.compose(claimed, signal) : claimed
    if (composed === undefined) return deliveryLimits.end(target, 'none')
    if ('job' in composed) {
      await worker.record(composed)
      return deliveryLimits.end(target, 'none')
    }
    faultPoint('delivery.composed')
    const slow = setTimeout(() => deliveryLimits.slow(target), slowAfterMs)
    const outcome = await worker
      .attempt(composed, { open, signal })
      .finally(() => clearTimeout(slow))
    if (!outcome) {
      await queue.release(composed)
      return deliveryLimits.end(target, 'none')
    }
    faultPoint('delivery.answered')
    // Freed first, so that the webhook's next delivery is claimed in the transaction that records this one.
    deliveryLimits.end(target, resultOf(outcome))
    poller.wake()
    await worker.record({ job: composed, outcome })
    faultPoint('delivery.recorded')
  }

  async function untilNextDue(): Promise<number> {
    const now = clock.now()
    const next = await findNextDue(db, now)
    return next === undefined ? pollIntervalMs : Math.min(next - now + 1, pollIntervalMs)
  }

  const poller = createPoller({
    intervalMs: pollIntervalMs,
    async run(signal) {
      await claimDue(signal)
      return await untilNextDue()
    },
    onError: (error) => log.error({ err: error }, 'due webhook deliveries could not be claimed'),
  })
  const listening = notifier.onEvents(poller.wake)
  poller.wake()

  return {
    wake: poller.wake,

    cutOff,

    countInFlight: deliveryLimits.countInFlight,

    // Starts nothing more, waits up to `stopMs` for attempts in flight, and releases the rest.
    async [Symbol.asyncDispose]() {
      listening[Symbol.dispose]()
      await poller[Symbol.asyncDispose]()
      using _cutOff = setTimeout(() => stopping.abort(new Error('The server stops.')), stopMs)
      await deliveries.settled()
      await connections[Symbol.asyncDispose]()
    },
  }
}

function resultOf({
  fault,
  isOwnFault,
  duration,
}: AttemptOutcome): Parameters<ReturnType<typeof createDeliveryLimits>['end']>[1] {
  if (isOwnFault) return 'none'
  if (fault !== '') return 'failure'
  return duration > slowAfterMs ? 'slow' : 'success'
}
