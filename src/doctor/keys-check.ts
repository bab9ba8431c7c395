import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../base/error-code.ts'
import { shellWord } from '../base/shell-word.ts'
import { encryptionKeyFile } from '../config/data-directory.ts'
import { type KeySettings, readEncryptionKeys, sourceOfKeys } from '../config/encryption-keys.ts'
import { SettingsError } from '../config/settings.ts'
import { findHostKey, hostKeyFile } from '../ssh/host-key.ts'
import type { Check } from './check.ts'
import type { DoctorContext } from './context.ts'
import { type Finding, fault, messageOf, orOk, warning } from './finding.ts'

const forOthers = 0o077

/** Whether the keys are there, whole, and their files closed to everybody else. */
export const keysCheck: Check = {
  id: 'keys',
  title: 'keys and the modes of their files',
  async run(context) {
    const folder = await context.dataDir()
    const settings = keySettings(context)
    const isSshOn = context.setting('sshPort') !== 'off'
    const findings = [
      ...(await openFindings(join(folder, encryptionKeyFile))),
      ...(await encryptionFindings(settings)),
      ...(await openFindings(join(folder, hostKeyFile))),
      ...(isSshOn ? await hostKeyFindings(folder) : []),
    ]
    const source = sourceOfKeys(settings).split('/').at(-1)
    return orOk(findings, `${source}${isSshOn ? ` and ${hostKeyFile}` : ''}.`)
  },
}

/** What says where keys are; throws a Skip when it is not accepted. */
export function keySettings({ setting }: DoctorContext): KeySettings {
  return {
    dataDir: setting('dataDir'),
    encryptionKey: setting('encryptionKey'),
    encryptionKeyFile: setting('encryptionKeyFile'),
  }
}

async function openFindings(path: string): Promise<Finding[]> {
  const mode = await stat(path).then(
    ({ mode }) => mode,
    () => 0,
  )
  if ((mode & forOthers) === 0) return []
  const shown = (mode & 0o777).toString(8).padStart(4, '0')
  return [
    fault(
      `${path} is open to other users (mode ${shown}); if any could have read it, the key must be replaced.`,
      `chmod 600 ${shellWord(path)}`,
    ),
  ]
}

async function encryptionFindings(settings: KeySettings): Promise<Finding[]> {
  const source = sourceOfKeys(settings)
  try {
    const { keys } = await readEncryptionKeys(settings)
    if (keys.reveal().length > 0) return []
  } catch (error) {
    return [fault(messageOf(error), mendOf(error, settings))]
  }
  return [
    warning(
      `${source} is missing; what it has encrypted cannot be read without it.`,
      'Bring it back from a backup, or set SVC_ENCRYPTION_KEY. No other is ever made: it could not open what this one has sealed.',
    ),
  ]
}

function mendOf(error: unknown, settings: KeySettings): string {
  if (error instanceof SettingsError) return 'Set it as svc serve --help says.'
  const path = shellWord(sourceOfKeys(settings))
  const isForbidden = codeOf(error instanceof Error ? error.cause : undefined) === 'EACCES'
  return isForbidden ? `chmod 600 ${path}` : `Bring ${path} back from a backup.`
}

async function hostKeyFindings(folder: string): Promise<Finding[]> {
  const path = join(folder, hostKeyFile)
  try {
    if (await findHostKey(folder)) return []
  } catch (error) {
    const mend = `Bring ${shellWord(path)} back from a backup, or have a new one made at the next start: mv ${shellWord(path)} ${shellWord(`${path}.bad`)}`
    return [fault(messageOf(error), mend)]
  }
  return [
    warning(
      `${path} is missing: the next start makes another, of which SSH clients will warn.`,
      'Bring it back from a backup before the next start.',
    ),
  ]
}
