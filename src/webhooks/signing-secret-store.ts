import type { Db, WebhookSecretRow } from '#database/schema.ts'

export async function insertSigningSecret(db: Db, secret: WebhookSecretRow): Promise<void> {
  await db.insertInto('webhookSecrets').values(secret).execute()
}

/** The secrets of webhooks that are valid at a time, newest first; only the newest has no expiry. */
export function listSigningSecrets(
  db: Db,
  webhookIds: string[],
  now: number,
): Promise<WebhookSecretRow[]> {
  if (webhookIds.length === 0) return Promise.resolve([])
  return db
    .selectFrom('webhookSecrets')
    .selectAll()
    .where('webhookId', 'in', webhookIds)
    .where((is) => is.or([is('expiresAt', 'is', null), is('expiresAt', '>', now)]))
    .orderBy((is) => is('expiresAt', 'is not', null))
    .execute()
}

/** Sets the expiry of the current secret of a webhook. */
export async function endSigningSecret(
  db: Db,
  webhookId: string,
  expiresAt: number,
): Promise<void> {
  await db
    .updateTable('webhookSecrets')
    .set({ expiresAt })
    .where('webhookId', '=', webhookId)
    .where('expiresAt', 'is', null)
    .execute()
}

/** Deletes the secrets of a webhook: all, or only those with an expiry. */
export async function deleteSigningSecrets(
  db: Db,
  webhookId: string,
  which: 'all' | 'ending',
): Promise<void> {
  const query = db.deleteFrom('webhookSecrets').where('webhookId', '=', webhookId)
  await (which === 'all' ? query : query.where('expiresAt', 'is not', null)).execute()
}

/** Deletes the expired secrets of all webhooks. */
export async function deleteEndedSigningSecrets(db: Db, now: number): Promise<void> {
  await db.deleteFrom('webhookSecrets').where('expiresAt', '<=', now).execute()
}
