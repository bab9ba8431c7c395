import type { Clock } from '../base/clock.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import type { Log } from '../base/log.ts'
import type { Settings } from '../config/settings.ts'
import type { Database } from '../database/database.ts'
import type { EventNotifier } from '../events/event-notifier.ts'
import type { Publish } from '../events/events.ts'
import type { Git } from '../git/process/git-process.ts'
import type { Outbound } from '../outbound/outbound.ts'
import type { Repositories } from '../repositories/repositories.ts'
import type { Vault } from '../vault/vault.ts'
import { type ComposerSources, createComposer } from './composer.ts'
import { createDeliveries } from './deliveries.ts'
import { createDeliveryLoop, type OnAttempt } from './delivery-loop.ts'
import { pruneDeliveries } from './delivery-retention.ts'
import { deliveryRoutes } from './delivery-routes.ts'
import { createSigningSecrets } from './signing-secrets.ts'
import { webhookRoutes } from './webhook-routes.ts'
import { createWebhookService } from './webhook-service.ts'

type Dependencies = ComposerSources & {
  db: Database
  publish: Publish
  git: Git
  notifier: EventNotifier
  vault: () => Promise<Vault>
  outbound: Outbound
  repositories: Repositories
  settings: Settings
  clock: Clock
  faultPoint: FaultPoint
  log: Log
  version: string
  /** The unique name of this server among those of one database; it stays the same after a restart. */
  leaseOwner: string
}

/** Webhooks: subscriptions to the events of a repository, and their deliveries. */
export function createWebhooks({ settings, ...dependencies }: Dependencies) {
  const { repositories } = dependencies
  const schedule = settings.webhookRetrySchedule
  let loop: ReturnType<typeof createDeliveryLoop> | undefined
  const wake = () => loop?.wake()
  const cutOff = async (webhookId: string) => loop?.cutOff(webhookId)
  const signing = createSigningSecrets(dependencies)
  const composer = createComposer(dependencies)
  const webhookService = createWebhookService({ ...dependencies, signing, wake, cutOff })
  const deliveries = createDeliveries({ ...dependencies, schedule, wake })

  return {
    routes: [
      ...webhookRoutes({ repositories, webhookService }),
      ...deliveryRoutes({ repositories, webhookService, deliveries }),
    ],

    /** Removes the rest of deleted webhooks. */
    purge: webhookService.purge,

    /** Removes the webhooks of a repository that is about to be deleted. */
    purgeRepository: webhookService.purgeRepository,

    /** Deletes deliveries older than the retention period of the settings. */
    prune: (signal: AbortSignal) =>
      pruneDeliveries({ ...dependencies, keptDays: settings.deliveriesKeptDays, signal }),

    /** Starts delivering, until the result is disposed. */
    start({ onAttempt, stopMs }: { onAttempt: OnAttempt; stopMs: number }): AsyncDisposable {
      const needed = { ...dependencies, composer, signing, schedule }
      loop = createDeliveryLoop({ ...needed, onAttempt, stopMs })
      return loop
    },
  }
}
