import { basename, join } from 'node:path'
import { codeOf } from '#base/error-code.ts'
import { shellWord } from '#base/shell-word.ts'
import { hostKeyFile } from '#config/data-directory.ts'
import { type KeySettings, readEncryptionKeys, sourceOfKeys } from '#config/encryption-keys.ts'
import { findOpenKeys } from '#config/key-files.ts'
import { SettingsError } from '#config/settings.ts'
import { findHostKey } from '#ssh/host-key.ts'
import type { Check } from '../check.ts'
import type { DoctorContext } from '../context.ts'
import { type Finding, type Findings, fault, messageOf, orOk, warning } from '../finding.ts'

/** Checks that the keys exist and are valid, and that only the owner can read their files. */
export const keysCheck: Check = {
  id: 'keys',
  title: 'keys and the modes of their files',
  async run(context) {
    const folder = await context.dataDir()
    const settings = keySettings(context)
    const hostKey = context.setting('sshHostKeyFile') ?? join(folder, hostKeyFile)
    const isSshOn = context.setting('sshPort') !== 'off'
    const open = await findOpenKeys({
      ...settings,
      sshHostKeyFile: context.setting('sshHostKeyFile'),
    })
    const findings = [
      ...open.map(toFinding),
      await encryptionFindings(settings),
      isSshOn && (await hostKeyFindings(hostKey)),
    ]
    const source = sourceOfKeys(settings).split('/').at(-1)
    return orOk(findings, `${source}${isSshOn ? ` and ${basename(hostKey)}` : ''}.`)
  },
}

/** Returns the settings of keys. Throws a SkipError when one is not accepted. */
export function keySettings({ setting }: DoctorContext): KeySettings {
  return {
    dataDir: setting('dataDir'),
    encryptionKey: setting('encryptionKey'),
    encryptionKeyFile: setting('encryptionKeyFile'),
  }
}

function toFinding({ path, mode }: { path: string; mode: string }): Finding {
  return fault(
    `${path} is open to other users (mode ${mode}); if any could have read it, the key must be replaced.`,
    `chmod 600 ${shellWord(path)}`,
  )
}

async function encryptionFindings(settings: KeySettings): Promise<Findings> {
  const source = sourceOfKeys(settings)
  try {
    const { keys } = await readEncryptionKeys(settings)
    if (keys.reveal().length > 0) return []
  } catch (error) {
    return fault(messageOf(error), fixOf(error, settings))
  }
  return warning(
    `${source} is missing; stored secrets cannot be read without it.`,
    'Restore it from a backup, or set SVC_ENCRYPTION_KEY. svc never creates another key, as it could not decrypt these secrets.',
  )
}

function fixOf(error: unknown, settings: KeySettings): string {
  if (error instanceof SettingsError)
    return 'Correct it; svc serve --help describes the accepted values.'
  const path = shellWord(sourceOfKeys(settings))
  const isForbidden = codeOf(error instanceof Error ? error.cause : undefined) === 'EACCES'
  return isForbidden ? `chmod 600 ${path}` : `Restore ${path} from a backup.`
}

async function hostKeyFindings(path: string): Promise<Findings> {
  try {
    if (await findHostKey(path)) return []
  } catch (error) {
    const fix = `Restore ${shellWord(path)} from a backup, or let the next start create a new one: mv ${shellWord(path)} ${shellWord(`${path}.bad`)}`
    return fault(messageOf(error), fix)
  }
  return warning(
    `${path} is missing: the next start creates another one, and SSH clients will warn about the change.`,
    'Restore it from a backup before the next start.',
  )
}
