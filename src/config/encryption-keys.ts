import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Sensitive } from '#base/sensitive.ts'
import { DataDirectoryError, encryptionKeyFile } from './data-directory.ts'
import { encryptionKeyForm, parseEncryptionKeys } from './setting-values.ts'
import { type Settings, SettingsError } from './settings.ts'

export type KeySettings = Pick<Settings, 'dataDir' | 'encryptionKey' | 'encryptionKeyFile'>

/** The encryption keys for secrets, of which the first encrypts; empty when none is set and the file is missing. */
type EncryptionKeys = { keys: Sensitive<readonly Buffer[]>; source: string }

const maxFileBytes = 65_536
const reasons: Record<string, string> = {
  ENOENT: 'no such file',
  EISDIR: 'it is a directory',
  EACCES: 'permission denied',
}

/** The source of the keys for messages: a variable's name, or the path of the file in the data directory. */
export function sourceOfKeys({ dataDir, encryptionKey, encryptionKeyFile: file }: KeySettings) {
  if (encryptionKey) return 'SVC_ENCRYPTION_KEY'
  return file === undefined ? join(dataDir, encryptionKeyFile) : 'SVC_ENCRYPTION_KEY_FILE'
}

/** Reads the encryption keys. Throws a SettingsError or a DataDirectoryError; neither contains a key. */
export async function readEncryptionKeys(settings: KeySettings): Promise<EncryptionKeys> {
  const { encryptionKey, encryptionKeyFile: file } = settings
  const source = sourceOfKeys(settings)
  if (encryptionKey && file !== undefined) {
    throw new SettingsError(
      'SVC_ENCRYPTION_KEY, SVC_ENCRYPTION_KEY_FILE: both are set; unset one of them.',
    )
  }
  if (encryptionKey) return { keys: encryptionKey, source }
  return file === undefined ? readDefaultFile(source) : { keys: await readKeyFile(file), source }
}

async function readDefaultFile(path: string): Promise<EncryptionKeys> {
  const text = await readStart(path).catch((error) => {
    if (error.code === 'ENOENT') return undefined
    throw new DataDirectoryError(`${path} cannot be read: ${reasonOf(error)}.`, { cause: error })
  })
  if (text === undefined) return { keys: new Sensitive([]), source: path }
  const keys = parseEncryptionKeys(text)
  if (keys) return { keys, source: path }
  throw new DataDirectoryError(
    `${path} holds no valid key: ${encryptionKeyForm}. Restore it from a backup.`,
  )
}

// Error texts leave out the path: the variable may hold the key itself by mistake.
async function readKeyFile(path: string): Promise<EncryptionKeys['keys']> {
  const text = await readStart(path).catch((error) => {
    const fault = `the file cannot be read: ${reasonOf(error)}`
    throw new SettingsError(`SVC_ENCRYPTION_KEY_FILE: ${fault}.`, { cause: error })
  })
  const keys = parseEncryptionKeys(text)
  if (keys) return keys
  throw new SettingsError(
    `SVC_ENCRYPTION_KEY_FILE: the file holds no valid key; it takes ${encryptionKeyForm}.`,
  )
}

// Non-blocking and limited: the path may be a pipe or an endless device.
async function readStart(path: string): Promise<string> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const { bytesRead, buffer } = await file.read(Buffer.alloc(maxFileBytes), 0, maxFileBytes, null)
  return buffer.toString('latin1', 0, bytesRead)
}

function reasonOf({ code = '', message }: NodeJS.ErrnoException): string {
  return reasons[code] ?? code ?? message
}
