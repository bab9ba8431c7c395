import { once } from '../base/once.ts'
import { type KeySettings, readEncryptionKeys } from '../config/encryption-keys.ts'
import { createVault, type Vault } from './vault.ts'

/** Opens the vault at its first use: what needs no secret works without a key, or with one that is not accepted. */
export function openVaultLater(settings: KeySettings): () => Promise<Vault> {
  return once(async () => createVault((await readEncryptionKeys(settings)).keys))
}
