import { existsSync } from 'node:fs'
import { readFile, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { shellWord } from '../base/shell-word.ts'
import { readSpace } from '../config/free-space.ts'
import type { Check } from './check.ts'
import { type Finding, fault, ok, orOk, warning } from './finding.ts'

const leastInodes = 10_000

/** Whether there is room on the disk, in bytes and in files. */
export const diskCheck: Check = {
  id: 'disk',
  title: 'free space on the disk',
  async run(context) {
    const dataDir = context.setting('dataDir')
    const folder = standing(dataDir)
    const least = context.setting('freeSpaceLeast')
    const { freeBytes, leastBytes } = await readSpace({ folder, least })
    const { files, ffree } = await statfs(folder)
    const mend = `Make room; this shows what takes it: du -xh ${shellWord(folder)} | sort -h | tail`
    const findings: Finding[] = []
    if (freeBytes < leastBytes) {
      findings.push(
        fault(
          `${toSize(freeBytes)} are free and ${toSize(leastBytes)} are to be kept free, so pushes are refused.`,
          `${mend}; or lower SVC_FREE_SPACE_MIN.`,
        ),
      )
    } else if (freeBytes < 2 * leastBytes) {
      const found = `${toSize(freeBytes)} are free; below ${toSize(leastBytes)} pushes are refused.`
      findings.push(warning(found, mend))
    }
    // Some file systems have no end of inodes, and say 0.
    if (files > 0 && ffree < leastInodes) {
      const found = `The disk has room for ${ffree} more files only (inodes).`
      findings.push(
        fault(
          found,
          `Remove files that nobody needs; this counts them: du -x --inodes ${shellWord(folder)} | sort -n | tail`,
        ),
      )
    }
    return orOk(findings, `${toSize(freeBytes)} are free; ${toSize(leastBytes)} are kept free.`)
  },
}

// By the numbers that statfs(2) lists.
const fileSystems: Record<number, { name: string; fault: string }> = {
  26985: { name: 'NFS', fault: network() },
  4283649346: { name: 'CIFS', fault: network() },
  4266872130: { name: 'SMB', fault: network() },
  16914836: { name: 'tmpfs', fault: 'it is in memory, and gone when the machine stops' },
  2240043254: { name: 'ramfs', fault: 'it is in memory, and gone when the machine stops' },
  2035054128: { name: 'overlayfs', fault: 'it goes when the container goes' },
  19780: { name: 'FAT', fault: 'it knows no modes and loses files in a crash' },
}

function network(): string {
  return 'its locks do not keep a second server out, and SQLite can be damaged on it'
}

/** Whether the file system is one that keeps what it is given. */
export const fileSystemCheck: Check = {
  id: 'file-system',
  title: 'the file system of the data directory',
  async run(context) {
    const folder = await context.dataDir()
    const { type } = await statfs(folder)
    const found = fileSystems[type]
    if (!found) return [ok(`Nothing is known against its type (0x${type.toString(16)}).`)]
    return [
      warning(
        `${folder} is on ${found.name}: ${found.fault}.`,
        'Stop the service, move the folder to a local disk, and set SVC_DATA_DIR to it.',
      ),
    ]
  },
}

const leastFiles = 4096

/** Whether the system lets a server open enough files, and look at its processes. */
export const limitsCheck: Check = {
  id: 'limits',
  title: 'limits of the system',
  async run() {
    const text = await readFile('/proc/self/limits', 'utf8').catch(() => undefined)
    if (text === undefined) {
      const found = '/proc is not there: what a killed server leaves running cannot be found.'
      return [fault(found, 'mount -t proc proc /proc')]
    }
    const [, most = ''] = /^Max open files +(\S+)/m.exec(text) ?? []
    const findings =
      most !== 'unlimited' && Number(most) < leastFiles
        ? [
            warning(
              `A process may open ${most} files; a busy server needs ${leastFiles}. The limit of the service may be another one.`,
              'ulimit -n 65536 before the start; with systemd, LimitNOFILE=65536 in the [Service] section.',
            ),
          ]
        : []
    return orOk(findings, `${most} open files; /proc is there.`)
  },
}

function standing(path: string): string {
  return existsSync(path) || path === dirname(path) ? path : standing(dirname(path))
}

function toSize(bytes: number): string {
  const mib = bytes / 1024 ** 2
  return mib < 10_240 ? `${Math.floor(mib)} MiB` : `${Math.floor(mib / 1024)} GiB`
}
