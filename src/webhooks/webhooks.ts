import type { Clock } from '../base/clock.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import type { Log } from '../base/log.ts'
import type { Settings } from '../config/settings.ts'
import type { Database } from '../database/database.ts'
import type { EventNotifier } from '../events/event-notifier.ts'
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
  /** Names this server among those of one database, before and after it is started again. */
  holder: string
}

/** Webhooks: who is told of what happens in a repository, and how it gets there. */
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

    /** Clears away what is left of deleted webhooks. */
    purge: webhookService.purge,

    /** Clears away the webhooks of a repository that is about to be deleted. */
    purgeRepository: webhookService.purgeRepository,

    /** Forgets deliveries that are older than the settings say. */
    forget: (signal: AbortSignal) =>
      pruneDeliveries({ ...dependencies, keptDays: settings.deliveriesKeptDays, signal }),

    /** Starts to deliver what is due; ends with what it returns. */
    start({ onAttempt, stopMs }: { onAttempt: OnAttempt; stopMs: number }): AsyncDisposable {
      const needed = { ...dependencies, composer, signing, schedule }
      loop = createDeliveryLoop({ ...needed, onAttempt, stopMs })
      return loop
    },
  }
}
