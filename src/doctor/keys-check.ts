import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { shellWord } from '../base/shell-word.ts'
import { encryptionKeyFile, isEncryptionKey } from '../config/data-directory.ts'
import { findHostKey, hostKeyFile } from '../ssh/host-key.ts'
import { type Check, codeOf, type Finding, fault, messageOf, orOk, warning } from './finding.ts'

const forOthers = 0o077

/** Whether the keys are there, whole, and their files closed to everybody else. */
export const keysCheck: Check = {
  id: 'keys',
  title: 'keys and the modes of their files',
  async run(site) {
    const folder = await site.dataDir()
    const isSshOn = site.setting('sshPort') !== 'off'
    const findings = [
      ...(await openFindings(join(folder, encryptionKeyFile))),
      ...(await encryptionFindings(join(folder, encryptionKeyFile))),
      ...(await openFindings(join(folder, hostKeyFile))),
      ...(isSshOn ? await hostKeyFindings(folder) : []),
    ]
    return orOk(findings, `${encryptionKeyFile}${isSshOn ? ` and ${hostKeyFile}` : ''}.`)
  },
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

async function encryptionFindings(path: string): Promise<Finding[]> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => error)
  if (typeof text === 'string') {
    if (isEncryptionKey(text)) return []
    const found = `${path} holds no key: 32 bytes in base64 or hex.`
    return [fault(found, `Bring ${shellWord(path)} back from a backup.`)]
  }
  if (codeOf(text) !== 'ENOENT') return [unreadable(path, text)]
  return [
    warning(
      `${path} is missing; what it has encrypted cannot be read without it.`,
      'Bring it back from a backup. No other is ever made: it could not open what this one has sealed.',
    ),
  ]
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

function unreadable(path: string, error: unknown): Finding {
  return fault(`${path} cannot be read: ${messageOf(error)}`, `chmod 600 ${shellWord(path)}`)
}
