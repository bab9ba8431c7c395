import type { App, AppTools } from '#app.ts'
import { printable, toDate } from '#base/format.ts'
import { toSafeJson } from '#base/safe-text.ts'
import { backUp } from '#ops/backup/backup.ts'
import { restore } from '#ops/backup/restore.ts'
import { verify } from '#ops/backup/verify.ts'
import { UsageError } from '../terminal/command-errors.ts'
import type { Terminal } from '../terminal/terminal.ts'

type BackupOptions = { withKeys?: boolean; recheck?: boolean; json?: boolean }

const progressIntervalMs = 2000
const noRestore =
  'A backup is restored without SVC_STORE: unset it, restore, then set it and run `svc store adopt`.'

/** `svc backup` */
export async function backUpTo(
  app: App,
  folder: string,
  { withKeys = false, recheck = false, json }: BackupOptions,
  { out, err, interruption }: Terminal,
) {
  const options = { to: folder, withKeys, recheck, report: throttled(err), signal: interruption() }
  const done = await backUp(app, options)
  // Repositories deleted during this backup, or during one that was killed.
  await app.directories.emptyTrash()
  reportLost(done.lost, err)
  for (const { name, fault, isKept } of done.damaged) {
    const rest = isKept
      ? 'The backup has it as the previous one had it.'
      : 'The backup has only its rows.'
    err(`svc: the repository ${printable(name)} is damaged: ${printable(fault)} ${rest}\n`)
  }
  for (const { name, oid } of done.lfsLacking)
    err(
      `svc: the repository ${printable(name)} lacks the Git LFS object ${oid}; \`svc doctor\` says how to put it back\n`,
    )
  if (json) out(toSafeJson(done))
  else reportBackup(done, withKeys, out)
  if (done.damaged.length > 0) {
    throw new Error(
      `${count(done.damaged.length, 'repository')} could not be backed up; everything else was. ` +
        'On a server that has such a repository in its cache, svc repos maintain --full NAME repairs it.',
    )
  }
  const { length } = done.lfsLacking
  if (length > 0) {
    const objects = count(length, 'Git LFS object')
    throw new Error(`${objects} could not be backed up; everything else was.`)
  }
}

function reportBackup(
  done: Awaited<ReturnType<typeof backUp>>,
  withKeys: boolean,
  out: Terminal['out'],
): void {
  out(
    `Backed up ${count(done.repositories, 'repository')} and ${count(done.rows, 'row')} as of ${toDate(done.createdAt)} UTC.\n` +
      `${count(done.filesCopied, 'file')} copied (${toSize(done.bytesCopied)}), ${done.filesKept} kept; ` +
      `${toSize(done.bytes)} in total, in ${done.seconds} s.\n` +
      (withKeys ? '' : 'The backup contains no keys: keep a copy of encryption.key elsewhere.\n'),
  )
}

/** `svc restore` */
export async function restoreFrom(
  tools: AppTools,
  folder: string,
  { json }: { json?: boolean },
  { out, err, interruption }: Terminal,
) {
  if (tools.isCache) throw new UsageError(noRestore)
  const options = { from: folder, report: throttled(err), signal: interruption() }
  const done = await restore(tools, options)
  reportLost(done.lost, err)
  if (json) return out(toSafeJson(done))
  out(
    `Restored ${count(done.repositories, 'repository')} and ${count(done.rows, 'row')} as of ${toDate(done.createdAt)} UTC to ${done.dataDir}.\n`,
  )
  if (!done.keys.includes('encryption.key')) {
    out(
      `The backup contains no encryption key. Copy your encryption.key to ${done.dataDir} with mode 0600 before you start the service; without it, stored secrets cannot be read.\n`,
    )
  }
  if (!done.keys.includes('ssh_host_ed25519_key')) {
    out(
      'Copy ssh_host_ed25519_key there, too; otherwise the service creates a new host key, and SSH clients warn about the change.\n',
    )
  }
}

/** `svc backup verify` */
export async function verifyBackup(
  tools: AppTools,
  folder: string,
  { json }: { json?: boolean },
  { out, err, interruption }: Terminal,
) {
  const found = await verify(tools, { of: folder, report: throttled(err), signal: interruption() })
  const { faults, unknown, lost = [], seconds } = found
  if (json) out(toSafeJson(found))
  else {
    for (const { file, repository, fault } of faults) {
      // The fault of a damaged manifest already begins with its name.
      const where = [
        repository && `repository ${repository}`,
        fault.startsWith(`${file} `) ? '' : file,
      ]
      out(printable([...where, fault].filter(Boolean).join(': ')).concat('\n'))
    }
    for (const file of unknown) out(`${printable(file)}: is not part of the backup\n`)
    reportLost(lost, err)
  }
  if (faults.length > 0) {
    throw new Error(`The backup is damaged: ${count(faults.length, 'fault')}.`)
  }
  if (json || found.id === undefined) return
  out(
    `The backup of ${toDate(found.createdAt)} UTC is intact: ${count(found.repositories, 'repository')}, ${count(found.refs, 'ref')}, ` +
      `${count(found.rows, 'row')}, ${count(found.files, 'file')}, ${toSize(found.bytes)}; verified in ${seconds} s.\n`,
  )
}

function reportLost(names: string[], err: Terminal['err']): void {
  for (const name of names) {
    err(`svc: the files of the repository ${printable(name)} were lost before the backup\n`)
  }
}

function throttled(err: Terminal['err']): (text: string) => void {
  let last = performance.now()
  return (text) => {
    if (performance.now() - last < progressIntervalMs) return
    last = performance.now()
    err(`${text}\n`)
  }
}

function count(number: number, noun: string): string {
  return `${number} ${number === 1 ? noun : noun.replace(/y$/, 'ie').concat('s')}`
}

function toSize(bytes: number): string {
  const unit = [' bytes', ' KiB', ' MiB', ' GiB', ' TiB']
  const power = bytes < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(bytes) / 10))
  return `${(bytes / 1024 ** power).toFixed(power && 1)}${unit[power]}`
}
