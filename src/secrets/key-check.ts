import type { Log } from '../base/log.ts'
import { Sensitive } from '../base/sensitive.ts'
import { type KeySettings, readEncryptionKeys, sourceOfKeys } from '../config/encryption-keys.ts'
import { SettingsError } from '../config/settings.ts'
import type { Db } from '../database/schema.ts'
import { createVault, type Vault } from '../vault/vault.ts'
import { type KeyUse, listKeyUses, type SealedTable } from './sealed-store.ts'

const maxNamed = 3

/** The keys with which secrets are sealed and which are not on the ring: with any, no server should start. */
export async function findUnknownKeys(
  db: Db,
  { keyIds }: Vault,
  tables?: readonly SealedTable[],
): Promise<KeyUse[]> {
  const uses = await listKeyUses(db, tables)
  return uses.filter(({ keyId }) => !keyIds.includes(keyId))
}

/**
 * Refuses keys that do not open every secret: a wrong key would otherwise be noticed by a run, long after new
 * secrets were sealed with it. Without any key a server may start, for nothing can get worse.
 */
export async function assertKeysOpen(
  db: Db,
  { vault, settings, log }: { vault: Vault; settings: KeySettings; log: Log },
): Promise<void> {
  const unknown = await findUnknownKeys(db, vault)
  if (unknown.length === 0) return
  const source = sourceOfKeys(settings)
  if (vault.keyIds.length === 0) {
    const text = 'there is no encryption key, and no secret can be opened or set'
    return log.error({ source, unknown }, text)
  }
  const hint = await whereElse(unknown, settings)
  throw new SettingsError(`${source}: ${describeUnknown(unknown)} ${unknownFix}${hint}`)
}

// Who has just set a variable may not know that the data directory has had a key all along.
async function whereElse(unknown: KeyUse[], { dataDir }: KeySettings): Promise<string> {
  const own = { dataDir, encryptionKey: undefined, encryptionKeyFile: undefined }
  const { keys, source } = await readEncryptionKeys(own).catch(() => ({ keys: noKeys, source: '' }))
  const { keyIds } = createVault(keys)
  const found = unknown.find(({ keyId }) => keyIds.includes(keyId))
  return found ? ` (${found.keyId} is the key in ${source}.)` : ''
}

const noKeys = new Sensitive<Buffer[]>([])

/** How many secrets cannot be opened, and for want of which keys. */
export function describeUnknown(unknown: KeyUse[]): string {
  const count = unknown.reduce((sum, use) => sum + use.count, 0)
  const secrets = count === 1 ? '1 secret is' : `${count} secrets are`
  const ids = unknown.slice(0, maxNamed).map(({ keyId }) => keyId)
  if (unknown.length > maxNamed) ids.push(`and ${unknown.length - maxNamed} more`)
  const keys = unknown.length === 1 ? 'a key that is not given' : 'keys that are not given'
  return `${secrets} sealed with ${keys}: ${ids.join(', ')}.`
}

/** What to do about it. */
export const unknownFix =
  'Give the old key after the new one, or give these secrets up: svc secrets rotate --discard-unreadable.'
