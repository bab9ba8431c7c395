import type { Clock } from '../base/clock.ts'
import { isId, newId } from '../base/ids.ts'
import { Problem } from '../base/problem.ts'
import type { Sensitive } from '../base/sensitive.ts'
import type { Database } from '../database/database.ts'
import type { DeliveryRow, WebhookRow } from '../database/schema.ts'
import { type Actor, publish } from '../events/events.ts'
import { invalid } from '../http/validation.ts'
import type { Outbound } from '../outbound/outbound.ts'
import type { Repository } from '../repositories/repositories.ts'
import { asGone, repositoryGone } from '../repositories/repository-errors.ts'
import {
  countPending,
  deleteDeliveries,
  findDelivery,
  insertDeliveries,
  redirectPending,
} from './delivery-store.ts'
import { giveUpWaiting } from './disabling.ts'
import { listSigningSecrets } from './signing-secret-store.ts'
import { faultOfSigningSecret, type SigningSecrets } from './signing-secrets.ts'
import { readWebhookAddress } from './webhook-address.ts'
import {
  bringForward,
  countWebhooks,
  findWebhook,
  insertWebhook,
  listDeletedWebhooks,
  listWebhooks,
  markWebhooksDeleted,
  removeWebhook,
  updateWebhook,
} from './webhook-store.ts'
import { toWebhook } from './webhook-view.ts'

export type WebhookService = ReturnType<typeof createWebhookService>

type Dependencies = {
  db: Database
  clock: Clock
  outbound: Pick<Outbound, 'resolve'>
  signing: SigningSecrets
  /** Called when something is due. */
  wake: () => void
  /** Cuts off what is on its way to a webhook. */
  cutOff: (webhookId: string) => Promise<void>
}

/** What a webhook is made of. */
export type NewWebhook = { url: string; events: string[]; secret?: Sensitive<string> | undefined }

/** What may be changed of a webhook; a secret that is null is removed. */
export type WebhookChange = {
  url?: string | undefined
  events?: string[] | undefined
  secret?: Sensitive<string> | null | undefined
  keepPreviousSecretSeconds?: number | undefined
  enabled?: boolean | undefined
}

/** Webhooks of one repository, at most. */
export const webhooksAtMost = 20
/** For how long the secret that is replaced signs, too, when nothing is said. */
export const keepPreviousUsualSeconds = 86_400

const deliveriesAtOnce = 500
const piecesAtOnce = 100

/** Who is told of a repository's events: webhooks, from their creation until nothing is left of them. */
export function createWebhookService(dependencies: Dependencies) {
  const { db, clock, outbound, signing, wake, cutOff } = dependencies

  /** A webhook of a repository; throws `webhook_not_found`. */
  async function find(repository: Repository, id: string): Promise<WebhookRow> {
    const row = isId(id) ? await findWebhook(db, repository.id, id) : undefined
    if (!row) throw webhookNotFound(id)
    return row
  }

  /** Reads an address, and asks whether it may be connected to. */
  async function check(url: string): Promise<{ url: string; receiver: string }> {
    const address = readWebhookAddress(url)
    if ('fault' in address) throw invalid([{ pointer: '/url', detail: address.fault }])
    await outbound.resolve(address.host)
    return { url, receiver: address.receiver }
  }

  async function describe(repository: Repository, rows: WebhookRow[]) {
    const ids = rows.map(({ id }) => id)
    const secrets = await listSigningSecrets(db, ids, clock.now())
    const pending = await countPending(db, ids)
    return rows.map((row) => {
      const own = secrets.filter(({ webhookId }) => webhookId === row.id)
      return toWebhook(repository, row, own, pending.get(row.id) ?? 0)
    })
  }

  async function show(repository: Repository, row: WebhookRow) {
    const [webhook] = await describe(repository, [row])
    if (!webhook) throw webhookNotFound(row.id)
    return webhook
  }

  /** Removes what is left of webhooks that were deleted, but no more than so many pieces; how many are left over. */
  async function clear(ids: string[], pieces: number): Promise<number> {
    let left = pieces
    for (const id of ids) {
      for (let isEmpty = false; !isEmpty; left--) {
        if (left === 0) return 0
        isEmpty = (await deleteDeliveries(db, id, deliveriesAtOnce)) < deliveriesAtOnce
      }
      await removeWebhook(db, id)
    }
    return left
  }

  return {
    /** The webhooks of a repository after an id, oldest first. */
    async list(repository: Repository, page: { after: string; limit: number | undefined }) {
      return describe(repository, await listWebhooks(db, repository.id, page))
    },

    find,
    show,

    /**
     * Makes a webhook. Throws `invalid_request`, `outbound_forbidden`, `outbound_unresolved`, `too_many_webhooks`,
     * and with a secret `encryption_key_missing`.
     */
    async create(actor: Actor, repository: Repository, { url, events, secret }: NewWebhook) {
      if (secret) assertSecret(secret)
      const address = await check(url)
      const [repositoryId, now] = [repository.id, clock.now()]
      const of = { id: newId(now), repositoryId }
      const sealed = secret && (await signing.seal(of, secret))
      const row = { ...of, ...address, events: events.join(' '), createdAt: now, updatedAt: now }
      const data = { webhookId: row.id, events }
      await db.transaction().execute(async (tx) => {
        await insertWebhook(tx, row).catch(asGone(() => repositoryGone(repository)))
        if (sealed) await signing.replace(tx, sealed, now)
        await publish(tx, now, [{ kind: 'webhook.created', actor, repositoryId, data }])
        // Counted last: who publishes waits for others that do, and then sees what they added.
        if ((await countWebhooks(tx, repositoryId)) > webhooksAtMost) throw tooMany(repository)
      })
      return show(repository, await find(repository, row.id))
    },

    /** Changes a webhook. Throws what `create` does, but for their number. */
    async change(
      actor: Actor,
      repository: Repository,
      webhook: WebhookRow,
      { url, events, secret, keepPreviousSecretSeconds, enabled }: WebhookChange,
    ) {
      if (secret) assertSecret(secret)
      else if (keepPreviousSecretSeconds !== undefined) throw nothingToKeep()
      const { id, repositoryId } = webhook
      const address = url === undefined || url === webhook.url ? undefined : await check(url)
      const kinds = events?.join(' ')
      const isOther = kinds !== undefined && kinds !== webhook.events
      const isSwitched = enabled !== undefined && enabled !== (webhook.isEnabled === 1)
      const sealed = secret && (await signing.seal(webhook, secret))
      const changed = Object.entries({
        url: address !== undefined,
        events: isOther,
        secret: secret !== undefined,
        enabled: isSwitched,
      }).flatMap(([name, is]) => (is ? [name] : []))
      if (changed.length === 0) return show(repository, webhook)
      const now = clock.now()
      const reason = `Disabled by ${actor.username}.`
      const keptMs = (keepPreviousSecretSeconds ?? keepPreviousUsualSeconds) * 1000
      const changes = {
        updatedAt: now,
        ...(isOther && { events: kinds }),
        // Of another receiver nothing is known yet.
        ...(address && { ...address, failingSince: null }),
        ...(isSwitched && (enabled ? asEnabled : asDisabled(reason, now))),
      }
      const row = await db.transaction().execute(async (tx) => {
        const data = { webhookId: id, changed }
        await publish(tx, now, [{ kind: 'webhook.updated', actor, repositoryId, data }])
        if (sealed) await signing.replace(tx, sealed, now + keptMs)
        if (secret === null) await signing.remove(tx, id)
        if (address) await redirectPending(tx, id, address.url)
        if (isSwitched && !enabled)
          await giveUpWaiting(tx, id, { now, hasLocks: address !== undefined })
        const updated = await updateWebhook(tx, { id }, changes)
        if (!updated) throw webhookNotFound(id)
        return updated
      })
      return show(repository, row)
    },

    /** Deletes a webhook; nothing more is sent to it from now on, and nobody finds it. Throws `webhook_not_found`. */
    async remove(actor: Actor, { id, repositoryId }: WebhookRow): Promise<void> {
      const now = clock.now()
      await db.transaction().execute(async (tx) => {
        const data = { webhookId: id }
        await publish(tx, now, [{ kind: 'webhook.deleted', actor, repositoryId, data }])
        await signing.remove(tx, id)
        if (!(await updateWebhook(tx, { id }, { deletedAt: now, dueAt: null })))
          throw webhookNotFound(id)
      })
      await cutOff(id)
    },

    /** Has something sent to a webhook to try it out. Throws `webhook_not_found`. */
    async ping({ id: webhookId, repositoryId, url }: WebhookRow): Promise<DeliveryRow> {
      const now = clock.now()
      const about = { webhookId, repositoryId, url, event: 'ping', seq: null, previousSeq: null }
      // Asked for by hand, so one that is disabled can be tried out, too.
      const delivery = { ...about, id: newId(now), createdAt: now, dueAt: now, isWanted: 1 }
      const row = await db.transaction().execute(async (tx) => {
        await insertDeliveries(tx, [delivery]).catch(asGone(() => webhookNotFound(webhookId)))
        if (!(await bringForward(tx, webhookId, now))) throw webhookNotFound(webhookId)
        return findDelivery(tx, webhookId, delivery.id)
      })
      wake()
      return row ?? Promise.reject(webhookNotFound(webhookId))
    },

    /** Removes some of what webhooks that were deleted have left behind, and secrets that have ended. */
    async purge(): Promise<void> {
      await signing.sweep()
      await clear(await listDeletedWebhooks(db), piecesAtOnce)
    },

    /** Removes the webhooks of a repository that is about to be deleted, in pieces: there may be very much of them. */
    async purgeRepository(repositoryId: string): Promise<void> {
      await markWebhooksDeleted(db, repositoryId, clock.now())
      const deleted = await listDeletedWebhooks(db, repositoryId)
      await Promise.all(deleted.map(cutOff))
      await clear(deleted, Number.POSITIVE_INFINITY)
    },
  }
}

const asEnabled = { isEnabled: 1, failingSince: null, disabledAt: null, disabledReason: '' }

function asDisabled(disabledReason: string, disabledAt: number) {
  return { isEnabled: 0, failingSince: null, disabledAt, disabledReason }
}

function assertSecret(secret: Sensitive<string>): void {
  const detail = faultOfSigningSecret(secret)
  if (detail !== undefined) throw invalid([{ pointer: '/secret', detail }])
}

function nothingToKeep(): Problem {
  const detail = 'is for a new `secret` alone; give one, or leave this out.'
  return invalid([{ pointer: '/keepPreviousSecretSeconds', detail }])
}

function tooMany({ name }: Repository): Problem {
  return new Problem(
    'too_many_webhooks',
    `"${name}" has ${webhooksAtMost} webhooks, which is the most; delete one first.`,
  )
}

/** What is told of a webhook that is not there, or not for the caller to see. */
export function webhookNotFound(id: string): Problem {
  return new Problem('webhook_not_found', `There is no webhook with the id "${id}".`)
}
