import { constants } from 'node:fs'
import { access, lstat, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../base/error-code.ts'
import { shellWord } from '../base/shell-word.ts'
import { adminTokenFile, restoringFile } from '../config/data-directory.ts'
import { readInstance } from '../repositories/instance-store.ts'
import type { Check } from './check.ts'
import { type Finding, fault, firstOf, messageOf, ok, orOk, warning } from './finding.ts'

const forOthers = 0o077

/** Whether the data directory is there, ours, and closed to everybody else. */
export const dataDirectoryCheck: Check = {
  id: 'data-directory',
  title: 'the data directory, its owner and mode',
  async run(context) {
    const folder = context.setting('dataDir')
    const names = await readdir(folder).catch((error: unknown) => toFault(folder, error))
    if (!Array.isArray(names)) return [names]
    if (names.includes(restoringFile)) {
      return [
        fault(
          `A restore into ${folder} is under way, or was cut short.`,
          `If none is running: rm -r ${shellWord(folder)}, then svc restore again; with SVC_DATABASE_URL, empty that database first.`,
        ),
      ]
    }
    if (!names.includes('repositories') && !names.includes('svc.db')) {
      return [
        fault(
          `${folder} is ${names.length === 0 ? 'empty' : 'no data directory of svc'}.`,
          'Set SVC_DATA_DIR to the right folder, or start the service there once: svc serve',
        ),
      ]
    }
    const { mode, uid, gid } = await stat(folder)
    const word = shellWord(folder)
    const findings = [...(await ownerFindings(folder, names, { uid, gid }))]
    if ((mode & forOthers) !== 0) {
      findings.push(
        fault(
          `${folder} is open to other users (mode ${toMode(mode)}), and keys, tokens and repositories are in it.`,
          `chmod 700 ${word}`,
        ),
      )
    }
    if (names.includes(adminTokenFile)) {
      findings.push(
        warning(
          `The first admin token is in ${join(folder, adminTokenFile)}.`,
          `Keep it elsewhere, then: rm ${shellWord(join(folder, adminTokenFile))}`,
        ),
      )
    }
    const refusal = await access(folder, constants.W_OK).catch(codeOf)
    if (refusal !== undefined) {
      const mend =
        refusal === 'EROFS'
          ? 'Mount its disk for writing: mount -o remount,rw'
          : `chmod 700 ${word}`
      findings.push(fault(`${folder} cannot be written to (${refusal}).`, mend))
    }
    return orOk(findings, `${folder}, mode ${toMode(mode)}.`)
  },
}

function toFault(folder: string, error: unknown): Finding {
  const code = codeOf(error)
  if (code === 'ENOENT') {
    return fault(
      `There is no data directory at ${folder}.`,
      'Set SVC_DATA_DIR to where it is, or start the service once: svc serve',
    )
  }
  if (code === 'ENOTDIR') return fault(`${folder} is no folder.`, 'Set SVC_DATA_DIR to a folder.')
  return fault(
    `${folder} cannot be read: ${messageOf(error)}`,
    'Run svc doctor as the user that runs the service, with SVC_DATA_DIR as it has it.',
  )
}

// Whoever ran a command of svc as somebody else leaves files that the server cannot write.
async function ownerFindings(
  folder: string,
  names: string[],
  { uid, gid }: { uid: number; gid: number },
): Promise<Finding[]> {
  const foreign: string[] = []
  for (const name of names) {
    const found = await lstat(join(folder, name)).catch(() => undefined)
    if (found && found.uid !== uid) foreign.push(name)
  }
  const findings: Finding[] = []
  if (foreign.length > 0) {
    findings.push(
      fault(
        `${foreign.slice(0, 5).join(', ')} in ${folder}: not of the owner of the folder (user ${uid}).`,
        `chown -R ${uid}:${gid} ${shellWord(folder)}`,
      ),
    )
  }
  const user = process.getuid?.() ?? uid
  if (user !== uid) {
    findings.push(
      warning(
        `${folder} belongs to user ${uid}, and svc doctor runs as user ${user}.`,
        `Run svc and its commands as the owner of the folder: setpriv --reuid=${uid} --regid=${gid} --clear-groups svc doctor`,
      ),
    )
  }
  return findings
}

function toMode(mode: number): string {
  return (mode & 0o777).toString(8).padStart(4, '0')
}

/** Whether the data directory and the database belong together. */
export const instanceCheck: Check = {
  id: 'instance',
  title: 'whether directory and database belong together',
  async run(context) {
    const folder = await context.dataDir()
    const ofDatabase = await context.read(readInstance)
    const ofDirectory = (await readFile(join(folder, 'instance'), 'utf8').catch(() => '')).trim()
    if (ofDatabase === undefined && ofDirectory === '') return [ok('Neither has been used yet.')]
    if (ofDatabase === ofDirectory) return [ok(`Both are ${ofDirectory}.`)]
    return [
      fault(
        `The database (${ofDatabase ?? 'empty'}) is not the one of the data directory (${ofDirectory || 'none'}); no server starts with them.`,
        'Check SVC_DATA_DIR and SVC_DATABASE_URL, or bring back from a backup what belongs to the other.',
      ),
    ]
  },
}

/** What starts have set aside, and what crashes left on its way in or out. */
export const leftoversCheck: Check = {
  id: 'leftovers',
  title: 'what was set aside or left behind',
  async run(context) {
    const folder = await context.dataDir()
    const lost = await namesIn(join(folder, 'lost+found'))
    const passing = [
      ...(await namesIn(join(folder, 'staging'))),
      ...(await namesIn(join(folder, 'trash'))),
    ]
    const findings = lost.map((name) => {
      const path = join(folder, 'lost+found', name)
      return warning(
        `${path} is a repository that the database did not know.`,
        `Look at it (git --git-dir=${shellWord(path)} log --all), keep what is needed, then: rm -r ${shellWord(path)}`,
      )
    })
    const isLeft = passing.length > 0 && !context.isServed()
    const note = isLeft ? ` The next start clears ${passing.length} away that a crash left.` : ''
    return orOk(firstOf(findings), `Nothing was set aside.${note}`)
  },
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  })
}
