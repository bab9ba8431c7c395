import { type KeySettings, readEncryptionKeys } from '../config/encryption-keys.ts'
import { createVault, type Vault } from './vault.ts'

/**
 * Opens the vault of the settings when it is first asked for, and then gives the same one: what needs no
 * secret works without a key, or with one that is not accepted.
 */
export function openVaultLater(settings: KeySettings): () => Promise<Vault> {
  let opened: Promise<Vault> | undefined
  return () => {
    opened ??= readEncryptionKeys(settings).then(({ keys }) => createVault(keys))
    return opened
  }
}
