import { existsSync } from 'node:fs'
import { readFile, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { shellWord } from '#base/shell-word.ts'
import { minFreeFiles, readSpace } from '#config/free-space.ts'
import type { Check } from '../check.ts'
import { type Findings, fault, ok, orOk, warning } from '../finding.ts'

/** Checks the free space on the disk, in bytes and inodes. */
export const diskCheck: Check = {
  id: 'disk',
  title: 'free space on the disk',
  async run(context) {
    const dataDir = context.setting('dataDir')
    const folder = nearestExisting(dataDir)
    const minBytes = context.setting('freeSpaceMinBytes')
    const { freeBytes, minFreeBytes, freeFiles } = await readSpace({ folder, minBytes })
    const fix = `Free some space; this lists the largest directories: du -xh ${shellWord(folder)} | sort -h | tail`
    const findings: Findings[] = []
    if (freeBytes < minFreeBytes) {
      findings.push(
        fault(
          `${toSize(freeBytes)} are free, less than the minimum of ${toSize(minFreeBytes)}, so pushes are rejected.`,
          `${fix}; or lower SVC_FREE_SPACE_MIN.`,
        ),
      )
    } else if (freeBytes < 2 * minFreeBytes) {
      const found = `${toSize(freeBytes)} are free; below ${toSize(minFreeBytes)} pushes are rejected.`
      findings.push(warning(found, fix))
    }
    const found = `The disk has inodes for only ${freeFiles} more files`
    const fixFiles = `Remove unneeded files; this counts them by directory: du -x --inodes ${shellWord(folder)} | sort -n | tail`
    if (freeFiles < minFreeFiles) {
      const rest = `less than the minimum of ${minFreeFiles}, so pushes are rejected.`
      findings.push(fault(`${found}, ${rest}`, fixFiles))
    } else if (freeFiles < 10 * minFreeFiles) {
      findings.push(warning(`${found}; below ${minFreeFiles} pushes are rejected.`, fixFiles))
    }
    return orOk(findings, `${toSize(freeBytes)} are free; ${toSize(minFreeBytes)} are kept free.`)
  },
}

// The types are those of statfs(2).
const fileSystems: Record<number, { name: string; fault: string }> = {
  26985: { name: 'NFS', fault: network() },
  4283649346: { name: 'CIFS', fault: network() },
  4266872130: { name: 'SMB', fault: network() },
  16914836: { name: 'tmpfs', fault: 'it is in memory, and lost when the machine stops' },
  2240043254: { name: 'ramfs', fault: 'it is in memory, and lost when the machine stops' },
  2035054128: { name: 'overlayfs', fault: 'it is deleted with the container' },
  19780: { name: 'FAT', fault: 'it has no file modes and can lose files in a crash' },
}

function network(): string {
  return 'its locks do not keep a second server out, and SQLite can be damaged on it'
}

/** Checks that the file system is durable and has locks. */
export const fileSystemCheck: Check = {
  id: 'file-system',
  title: 'the file system of the data directory',
  async run(context) {
    const folder = await context.dataDir()
    const { type } = await statfs(folder)
    const fileSystem = fileSystems[type]
    if (!fileSystem) return ok(`No problems are known with its type (0x${type.toString(16)}).`)
    return warning(
      `${folder} is on ${fileSystem.name}: ${fileSystem.fault}.`,
      'Stop the service, move the directory to a local disk, and set SVC_DATA_DIR to it.',
    )
  },
}

const minFiles = 4096

/** Checks the limit of open files, and that /proc is mounted. */
export const limitsCheck: Check = {
  id: 'limits',
  title: 'limits of the system',
  async run() {
    const text = await readFile('/proc/self/limits', 'utf8').catch(() => undefined)
    if (text === undefined) {
      const found = '/proc is not mounted: processes left by a killed server cannot be found.'
      return fault(found, 'mount -t proc proc /proc')
    }
    const [, limit = ''] = /^Max open files +(\S+)/m.exec(text) ?? []
    const isLow = limit !== 'unlimited' && Number(limit) < minFiles
    const finding =
      isLow &&
      warning(
        `A process may open ${limit} files; a busy server needs ${minFiles}. The limit of the service may differ.`,
        'ulimit -n 65536 before the start; with systemd, LimitNOFILE=65536 in the [Service] section.',
      )
    return orOk(finding, `${limit} open files; /proc is mounted.`)
  },
}

function nearestExisting(path: string): string {
  return existsSync(path) || path === dirname(path) ? path : nearestExisting(dirname(path))
}

function toSize(bytes: number): string {
  const mib = bytes / 1024 ** 2
  return mib < 10_240 ? `${Math.floor(mib)} MiB` : `${Math.floor(mib / 1024)} GiB`
}
