import type { DeliveryAttemptRow, WebhookRow, WebhookSecretRow } from '#database/schema.ts'
import { type NamedScope, nameField } from '#repositories/scopes.ts'
import type { NamedDelivery } from '../delivery-store.ts'
import { maxAttempts, type Schedule } from '../retry-schedule.ts'

export type WebhookView = ReturnType<typeof toWebhook>
export type DeliveryView = ReturnType<typeof toDelivery>
export type AttemptView = ReturnType<typeof toAttempt>

/** The API's view of a webhook. Of its secrets it shows only whether there is one, and when the previous one expires. */
export function toWebhook(
  scope: NamedScope,
  webhook: WebhookRow,
  secrets: WebhookSecretRow[],
  pending: number,
) {
  const { id, url, events, createdAt, updatedAt, isEnabled, failingSince } = webhook
  const { disabledAt, disabledReason, lastSeq } = webhook
  const previous = secrets.find(({ expiresAt }) => expiresAt !== null)
  return {
    id,
    ...nameField(scope),
    url,
    events: events.split(' '),
    createdAt,
    updatedAt,
    enabled: isEnabled === 1,
    health: healthOf(webhook),
    failingSince,
    disabledAt,
    disabledReason: disabledReason === '' ? null : disabledReason,
    hasSecret: secrets.length > 0,
    secretExpiresAt: previous?.expiresAt ?? null,
    lastSequence: lastSeq,
    pending,
  }
}

function healthOf({ isEnabled, failingSince }: WebhookRow): 'healthy' | 'failing' | 'disabled' {
  if (isEnabled !== 1) return 'disabled'
  return failingSince === null ? 'healthy' : 'failing'
}

/** The API's view of a delivery in lists. */
export function toDelivery(scope: NamedScope, delivery: NamedDelivery, schedule: Schedule) {
  const { id, webhookId, event, url, status, attempts, createdAt, lastAttemptAt } = delivery
  const { responseStatus, seq, previousSeq, dueAt, completedAt, duration, fault } = delivery
  return {
    id,
    webhookId,
    ...placeOfDelivery(scope, delivery),
    event,
    url,
    status,
    attempts,
    maxAttempts: maxAttempts(event, schedule),
    createdAt,
    lastAttemptAt,
    responseStatus,
    seq,
    previousSeq,
    nextAttemptAt: dueAt,
    completedAt,
    duration,
    error: fault === '' ? null : fault,
  }
}

function placeOfDelivery({ kind, name }: NamedScope, { repositoryName: repoName }: NamedDelivery) {
  return kind === 'repository' ? { repoName: name } : { namespace: name, repoName }
}

export function toAttempt(row: DeliveryAttemptRow) {
  const trigger: 'manual' | 'schedule' = row.isManual === 1 ? 'manual' : 'schedule'
  const { attempt, startedAt, duration, url, requestHeaders, fault } = row
  const { responseStatus, responseHeaders, responseBody } = row
  return {
    attempt,
    trigger,
    startedAt,
    duration,
    url,
    requestHeaders: JSON.parse(requestHeaders),
    responseStatus,
    responseHeaders: JSON.parse(responseHeaders),
    responseBody,
    error: fault === '' ? null : fault,
  }
}
