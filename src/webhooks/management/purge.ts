import type { Clock } from '#base/clock.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { deleteDeliveries } from '../delivery-store.ts'
import { refreshDue } from '../queue-store.ts'
import type { SigningSecrets } from '../signing-secrets.ts'
import {
  listDeletedWebhooks,
  listWebhookIds,
  markWebhooksDeleted,
  removeWebhook,
} from '../webhook-store.ts'

/** Removes what is left of deleted webhooks. */
export type Purge = {
  /** Removes some of the rest of deleted webhooks, and expired secrets. */
  purge: () => Promise<void>
  /** Removes the webhooks of a repository that is about to be removed, in batches, since they may be large. */
  purgeRepository: (repositoryId: string) => Promise<void>
  /** Sets when the webhooks of a repository are due, in the transaction that has deleted or restored it. */
  refreshRepository: (tx: Db, repositoryId: string) => Promise<void>
  /** Aborts the deliveries that are in flight for a repository. */
  cutOffRepository: (repositoryId: string) => Promise<void>
}

type Dependencies = {
  db: Database
  clock: Clock
  signing: Pick<SigningSecrets, 'sweep'>
  /** Aborts the deliveries of a webhook that are in flight. */
  cutOff: (webhookId: string) => Promise<void>
}

const batchSize = 500
const maxBatchesPerPurge = 100

export function createPurge({ db, clock, signing, cutOff }: Dependencies): Purge {
  /** Removes the rest of deleted webhooks, in at most `maxBatches` batches, and returns how many batches remain. */
  async function clear(ids: string[], maxBatches: number): Promise<number> {
    let left = maxBatches
    for (const id of ids) {
      for (let isEmpty = false; !isEmpty; left--) {
        if (left === 0) return 0
        isEmpty = (await deleteDeliveries(db, id, batchSize)) < batchSize
      }
      await removeWebhook(db, id)
    }
    return left
  }

  return {
    async purge() {
      await signing.sweep()
      await clear(await listDeletedWebhooks(db), maxBatchesPerPurge)
    },

    async purgeRepository(repositoryId) {
      await markWebhooksDeleted(db, repositoryId, clock.now())
      const deleted = await listDeletedWebhooks(db, repositoryId)
      await Promise.all(deleted.map(cutOff))
      await clear(deleted, Number.POSITIVE_INFINITY)
      // What the webhooks of its namespace have of it.
      for (const id of await listWebhookIds(db, repositoryId, 'all')) {
        const some = () => deleteDeliveries(db, id, batchSize, repositoryId)
        while ((await some()) === batchSize);
      }
    },

    async refreshRepository(tx, repositoryId) {
      const ids = await listWebhookIds(tx, repositoryId, 'all')
      if (ids.length > 0) await refreshDue(tx, ids)
    },

    async cutOffRepository(repositoryId) {
      await Promise.all((await listWebhookIds(db, repositoryId, 'own')).map(cutOff))
    },
  }
}
