import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import type { Actor, Publish } from '#events/events.ts'
import { resealRefreshTokens } from '#identity/logins/sealed-tokens.ts'
import { readInstance, recordKeyId } from '#repositories/instance-store.ts'
import { placeOf } from '#repositories/scopes.ts'
import {
  deleteSealed,
  listSealed,
  type SealedRow,
  sealedTables,
  updateSealed,
} from './sealed-store.ts'
import { keyMissing } from './secrets.ts'
import type { Vault } from './vault/vault.ts'

/** A secret that no key opens; `fault` is the end of a sentence. */
type Unreadable = { repoName: string; name: string; fault: string }

export type Rotated = {
  resealed: number
  /** The number of secrets that no key opens. */
  unreadable: number
  /** The first `maxNamed` of them. */
  named: Unreadable[]
  /** How many of them were deleted. */
  discarded: number
}

/** Reseals all secrets, of workflows, of webhooks and of logins, with the first key, so that the others can be removed. */
export type Rotation = {
  /**
   * Reseals every secret of another key. Each row is a transaction and is updated only if unchanged, so a kill loses
   * nothing, and concurrent changes are not overwritten. Throws `encryption_key_missing`.
   */
  rotate: (options: Options) => Promise<Rotated>
}

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  vault: () => Promise<Vault>
  faultPoint: FaultPoint
  /** Called when the signing secret of a webhook was deleted: its deliveries must not be sent unsigned. */
  disableWebhook: (
    tx: Db,
    webhook: { id: string; scopeId: string },
    why: { reason: string; actor: Actor; now: number },
  ) => Promise<boolean>
}

type Options = {
  /** Secrets that no key opens are deleted on behalf of this principal; undefined keeps them. */
  discardsAs?: Actor
  /** Called with the number of secrets resealed so far. */
  report: (resealed: number) => void
  /** Stops early; secrets that were resealed stay so. */
  signal: AbortSignal
}

const batchSize = 50
const maxPasses = 10
const maxNamed = 10

const lostSecret =
  'Its signing secret could not be opened any more and was deleted. Set a new one, and enable it.'

export function createRotation(dependencies: Dependencies): Rotation {
  const { db, publish, clock, vault, faultPoint, disableWebhook } = dependencies

  async function rotate({ discardsAs, report, signal }: Options): Promise<Rotated> {
    const keys = await vault()
    const [first] = keys.keyIds
    if (first === undefined) throw keyMissing()
    let [resealed, discarded] = [0, 0]
    for (let pass = 0; pass < maxPasses; pass++) {
      const named: Unreadable[] = []
      let unreadable = 0
      const ofLogins = await resealRefreshTokens(db, keys, signal)
      resealed += ofLogins
      let isChanged = ofLogins > 0
      for await (const row of rowsNotOf(first)) {
        signal.throwIfAborted()
        const result = keys.open(row.sealedValue, row)
        if ('value' in result) {
          if (await updateSealed(db, row, keys.seal(result.value, row))) report(++resealed)
          faultPoint('secrets.resealed')
          isChanged = true
          continue
        }
        unreadable++
        const { scopeName: repoName, name } = row
        if (named.length < maxNamed) named.push({ repoName, name, fault: result.fault })
        if (discardsAs && (await discard(discardsAs, row))) discarded++
      }
      // Repeated until a pass reseals nothing: servers may save secrets during a pass.
      if (isChanged) continue
      const isReplaced = (unreadable === 0 || discardsAs) && (await replaceKey(first))
      if (resealed > 0 || isReplaced) await record(resealed)
      return { resealed, unreadable, named, discarded }
    }
    throw new Error(
      'A server keeps saving secrets with another key. Start it with the keys that this command has, and rotate again.',
    )
  }

  /** Records the key that every server must have; false if it was recorded already. */
  async function replaceKey(keyId: string): Promise<boolean> {
    const former = (await readInstance(db))?.keyId ?? null
    return former !== keyId && recordKeyId(db, keyId, former)
  }

  async function record(values: number): Promise<void> {
    const actor = { id: 'local', username: 'admin' }
    const entry = { action: 'encryption_key.rotated', actor, repositoryId: null } as const
    await db
      .transaction()
      .execute((tx) => recordActions(tx, clock.now(), [{ ...entry, data: { values } }]))
  }

  async function* rowsNotOf(keyId: string): AsyncGenerator<SealedRow> {
    for (const { table } of sealedTables) {
      for (let after: string | undefined = ''; after !== undefined; ) {
        const rows: SealedRow[] = await listSealed(db, table, {
          after,
          limit: batchSize,
          notOf: keyId,
        })
        yield* rows
        after = rows.length < batchSize ? undefined : rows.at(-1)?.id
      }
    }
  }

  async function discard(actor: Actor, row: SealedRow): Promise<boolean> {
    const { name, webhook } = row
    const scope = { kind: row.scopeKind, id: row.scopeId, name: row.scopeName }
    const { repositoryId, inNamespace } = placeOf(scope)
    const [now, about] = [clock.now(), { actor, repositoryId }]
    return db.transaction().execute(async (tx) => {
      if (!(await deleteSealed(tx, row))) return false
      if (!webhook) {
        await publish(tx, now, [
          { kind: 'secret.deleted', ...about, data: { name, ...inNamespace } },
        ])
      } else if (webhook.isReplaced) {
        const data = { webhookId: webhook.id, changed: ['secret'], ...inNamespace }
        await publish(tx, now, [{ kind: 'webhook.updated', ...about, data }])
      } else {
        await disableWebhook(
          tx,
          { id: webhook.id, scopeId: row.scopeId },
          { reason: lostSecret, actor, now },
        )
      }
      return true
    })
  }

  return { rotate }
}
