import type { Clock } from '#base/clock.ts'
import { isId, newId } from '#base/ids.ts'
import type { PageRequest } from '#base/list-all.ts'
import type { Outbound } from '#base/outbound/outbound.ts'
import { Problem } from '#base/problem.ts'
import type { Sensitive } from '#base/sensitive.ts'
import type { Database } from '#database/database.ts'
import type { WebhookRow } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import type { Actor, Publish } from '#events/events.ts'
import { invalid } from '#http/validation.ts'
import { asGone } from '#repositories/repository-errors.ts'
import { holdScope, type NamedScope, placeOf } from '#repositories/scopes.ts'
import {
  countPending,
  findDelivery,
  insertDeliveries,
  type NamedDelivery,
  redirectPending,
} from '../delivery-store.ts'
import { failPendingDeliveries } from '../disabling.ts'
import { listSigningSecrets } from '../signing-secret-store.ts'
import { type SigningSecrets, signingSecretError } from '../signing-secrets.ts'
import {
  bringForward,
  countWebhooks,
  findWebhook,
  insertWebhook,
  listWebhooks,
  updateWebhook,
} from '../webhook-store.ts'
import { readWebhookAddress } from './webhook-address.ts'
import { toWebhook, type WebhookView } from './webhook-view.ts'

/** A webhook with what it belongs to. */
export type ScopedWebhook = WebhookRow & { scope: NamedScope }

/** The webhooks of repositories and namespaces, from creation to the removal of their last delivery. */
export type WebhookService = {
  /** Lists the webhooks of a scope after an id, oldest first. */
  list: (scope: NamedScope, page: PageRequest) => Promise<WebhookView[]>
  /** Throws `webhook_not_found`. */
  find: (scope: NamedScope, id: string) => Promise<ScopedWebhook>
  show: (webhook: ScopedWebhook) => Promise<WebhookView>
  /**
   * Creates a webhook. Throws `invalid_request`, `outbound_forbidden`, `outbound_unresolved`, `too_many_webhooks`, with a
   * secret `encryption_key_missing`, and the Problems of `admitAgain`, which is called once its host is resolved.
   */
  create: (
    actor: Actor,
    scope: NamedScope,
    wanted: NewWebhook,
    admitAgain: AdmitAgain,
  ) => Promise<WebhookView>
  /** Changes a webhook. Throws the Problems of `create`, except `too_many_webhooks`, and `webhook_not_found`. */
  change: (
    actor: Actor,
    webhook: ScopedWebhook,
    change: WebhookChange,
    admitAgain: AdmitAgain,
  ) => Promise<WebhookView>
  /** Deletes a webhook. Nothing is sent to it after this returns. Throws `webhook_not_found`. */
  remove: (actor: Actor, webhook: ScopedWebhook) => Promise<void>
  /** Sends a ping to a webhook. Throws `webhook_not_found`. */
  ping: (actor: Actor, webhook: ScopedWebhook) => Promise<NamedDelivery>
}

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  outbound: Pick<Outbound, 'of'>
  signing: SigningSecrets
  /** Called when a delivery has become due. */
  wake: () => void
  /** Aborts the deliveries of a webhook that are in flight. */
  cutOff: (webhookId: string) => Promise<void>
}

/** See `Context` of routes. */
type AdmitAgain = () => Promise<void>

type NewWebhook = { url: string; events: string[]; secret?: Sensitive<string> | undefined }

/** A change of a webhook; a null secret removes it. */
type WebhookChange = {
  url?: string | undefined
  events?: string[] | undefined
  secret?: Sensitive<string> | null | undefined
  keepPreviousSecretSeconds?: number | undefined
  enabled?: boolean | undefined
}

/** Webhooks per repository, and per namespace. */
export const maxWebhooks = 20
/** How long deliveries are also signed with a replaced secret, by default. */
export const defaultKeepPreviousSeconds = 86_400

export function createWebhookService(dependencies: Dependencies): WebhookService {
  const { db, publish, clock, outbound, signing, wake, cutOff } = dependencies

  async function find(scope: NamedScope, id: string): Promise<ScopedWebhook> {
    const row = isId(id) ? await findWebhook(db, scope.id, id) : undefined
    if (!row) throw webhookNotFound(id)
    return { ...row, scope }
  }

  /** Parses a URL, and checks it against the outbound policy. */
  async function check(
    { username }: Actor,
    url: string,
  ): Promise<{ url: string; receiver: string }> {
    const address = readWebhookAddress(url)
    if ('fault' in address) throw invalid([{ pointer: '/url', detail: address.fault }])
    await outbound.of(username).resolve(address.host)
    return { url, receiver: address.receiver }
  }

  async function describe(scope: NamedScope, rows: WebhookRow[]) {
    const ids = rows.map(({ id }) => id)
    const secrets = await listSigningSecrets(db, ids, clock.now())
    const pending = await countPending(db, ids)
    return rows.map((row) => {
      const own = secrets.filter(({ webhookId }) => webhookId === row.id)
      return toWebhook(scope, row, own, pending.get(row.id) ?? 0)
    })
  }

  async function show(row: ScopedWebhook) {
    const [webhook] = await describe(row.scope, [row])
    if (!webhook) throw webhookNotFound(row.id)
    return webhook
  }

  return {
    async list(scope, page) {
      return describe(scope, await listWebhooks(db, scope.id, page))
    },

    find,
    show,

    async create(actor, scope, { url, events, secret }, admitAgain) {
      if (secret) assertSecret(secret)
      const address = await check(actor, url)
      await admitAgain()
      const now = clock.now()
      const { repositoryId, inNamespace } = placeOf(scope)
      const of = { id: newId(now), scopeId: scope.id }
      const sealed = secret && (await signing.seal(of, secret))
      const row = { ...of, ...address, events: events.join(' '), createdAt: now, updatedAt: now }
      const data = { webhookId: row.id, events, ...inNamespace }
      await db.transaction().execute(async (tx) => {
        await holdScope(tx, scope)
        await insertWebhook(tx, row)
        if (sealed) await signing.replace(tx, sealed, now)
        await publish(tx, now, [{ kind: 'webhook.created', actor, repositoryId, data }])
        // Counted last: publishing serializes concurrent creations, so their rows are visible now.
        if ((await countWebhooks(tx, scope.id)) > maxWebhooks) throw tooMany(scope)
      })
      return show(await find(scope, row.id))
    },

    async change(
      actor,
      webhook,
      { url, events, secret, keepPreviousSecretSeconds, enabled },
      admitAgain,
    ) {
      if (secret) assertSecret(secret)
      else if (keepPreviousSecretSeconds !== undefined) throw nothingToKeep()
      const { id, scope } = webhook
      const { repositoryId, inNamespace } = placeOf(scope)
      const address = url === undefined || url === webhook.url ? undefined : await check(actor, url)
      if (address) await admitAgain()
      const kinds = events?.join(' ')
      const areEventsChanged = kinds !== undefined && kinds !== webhook.events
      const isEnabledChanged = enabled !== undefined && enabled !== (webhook.isEnabled === 1)
      const sealed = secret && (await signing.seal(webhook, secret))
      const changed = Object.entries({
        url: address !== undefined,
        events: areEventsChanged,
        secret: secret !== undefined,
        enabled: isEnabledChanged,
      }).flatMap(([name, is]) => (is ? [name] : []))
      if (changed.length === 0) return show(webhook)
      const now = clock.now()
      const reason = `Disabled by ${actor.username}.`
      const keptMs = (keepPreviousSecretSeconds ?? defaultKeepPreviousSeconds) * 1000
      const changes = {
        updatedAt: now,
        ...(areEventsChanged && { events: kinds }),
        // The health of the former URL says nothing about the new one.
        ...(address && { ...address, failingSince: null }),
        ...(isEnabledChanged && (enabled ? asEnabled : asDisabled(reason, now))),
      }
      const row = await db.transaction().execute(async (tx) => {
        const data = { webhookId: id, changed, ...inNamespace }
        await publish(tx, now, [{ kind: 'webhook.updated', actor, repositoryId, data }])
        if (sealed) await signing.replace(tx, sealed, now + keptMs)
        if (secret === null) await signing.remove(tx, id)
        if (address) await redirectPending(tx, id, address.url)
        if (isEnabledChanged && !enabled)
          await failPendingDeliveries(tx, id, { now, hasLocks: address !== undefined })
        const updated = await updateWebhook(tx, { id }, changes)
        if (!updated) throw webhookNotFound(id)
        return updated
      })
      return show({ ...row, scope })
    },

    async remove(actor, { id, scope }) {
      const now = clock.now()
      const { repositoryId, inNamespace } = placeOf(scope)
      await db.transaction().execute(async (tx) => {
        const data = { webhookId: id, ...inNamespace }
        await publish(tx, now, [{ kind: 'webhook.deleted', actor, repositoryId, data }])
        await signing.remove(tx, id)
        if (!(await updateWebhook(tx, { id }, { deletedAt: now, dueAt: null })))
          throw webhookNotFound(id)
      })
      await cutOff(id)
    },

    async ping(actor, { id: webhookId, scope, url }) {
      const now = clock.now()
      const { repositoryId, inNamespace } = placeOf(scope)
      const about = {
        webhookId,
        repositoryId: scope.id,
        url,
        event: 'ping',
        seq: null,
        previousSeq: null,
      }
      // Requested manually, so a disabled webhook can be tested, too.
      const delivery = { ...about, id: newId(now), createdAt: now, dueAt: now, isWanted: 1 }
      const row = await db.transaction().execute(async (tx) => {
        // First: deliveries and webhooks are locked after the event counter.
        const data = { webhookId, deliveryId: delivery.id, ...inNamespace }
        await recordActions(tx, now, [{ action: 'webhook.pinged', actor, repositoryId, data }])
        await insertDeliveries(tx, [delivery]).catch(asGone(() => webhookNotFound(webhookId)))
        if (!(await bringForward(tx, webhookId, now))) throw webhookNotFound(webhookId)
        return findDelivery(tx, webhookId, delivery.id)
      })
      wake()
      return row ?? Promise.reject(webhookNotFound(webhookId))
    },
  }
}

const asEnabled = { isEnabled: 1, failingSince: null, disabledAt: null, disabledReason: '' }

function asDisabled(disabledReason: string, disabledAt: number) {
  return { isEnabled: 0, failingSince: null, disabledAt, disabledReason }
}

function assertSecret(secret: Sensitive<string>): void {
  const detail = signingSecretError(secret)
  if (detail !== undefined) throw invalid([{ pointer: '/secret', detail }])
}

function nothingToKeep(): Problem {
  const detail = 'applies only to a new `secret`; pass one, or omit this field.'
  return invalid([{ pointer: '/keepPreviousSecretSeconds', detail }])
}

function tooMany({ name }: NamedScope): Problem {
  return new Problem(
    'too_many_webhooks',
    `"${name}" has ${maxWebhooks} webhooks, which is the maximum; delete one first.`,
  )
}

export function webhookNotFound(id: string): Problem {
  return new Problem('webhook_not_found', `There is no webhook with the id "${id}".`)
}
