import type { Clock } from '#base/clock.ts'
import type { FaultStep } from '#base/fault-points.ts'
import { newId } from '#base/ids.ts'
import { createLog } from '#base/log.ts'
import { parseAllowed } from '#base/outbound/allowed-ranges.ts'
import { createOutbound } from '#base/outbound/outbound.ts'
import { Sensitive } from '#base/sensitive.ts'
import type { Database } from '#database/database.ts'
import { createSingleNode } from '#database/nodes/nodes.ts'
import type { WebhookRow } from '#database/schema.ts'
import { createEventNotifier } from '#events/event-notifier.ts'
import type { DeliverySubject } from '#webhooks/composing/composer.ts'
import { createDeliveryLoop } from '#webhooks/delivering/delivery-loop.ts'
import { publish } from './publish.ts'

type Options = {
  schedule?: readonly [number, ...number[]]
  clock?: Clock
  secrets?: string[]
  leaseOwner?: string
  allow?: string
  lookup?: (name: string) => Promise<{ address: string }[]>
  compose?: (delivery: DeliverySubject) => Promise<string | undefined>
  onStep?: (step: FaultStep) => void
  stopMs?: number
  /** Time for one attempt; by default the service's own. */
  attemptTimeoutMs?: number
}

/** The loop that delivers, on a database with repositories and webhooks of its own; only composing is not the service's. */
export function startDelivering(db: Database, options: Options = {}) {
  const clock = options.clock ?? { now: () => Date.now() }
  const { compose = composePlainly, onStep = () => {} } = options
  const notifier = createEventNotifier({ db, nodes: createSingleNode('here') })
  const outbound = createOutbound({
    allow: parseAllowed(options.allow ?? 'loopback') ?? { classes: [], ranges: [], names: [] },
    lookup: options.lookup ?? (async () => [{ address: '127.0.0.1' }]),
  })
  const loop = createDeliveryLoop({
    db,
    publish,
    notifier,
    composer: { compose },
    signing: { open: async () => (options.secrets ?? []).map((secret) => new Sensitive(secret)) },
    outbound,
    schedule: options.schedule ?? [0, 5, 300],
    clock,
    log: createLog({ level: process.env.SVC_LOG_LEVEL ?? 'silent', output: process.stderr }),
    faultPoint: onStep,
    version: '0.0.0',
    leaseOwner: options.leaseOwner ?? 'here',
    stopMs: options.stopMs ?? 1000,
    ...(options.attemptTimeoutMs && { attemptTimeoutMs: options.attemptTimeoutMs }),
  })
  return loop
}

/** The subject of a delivery. */
export async function composePlainly({
  id,
  webhookId,
  seq,
  previousSeq,
}: DeliverySubject): Promise<string> {
  return JSON.stringify({ svc: { delivery: id, webhook: webhookId, seq, previousSeq } })
}

/** Adds a repository to a database. */
export async function addRepository(db: Database, name = newId()): Promise<string> {
  const id = newId()
  const owner = { ownerTokenId: '', ownerUsername: 'ada' }
  await db
    .insertInto('repositories')
    .values({ id, name, nameKey: name.toLowerCase(), createdAt: 0, state: 'ready', ...owner })
    .execute()
  return id
}

/** Adds a webhook for pushes to a repository. */
export async function addWebhook(
  db: Database,
  scopeId: string,
  url: string,
  more: Partial<WebhookRow> = {},
): Promise<string> {
  const id = newId()
  const { host, port, protocol } = new URL(url)
  const receiver = port === '' ? `${host}:${protocol === 'https:' ? 443 : 80}` : host
  const row = {
    id,
    scopeId,
    url,
    receiver,
    events: 'push workflow',
    createdAt: 0,
    updatedAt: 0,
  }
  await db
    .insertInto('webhooks')
    .values({ ...row, ...more })
    .execute()
  return id
}

/** Publishes as many pushes to a repository, all in one transaction. */
export async function publishPushes(
  db: Database,
  repositoryId: string,
  count: number,
  now: number,
): Promise<void> {
  const data = {
    ref: 'refs/heads/main',
    before: '0'.repeat(40),
    after: '1'.repeat(40),
    forced: false,
    pushId: 'p',
    via: 'http',
    repositoryName: 'site',
  }
  const event = { kind: 'push' as const, actor: { id: 'a', username: 'ada' }, repositoryId, data }
  await db.transaction().execute((tx) =>
    publish(
      tx,
      now,
      Array.from({ length: count }, () => event),
    ),
  )
}
