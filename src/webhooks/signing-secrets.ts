import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Sensitive } from '#base/sensitive.ts'
import type { Database } from '#database/database.ts'
import type { Db, WebhookSecretRow } from '#database/schema.ts'
import { nameOfSigningSecret } from '#secrets/sealed-store.ts'
import { keyMissing } from '#secrets/secrets.ts'
import type { SecretBinding, Vault } from '#secrets/vault/vault.ts'
import {
  deleteEndedSigningSecrets,
  deleteSigningSecrets,
  endSigningSecret,
  insertSigningSecret,
  listSigningSecrets,
} from './signing-secret-store.ts'

/** The signing secrets of webhooks: stored sealed and never returned. After a replacement both are valid for a while. */
export type SigningSecrets = {
  /**
   * Opens the valid secrets of a webhook, newest first; none when its deliveries are not signed. Throws
   * `encryption_key_missing` and `secret_unreadable`: a delivery must not be sent unsigned then.
   */
  open: (webhook: Webhook) => Promise<Sensitive<string>[]>
  /** Seals a secret for a webhook; throws `encryption_key_missing`. */
  seal: (webhook: Webhook, secret: Sensitive<string>) => Promise<WebhookSecretRow>
  /** Replaces the secret of a webhook; the previous one stays valid until a time. */
  replace: (tx: Db, secret: WebhookSecretRow, previousUntil: number) => Promise<void>
  remove: (tx: Db, webhookId: string) => Promise<void>
  /** Deletes expired secrets. */
  sweep: () => Promise<void>
}

type Dependencies = { db: Database; clock: Clock; vault: () => Promise<Vault> }
type Webhook = { id: string; scopeId: string }

export const secretMaxLength = 1024

/** The prefix of Standard Webhooks secrets; the rest is the key in base64. */
const standardPrefix = 'whsec_'
const minStandardKeyBytes = 16

/** Why a signing secret is invalid, as the end of a sentence; undefined when it is valid. */
export function signingSecretError(secret: Sensitive<string>): string | undefined {
  const text = secret.reveal()
  // A lone surrogate has no UTF-8 encoding, so no receiver could have the same key.
  if (!text.isWellFormed()) return 'must be well-formed Unicode text.'
  if (!text.startsWith(standardPrefix)) return undefined
  const encoded = text.slice(standardPrefix.length)
  const key = Buffer.from(encoded, 'base64')
  if (key.toString('base64') === encoded && key.length >= minStandardKeyBytes) return undefined
  return (
    `must have at least ${minStandardKeyBytes} bytes in base64 after "${standardPrefix}", as in ` +
    'Standard Webhooks.'
  )
}

export function createSigningSecrets({ db, clock, vault }: Dependencies): SigningSecrets {
  return {
    async open(webhook) {
      const rows = await listSigningSecrets(db, [webhook.id], clock.now())
      if (rows.length === 0) return []
      const opened = await vault()
      if (opened.keyIds.length === 0) throw keyMissing()
      return rows.map((row) => openOne(opened, row))
    },

    async seal(webhook, secret) {
      const { seal, keyIds } = await vault()
      if (keyIds.length === 0) throw keyMissing()
      const [now, binding] = [clock.now(), bindingOf(webhook)]
      const { scopeId } = webhook
      const columns = { webhookId: webhook.id, scopeId, createdAt: now, expiresAt: null }
      return { id: newId(now), ...columns, ...seal(secret, binding) }
    },

    async replace(tx, secret, previousUntil) {
      // An older secret that is still valid ends now, so that at most two are.
      await deleteSigningSecrets(tx, secret.webhookId, 'ending')
      if (previousUntil > clock.now()) await endSigningSecret(tx, secret.webhookId, previousUntil)
      else await deleteSigningSecrets(tx, secret.webhookId, 'all')
      await insertSigningSecret(tx, secret)
    },

    remove: (tx, webhookId) => deleteSigningSecrets(tx, webhookId, 'all'),

    sweep: () => deleteEndedSigningSecrets(db, clock.now()),
  }
}

function openOne(vault: Vault, row: WebhookSecretRow): Sensitive<string> {
  const opened = vault.open(row.sealedValue, bindingOf({ id: row.webhookId, scopeId: row.scopeId }))
  if ('value' in opened) return opened.value
  throw new Problem(
    'secret_unreadable',
    `The signing secret of the webhook cannot be opened: ${opened.fault}. Set it again.`,
  )
}

function bindingOf({ id, scopeId }: Webhook): SecretBinding {
  return { scopeId, name: nameOfSigningSecret(id) }
}
