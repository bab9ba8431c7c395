import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Sensitive } from '../base/sensitive.ts'
import { DataDirectoryError, encryptionKeyFile } from './data-directory.ts'
import { encryptionKeyForm, parseEncryptionKeys } from './setting-values.ts'
import { type Settings, SettingsError } from './settings.ts'

export type KeySettings = Pick<Settings, 'dataDir' | 'encryptionKey' | 'encryptionKeyFile'>

/** The keys for secrets, of which the first encrypts; none where none was given and the file is gone. */
export type EncryptionKeys = { keys: Sensitive<readonly Buffer[]>; source: string }

const fileMaxBytes = 65_536
const reasons: Record<string, string> = {
  ENOENT: 'it is not there',
  EISDIR: 'it is a folder',
  EACCES: 'it may not be read',
}

/** Where keys are taken from, as one calls it: a variable, or the path of the data directory's own file. */
export function sourceOfKeys({ dataDir, encryptionKey, encryptionKeyFile: file }: KeySettings) {
  if (encryptionKey) return 'SVC_ENCRYPTION_KEY'
  return file === undefined ? join(dataDir, encryptionKeyFile) : 'SVC_ENCRYPTION_KEY_FILE'
}

/** Reads the keys for secrets. Throws a SettingsError or a DataDirectoryError, neither of which repeats a value. */
export async function readEncryptionKeys(settings: KeySettings): Promise<EncryptionKeys> {
  const { encryptionKey, encryptionKeyFile: file } = settings
  const source = sourceOfKeys(settings)
  if (encryptionKey && file !== undefined) {
    throw new SettingsError(
      'SVC_ENCRYPTION_KEY, SVC_ENCRYPTION_KEY_FILE: both are set; keep the one and unset the other.',
    )
  }
  if (encryptionKey) return { keys: encryptionKey, source }
  return file === undefined ? readOwn(source) : { keys: await readGiven(file), source }
}

async function readOwn(path: string): Promise<EncryptionKeys> {
  const text = await readStart(path).catch((error) => {
    if (error.code === 'ENOENT') return undefined
    throw new DataDirectoryError(`${path} cannot be read: ${reasonOf(error)}.`, { cause: error })
  })
  if (text === undefined) return { keys: new Sensitive([]), source: path }
  const keys = parseEncryptionKeys(text)
  if (keys) return { keys, source: path }
  throw new DataDirectoryError(
    `${path} holds no key: ${encryptionKeyForm}. Bring it back from a backup.`,
  )
}

// The path is not repeated: somebody may have set the key itself in its place.
async function readGiven(path: string): Promise<EncryptionKeys['keys']> {
  const text = await readStart(path).catch((error) => {
    const fault = `the file that it names cannot be read: ${reasonOf(error)}`
    throw new SettingsError(`SVC_ENCRYPTION_KEY_FILE: ${fault}.`, { cause: error })
  })
  const keys = parseEncryptionKeys(text)
  if (keys) return keys
  throw new SettingsError(
    `SVC_ENCRYPTION_KEY_FILE: the file that it names holds no key; it takes ${encryptionKeyForm}.`,
  )
}

// Not blocking, and no more than keys can be: the path may be that of a pipe, or of something endless.
async function readStart(path: string): Promise<string> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const { bytesRead, buffer } = await file.read(Buffer.alloc(fileMaxBytes), 0, fileMaxBytes, null)
  return buffer.toString('latin1', 0, bytesRead)
}

function reasonOf({ code = '', message }: NodeJS.ErrnoException): string {
  return reasons[code] ?? code ?? message
}
