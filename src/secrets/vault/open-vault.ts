import { once } from '#base/once.ts'
import { type KeySettings, readEncryptionKeys } from '#config/encryption-keys.ts'
import { createVault, type Vault } from './vault.ts'

/** Opens the vault of the settings on first use, so that everything without secrets works without a valid key. */
export function openVaultLater(settings: KeySettings): () => Promise<Vault> {
  return once(async () => createVault((await readEncryptionKeys(settings)).keys))
}
