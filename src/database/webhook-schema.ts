import type { Generated, Selectable } from 'kysely'

export type WebhookTable = {
  id: string
  repositoryId: string
  url: string
  /** Kinds of events, separated by spaces. */
  events: string
  /** Host and port of its URL; deliveries to one receiver share its limits. */
  receiver: string
  createdAt: number
  updatedAt: number
  isEnabled: Generated<number>
  /** Since when all attempts have failed; null after a success. */
  failingSince: number | null
  disabledAt: number | null
  disabledReason: Generated<string>
  /** The sequence number of the last event with a delivery. */
  lastSeq: Generated<number>
  /** The earliest time at which a delivery may be due; null when none is pending. */
  dueAt: number | null
  /** Set once it is deleted; its deliveries are removed in the background. */
  deletedAt: number | null
}

export type WebhookRow = Selectable<WebhookTable>

/** A signing secret of a webhook, sealed for the binding `{ repositoryId, name: 'webhook ' + webhookId }`. */
export type WebhookSecretRow = {
  id: string
  webhookId: string
  repositoryId: string
  sealedValue: Uint8Array
  /** The id of its key, in hex. */
  keyId: string
  createdAt: number
  /** Until when deliveries are also signed with this replaced secret; null for the current one. */
  expiresAt: number | null
}

export type DeliveryStatus = 'pending' | 'success' | 'failed'

/** The delivery of one event to one webhook. */
export type DeliveryTable = {
  id: string
  webhookId: string
  repositoryId: string
  /** `push`, `workflow` or `ping`. */
  event: string
  /** Sequence numbers of the event, and of the previous event for this webhook; null for a ping. */
  seq: number | null
  previousSeq: number | null
  url: string
  status: DeliveryStatus
  attempts: Generated<number>
  createdAt: number
  /** When the next attempt may be made; null unless it is pending. */
  dueAt: number | null
  /** When the lease ends, and its owner. */
  leaseUntil: Generated<number>
  leaseHolder: Generated<string>
  /** 1 when an attempt was requested manually and has not started. */
  isWanted: Generated<number>
  lastAttemptAt: number | null
  completedAt: number | null
  responseStatus: number | null
  /** Of the last attempt, in milliseconds. */
  duration: number | null
  /** Why the last attempt failed; empty when it did not. */
  fault: Generated<string>
}

export type DeliveryRow = Selectable<DeliveryTable>

export type DeliveryAttemptRow = {
  deliveryId: string
  attempt: number
  isManual: number
  startedAt: number
  duration: number
  url: string
  /** JSON: by name, without signatures. */
  requestHeaders: string
  responseStatus: number | null
  /** JSON: by name. */
  responseHeaders: string
  /** The start of the response body. */
  responseBody: string
  fault: string
}
