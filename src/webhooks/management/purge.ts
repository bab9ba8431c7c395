import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { deleteWebhooksOf } from '#repositories/scope-store.ts'
import { deleteDeliveries } from '../delivery-store.ts'
import { refreshDue } from '../queue-store.ts'
import type { SigningSecrets } from '../signing-secrets.ts'
import { listDeletedWebhooks, listWebhookIds, removeWebhook } from '../webhook-store.ts'

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
  signing: Pick<SigningSecrets, 'sweep'>
  /** Aborts the deliveries of a webhook that are in flight. */
  cutOff: (webhookId: string) => Promise<void>
}

const batchSize = 500
const maxBatchesPerPurge = 100

export function createPurge({ db, signing, cutOff }: Dependencies): Purge {
  /** Removes the rest of deleted webhooks, in at most `maxBatches` batches, and returns how many batches remain. */
  async function clear(ids: string[], maxBatches: number): Promise<number> {
    let left = maxBatches
    for (const id of ids) {
      for (let isEmpty = false; !isEmpty; left--) {
        if (left === 0) return 0
        isEmpty = (await deleteDeliveries(db, { webhookId: id }, batchSize)) < batchSize
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
      await deleteWebhooksOf(db, repositoryId)
      const deleted = await listDeletedWebhooks(db, repositoryId)
      await Promise.all(deleted.map(cutOff))
      await clear(deleted, Number.POSITIVE_INFINITY)
      // What webhooks of namespaces have of it.
      const some = () => deleteDeliveries(db, { repositoryId }, batchSize)
      while ((await some()) === batchSize);
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
