import type { Log } from '#base/log.ts'
import { Sensitive } from '#base/sensitive.ts'
import { type KeySettings, readEncryptionKeys, sourceOfKeys } from '#config/encryption-keys.ts'
import { SettingsError } from '#config/settings.ts'
import type { Db } from '#database/schema.ts'
import { readInstance, recordKeyId } from '#repositories/instance-store.ts'
import { type KeyUse, listKeyUses, type SealedTable } from './sealed-store.ts'
import { createVault, type Vault } from './vault/vault.ts'

const maxNamed = 3

/**
 * Lists the keys that stored secrets or other servers use and that are not configured. A server must not start if there
 * are any.
 */
export async function findUnknownKeys(
  db: Db,
  { keyIds }: Vault,
  tables?: readonly SealedTable[],
): Promise<KeyUse[]> {
  const uses = await listKeyUses(db, tables)
  const keyId = (await readInstance(db))?.keyId ?? undefined
  if (keyId !== undefined && !uses.some((use) => use.keyId === keyId))
    uses.push({ keyId, count: 0 })
  return uses.filter(({ keyId }) => !keyIds.includes(keyId))
}

/**
 * Checks that the configured keys open every secret, and include the key that the first server to start recorded. A
 * wrong key would otherwise be noticed only by a run, after new secrets were sealed with it. A server without any key
 * may start.
 */
export async function assertKeysOpen(
  db: Db,
  { vault, settings, log }: { vault: Vault; settings: KeySettings; log: Log },
): Promise<void> {
  const [first] = vault.keyIds
  let unknown = await findUnknownKeys(db, vault)
  if (unknown.length === 0 && first !== undefined) {
    await recordKeyId(db, first, null)
    // Another server may have been faster.
    unknown = await findUnknownKeys(db, vault)
  }
  if (unknown.length === 0) return
  const source = sourceOfKeys(settings)
  if (vault.keyIds.length === 0) {
    const text = 'there is no encryption key, and no secret can be opened or set'
    return log.error({ source, unknown }, text)
  }
  const hint = await hintOf(unknown, settings)
  const { fault, fix } = describeUnknown(unknown)
  throw new SettingsError(`${source}: ${fault} ${fix}${hint}`)
}

// A new variable may hide the key that the data directory already has.
async function hintOf(unknown: KeyUse[], { dataDir }: KeySettings): Promise<string> {
  const own = { dataDir, encryptionKey: undefined, encryptionKeyFile: undefined }
  const { keys, source } = await readEncryptionKeys(own).catch(() => ({ keys: noKeys, source: '' }))
  const { keyIds } = createVault(keys)
  const use = unknown.find(({ keyId }) => keyIds.includes(keyId))
  return use ? ` (${use.keyId} is the key in ${source}.)` : ''
}

const noKeys = new Sensitive<Buffer[]>([])

/** Describes how many secrets cannot be opened, which keys are missing, and how to fix it. */
export function describeUnknown(unknown: KeyUse[]): { fault: string; fix: string } {
  const count = unknown.reduce((sum, use) => sum + use.count, 0)
  const ids = unknown.slice(0, maxNamed).map(({ keyId }) => keyId)
  if (unknown.length > maxNamed) ids.push(`and ${unknown.length - maxNamed} more`)
  if (count === 0) {
    return {
      fault: `The service was set up with an encryption key that is not configured: ${ids.join(', ')}.`,
      fix: 'Set the key of the other servers; if it is lost, replace it by yours: svc secrets rotate.',
    }
  }
  const secrets = count === 1 ? '1 secret is' : `${count} secrets are`
  const keys =
    unknown.length === 1 ? 'a key that is not configured' : 'keys that are not configured'
  return {
    fault: `${secrets} sealed with ${keys}: ${ids.join(', ')}.`,
    fix: 'Add the old key after the new one, or delete these secrets: svc secrets rotate --discard-unreadable.',
  }
}
