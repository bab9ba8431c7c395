import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import type { Settings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { EventNotifier } from '#events/event-notifier.ts'
import type { Publish } from '#events/events.ts'
import type { Git } from '#git/process/git-process.ts'
import type { JsonRoute } from '#http/route.ts'
import type { ScopeAccess } from '#repositories/scopes.ts'
import type { Vault } from '#secrets/vault/vault.ts'
import { type ComposerSources, createComposer } from './composing/composer.ts'
import { createDeliveryLoop, type DeliveryLoop } from './delivering/delivery-loop.ts'
import type { OnAttempt } from './delivering/delivery-worker.ts'
import { createDeliveries } from './management/deliveries.ts'
import { pruneDeliveries } from './management/delivery-retention.ts'
import { deliveryRoutes } from './management/delivery-routes.ts'
import { createPurge, type Purge } from './management/purge.ts'
import { webhookRoutes } from './management/webhook-routes.ts'
import { createWebhookService } from './management/webhook-service.ts'
import { createSigningSecrets } from './signing-secrets.ts'

/** Webhooks: subscriptions to the events of a repository or a namespace, and their deliveries. */
export type Webhooks = Purge & {
  routes: JsonRoute[]
  /** Deletes deliveries older than the retention period of the settings. */
  prune: (signal: AbortSignal) => Promise<void>
  /** Starts delivering, until the result is disposed. */
  start: (options: { onAttempt: OnAttempt; stopMs: number }) => AsyncDisposable
}

type Dependencies = ComposerSources &
  ScopeAccess & {
    db: Database
    publish: Publish
    git: Git
    notifier: EventNotifier
    vault: () => Promise<Vault>
    outbound: Outbound
    settings: Settings
    clock: Clock
    faultPoint: FaultPoint
    log: Log
    version: string
    /** The unique name of this server among those of one database; it stays the same after a restart. */
    leaseOwner: string
  }

export function createWebhooks(dependencies: Dependencies): Webhooks {
  const { db, repositories, namespaces, settings, clock } = dependencies
  const schedule = settings.webhookRetrySchedule
  let loop: DeliveryLoop | undefined
  const wake = () => loop?.wake()
  const cutOff = async (webhookId: string) => loop?.cutOff(webhookId)
  const signing = createSigningSecrets(dependencies)
  const composer = createComposer(dependencies)
  const webhookService = createWebhookService({ ...dependencies, signing, wake, cutOff })
  const deliveries = createDeliveries({ db, clock, schedule, wake })

  return {
    routes: [
      ...webhookRoutes({ repositories, namespaces, webhookService }),
      ...deliveryRoutes({ repositories, namespaces, webhookService, deliveries }),
    ],

    ...createPurge({ db, signing, cutOff }),

    prune: (signal) =>
      pruneDeliveries({ db, clock, keptDays: settings.deliveriesKeptDays, signal }),

    start(options) {
      loop = createDeliveryLoop({ ...dependencies, ...options, composer, signing, schedule })
      return loop
    },
  }
}
