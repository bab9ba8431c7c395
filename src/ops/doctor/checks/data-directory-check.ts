import { constants, existsSync } from 'node:fs'
import { access, lstat, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '#base/error-code.ts'
import { shellWord } from '#base/shell-word.ts'
import { adminTokenFile, restoringFile } from '#config/data-directory.ts'
import { hasNameOf } from '#database/nodes/heartbeat.ts'
import { findConflict } from '#database/nodes/node-store.ts'
import { describeNode } from '#database/nodes/shared-nodes.ts'
import { readInstance } from '#repositories/instance-store.ts'
import { readHostKeyFingerprint } from '#ssh/host-key.ts'
import type { Check } from '../check.ts'
import type { DoctorContext } from '../context.ts'
import {
  type Finding,
  type Findings,
  fault,
  firstOf,
  messageOf,
  ok,
  orOk,
  warning,
} from '../finding.ts'

const groupAndOthers = 0o077

/** Checks that the data directory exists, has one owner, and is closed to other users. */
export const dataDirectoryCheck: Check = {
  id: 'data-directory',
  title: 'the data directory, its owner and mode',
  async run(context) {
    const folder = context.setting('dataDir')
    const names = await readdir(folder).catch((error: unknown) => toFault(folder, error))
    if (!Array.isArray(names)) return [names]
    if (names.includes(restoringFile)) {
      return fault(
        `A restore into ${folder} is running or was interrupted.`,
        `If none is running: rm -r ${shellWord(folder)}, then svc restore again; with SVC_DATABASE_URL, empty that database first.`,
      )
    }
    if (!['repositories', 'cache', 'svc.db'].some((name) => names.includes(name))) {
      return fault(
        `${folder} is ${names.length === 0 ? 'empty' : 'not a data directory of svc'}.`,
        'Set SVC_DATA_DIR to the right directory, or start the service there once: svc serve',
      )
    }
    const { mode, uid, gid } = await stat(folder)
    const word = shellWord(folder)
    const findings: Findings[] = [await ownerFindings(folder, names, { uid, gid })]
    if ((mode & groupAndOthers) !== 0) {
      findings.push(
        fault(
          `${folder} is open to other users (mode ${toMode(mode)}); it holds keys, tokens and repositories.`,
          `chmod 700 ${word}`,
        ),
      )
    }
    if (names.includes(adminTokenFile)) {
      findings.push(
        warning(
          `The first admin token is in ${join(folder, adminTokenFile)}.`,
          `Store it elsewhere, then: rm ${shellWord(join(folder, adminTokenFile))}`,
        ),
      )
    }
    const refusal = await access(folder, constants.W_OK).catch(codeOf)
    if (refusal !== undefined) {
      const fix =
        refusal === 'EROFS'
          ? 'Remount its file system for writing: mount -o remount,rw'
          : `chmod 700 ${word}`
      findings.push(fault(`${folder} cannot be written to (${refusal}).`, fix))
    }
    return orOk(findings, `${folder}, mode ${toMode(mode)}.`)
  },
}

function toFault(folder: string, error: unknown): Finding {
  const code = codeOf(error)
  if (code === 'ENOENT') {
    return fault(
      `There is no data directory at ${folder}.`,
      'Set SVC_DATA_DIR to the right directory, or start the service once: svc serve',
    )
  }
  if (code === 'ENOTDIR')
    return fault(`${folder} is not a directory.`, 'Set SVC_DATA_DIR to a directory.')
  return fault(
    `${folder} cannot be read: ${messageOf(error)}`,
    'Run svc doctor as the user that runs the service, with the same SVC_DATA_DIR.',
  )
}

// A command that ran as another user leaves files that the server cannot write.
async function ownerFindings(
  folder: string,
  names: string[],
  { uid, gid }: { uid: number; gid: number },
): Promise<Findings> {
  const foreign: string[] = []
  for (const name of names) {
    const stats = await lstat(join(folder, name)).catch(() => undefined)
    if (stats && stats.uid !== uid) foreign.push(name)
  }
  const findings: Findings[] = []
  if (foreign.length > 0) {
    findings.push(
      fault(
        `${foreign.slice(0, 5).join(', ')} in ${folder}: not owned by the owner of the directory (user ${uid}).`,
        `chown -R ${uid}:${gid} ${shellWord(folder)}`,
      ),
    )
  }
  const user = process.getuid?.() ?? uid
  if (user !== uid) {
    findings.push(
      warning(
        `${folder} belongs to user ${uid}, and svc doctor runs as user ${user}.`,
        `Run svc and its commands as the owner of the directory: setpriv --reuid=${uid} --regid=${gid} --clear-groups svc doctor`,
      ),
    )
  }
  return findings
}

function toMode(mode: number): string {
  return (mode & 0o777).toString(8).padStart(4, '0')
}

/** Checks that the data directory and the database belong together. */
export const instanceCheck: Check = {
  id: 'instance',
  title: 'whether directory and database belong together',
  async run(context) {
    const folder = await context.dataDir()
    const instance = await context.read(readInstance)
    const ofDatabase = instance?.id
    const ofDirectory = (await readFile(join(folder, 'instance'), 'utf8').catch(() => '')).trim()
    if (ofDatabase === undefined && ofDirectory === '') return ok('Neither has been used yet.')
    if (ofDatabase === ofDirectory) {
      // An older database does not have the column.
      const conflict = instance?.keyId === undefined ? [] : await conflictFindings(context, folder)
      return orOk(conflict, `Both are ${ofDirectory}.`)
    }
    return fault(
      `The database (${ofDatabase ?? 'empty'}) is not the one of the data directory (${ofDirectory || 'none'}); no server starts with them.`,
      'Correct SVC_DATA_DIR and SVC_DATABASE_URL, or restore both from the same backup.',
    )
  },
}

/** Finds a running server that prevents another one from starting on the data directory. */
async function conflictFindings(context: DoctorContext, dataDir: string): Promise<Findings> {
  const { setting } = context
  // `describeNode` gives a name to a directory without one.
  if (!setting('store') || !existsSync(join(dataDir, 'node'))) return []
  const key = { sshPort: setting('sshPort'), sshHostKeyFile: setting('sshHostKeyFile') }
  const node = await describeNode(dataDir, await readHostKeyFingerprint(key))
  const other = await context.read((db) => findConflict(db, node))
  if (!other) return []
  if (hasNameOf(node, other)) {
    return fault(
      `Another server runs with the name of ${dataDir}, ${node.id}: one is a copy of the other.`,
      'Set SVC_DATA_DIR to an empty directory.',
    )
  }
  return fault(
    `The server ${other.id} runs with another SSH host key.`,
    'Set SVC_SSH_HOST_KEY_FILE to the same file on all servers; to change the key, stop all of them first.',
  )
}

/** Lists quarantined repositories, and remains of crashes in staging and trash. */
export const leftoversCheck: Check = {
  id: 'leftovers',
  title: 'quarantined repositories and remains of crashes',
  async run(context) {
    const folder = await context.dataDir()
    const lost = await namesIn(join(folder, 'lost+found'))
    const remains = [
      ...(await namesIn(join(folder, 'staging'))),
      ...(await namesIn(join(folder, 'trash'))),
    ]
    const findings = lost.map((name) => {
      const path = join(folder, 'lost+found', name)
      return warning(
        `${path} is a quarantined repository that the database did not know.`,
        `Inspect it (git --git-dir=${shellWord(path)} log --all), save what you need, then: rm -r ${shellWord(path)}`,
      )
    })
    const isLeft = remains.length > 0 && !context.isServed()
    const note = isLeft ? ` The next start removes ${remains.length} left by a crash.` : ''
    return orOk(firstOf(findings), `Nothing is quarantined.${note}`)
  },
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  })
}
