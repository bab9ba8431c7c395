import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '#base/log.ts'
import { encryptionKeyFile, hostKeyFile } from './data-directory.ts'
import type { Settings } from './settings.ts'

type KeyFileSettings = Pick<Settings, 'dataDir' | 'encryptionKeyFile' | 'sshHostKeyFile'>
type OpenKey = { path: string; mode: string }

const groupAndOthers = 0o077

/** Lists the key files that other users of the machine could read or replace, with their modes. */
export async function findOpenKeys({
  dataDir,
  encryptionKeyFile: keyFile = join(dataDir, encryptionKeyFile),
  sshHostKeyFile: hostKey = join(dataDir, hostKeyFile),
}: KeyFileSettings): Promise<OpenKey[]> {
  const keys = await Promise.all([keyFile, hostKey].map(modeOf))
  return keys.filter((key) => key !== undefined)
}

/** Warns of key files that are open to other users. It is no error, since these users may be trusted. */
export async function warnOfOpenKeys(settings: KeyFileSettings, log: Log): Promise<void> {
  for (const { path, mode } of await findOpenKeys(settings)) {
    log.warn(
      { path, mode },
      'key file open to other users; replace the key if any could read it, and chmod 600',
    )
  }
}

async function modeOf(path: string): Promise<OpenKey | undefined> {
  const stats = await stat(path).catch(() => undefined)
  if (!stats?.isFile() || (stats.mode & groupAndOthers) === 0) return undefined
  return { path, mode: (stats.mode & 0o777).toString(8).padStart(4, '0') }
}
