import type { App, AppTools } from '../app.ts'
import { backUp } from '../backup/backup.ts'
import { restore } from '../backup/restore.ts'
import { verify } from '../backup/verify.ts'
import { printable, toDate } from '../base/format.ts'
import { type Terminal, toJson } from './terminal.ts'

type BackupOptions = { withKeys?: boolean; recheck?: boolean; json?: boolean }

const tellEveryMs = 2000

/** `svc backup` */
export async function backUpTo(
  app: App,
  folder: string,
  { withKeys = false, recheck = false, json }: BackupOptions,
  { out, tell, interruption }: Terminal,
) {
  const options = { to: folder, withKeys, recheck, report: inTime(tell), signal: interruption() }
  const done = await backUp(app, options)
  // Those that were deleted meanwhile, and those of a backup that was killed.
  await app.directories.emptyTrash()
  tellLost(done.lost, tell)
  if (json) return out(toJson(done))
  out(
    `Backed up ${count(done.repositories, 'repository')} and ${count(done.rows, 'row')} as of ${toDate(done.createdAt)} UTC.\n` +
      `${count(done.filesCopied, 'file')} copied (${toSize(done.bytesCopied)}), ${done.filesKept} kept; ` +
      `${toSize(done.bytes)} in all, in ${done.seconds} s.\n` +
      (withKeys ? '' : 'The keys are not in it: keep a copy of encryption.key elsewhere.\n'),
  )
}

/** `svc restore` */
export async function restoreFrom(
  tools: AppTools,
  folder: string,
  { json }: { json?: boolean },
  { out, tell, interruption }: Terminal,
) {
  const options = { from: folder, report: inTime(tell), signal: interruption() }
  const done = await restore(tools, options)
  tellLost(done.lost, tell)
  if (json) return out(toJson(done))
  out(
    `Restored ${count(done.repositories, 'repository')} and ${count(done.rows, 'row')} as of ${toDate(done.createdAt)} UTC to ${done.dataDir}.\n`,
  )
  if (!done.keys.includes('encryption.key')) {
    out(
      `The keys were not in the backup. Put your encryption.key into ${done.dataDir} before you start the service, mode 0600: without it, stored secrets cannot be read.\n`,
    )
  }
  if (!done.keys.includes('ssh_host_ed25519_key')) {
    out(
      'Put ssh_host_ed25519_key there, too; otherwise a new one is made, and SSH clients will be warned of it.\n',
    )
  }
}

/** `svc backup verify` */
export async function verifyBackup(
  tools: AppTools,
  folder: string,
  { json }: { json?: boolean },
  { out, tell, interruption }: Terminal,
) {
  const found = await verify(tools, { of: folder, report: inTime(tell), signal: interruption() })
  const { faults, unknown, lost = [], seconds } = found
  if (json) out(toJson(found))
  else {
    for (const { file, repository, fault } of faults) {
      // Of a manifest that is of no use, the fault begins with its name.
      const where = [
        repository && `repository ${repository}`,
        fault.startsWith(`${file} `) ? '' : file,
      ]
      out(printable([...where, fault].filter(Boolean).join(': ')).concat('\n'))
    }
    for (const file of unknown) out(`${printable(file)}: is no part of the backup\n`)
    tellLost(lost, tell)
  }
  if (faults.length > 0) {
    throw new Error(`The backup is damaged: ${count(faults.length, 'fault')}.`)
  }
  if (json || found.id === undefined) return
  out(
    `The backup of ${toDate(found.createdAt)} UTC is whole: ${count(found.repositories, 'repository')}, ${count(found.refs, 'ref')}, ` +
      `${count(found.rows, 'row')}, ${count(found.files, 'file')}, ${toSize(found.bytes)}; verified in ${seconds} s.\n`,
  )
}

function tellLost(names: string[], tell: Terminal['tell']): void {
  for (const name of names) {
    tell(`svc: the files of the repository ${printable(name)} were lost before it was backed up\n`)
  }
}

// A line now and then, for whoever waits.
function inTime(tell: Terminal['tell']): (what: string) => void {
  let last = performance.now()
  return (what) => {
    if (performance.now() - last < tellEveryMs) return
    last = performance.now()
    tell(`${what}\n`)
  }
}

function count(number: number, what: string): string {
  return `${number} ${number === 1 ? what : what.replace(/y$/, 'ie').concat('s')}`
}

function toSize(bytes: number): string {
  const unit = [' bytes', ' KiB', ' MiB', ' GiB', ' TiB']
  const power = bytes < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(bytes) / 10))
  return `${(bytes / 1024 ** power).toFixed(power && 1)}${unit[power]}`
}
