import type { Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import { Problem } from '../base/problem.ts'
import type { Sensitive } from '../base/sensitive.ts'
import type { Database } from '../database/database.ts'
import type { Db, WebhookSecretRow } from '../database/schema.ts'
import { nameOfSigningSecret } from '../secrets/sealed-store.ts'
import { keyMissing } from '../secrets/secrets.ts'
import type { SecretBinding, Vault } from '../vault/vault.ts'
import {
  deleteEndedSigningSecrets,
  deleteSigningSecrets,
  endSigningSecret,
  insertSigningSecret,
  listSigningSecrets,
} from './signing-secret-store.ts'

export type SigningSecrets = ReturnType<typeof createSigningSecrets>

type Dependencies = { db: Database; clock: Clock; vault: () => Promise<Vault> }
type Webhook = { id: string; repositoryId: string }

export const secretMaxLength = 1024

/** How secrets of Standard Webhooks begin; what follows is the key in base64. */
const standardPrefix = 'whsec_'
const standardKeyLeast = 16

/** Why a text cannot be a signing secret, as the end of a sentence; undefined when it can. */
export function faultOfSigningSecret(secret: Sensitive<string>): string | undefined {
  const text = secret.reveal()
  // Half a surrogate pair has no UTF-8: no receiver could have the same key.
  if (!text.isWellFormed()) return 'is not accepted; it is no well-formed text.'
  if (!text.startsWith(standardPrefix)) return undefined
  const encoded = text.slice(standardPrefix.length)
  const key = Buffer.from(encoded, 'base64')
  if (key.toString('base64') === encoded && key.length >= standardKeyLeast) return undefined
  return (
    `is not accepted; after "${standardPrefix}" it takes at least ${standardKeyLeast} bytes in base64, as ` +
    'Standard Webhooks has it.'
  )
}

/** The secrets with which deliveries are signed: sealed, never answered, and for a while two while one is replaced. */
export function createSigningSecrets({ db, clock, vault }: Dependencies) {
  return {
    /**
     * The secrets with which a webhook's deliveries are signed now, the newest first; none when they are not signed.
     * Throws `encryption_key_missing` and `secret_unreadable`: nothing may be sent then.
     */
    async open(webhook: Webhook): Promise<Sensitive<string>[]> {
      const rows = await listSigningSecrets(db, [webhook.id], clock.now())
      if (rows.length === 0) return []
      const opened = await vault()
      if (opened.keyIds.length === 0) throw keyMissing()
      return rows.map((row) => openOne(opened, row))
    },

    /** Seals a secret for a webhook; throws `encryption_key_missing`. */
    async seal(webhook: Webhook, secret: Sensitive<string>): Promise<WebhookSecretRow> {
      const { seal, keyIds } = await vault()
      if (keyIds.length === 0) throw keyMissing()
      const [now, place] = [clock.now(), placeOf(webhook)]
      const { repositoryId } = place
      const of = { webhookId: webhook.id, repositoryId, createdAt: now, expiresAt: null }
      return { id: newId(now), ...of, ...seal(secret, place) }
    },

    /** Has a webhook's deliveries signed with a sealed secret, and until then with the one before, too. */
    async replace(tx: Db, secret: WebhookSecretRow, previousUntil: number): Promise<void> {
      // One before that which is replaced now ends at once: nobody is signed with more than two.
      await deleteSigningSecrets(tx, secret.webhookId, 'ending')
      if (previousUntil > clock.now()) await endSigningSecret(tx, secret.webhookId, previousUntil)
      else await deleteSigningSecrets(tx, secret.webhookId, 'all')
      await insertSigningSecret(tx, secret)
    },

    /** Has a webhook's deliveries signed no more. */
    remove: (tx: Db, webhookId: string) => deleteSigningSecrets(tx, webhookId, 'all'),

    /** Forgets those that have ended. */
    sweep: () => deleteEndedSigningSecrets(db, clock.now()),
  }
}

function openOne(vault: Vault, row: WebhookSecretRow): Sensitive<string> {
  const opened = vault.open(
    row.sealedValue,
    placeOf({ id: row.webhookId, repositoryId: row.repositoryId }),
  )
  if ('value' in opened) return opened.value
  throw new Problem(
    'secret_unreadable',
    `The signing secret of the webhook cannot be opened: ${opened.fault}. Set it again.`,
  )
}

function placeOf({ id, repositoryId }: Webhook): SecretBinding {
  return { repositoryId, name: nameOfSigningSecret(id) }
}
