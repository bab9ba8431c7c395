import { statfs } from 'node:fs/promises'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'

/** Keeps some of the disk free, so that running operations can finish and clean-ups can work. */
export type FreeSpace = {
  measure: () => Promise<Space>
  /** Whether space is short, as of the last measurement: it does not wait for the disk. */
  isShort: () => boolean
  /** Whether space is short, by a measurement of at most `pollIntervalMs` ago. */
  checkShort: () => Promise<boolean>
  /** Throws `storage_full` when space is short, or would be after writing this many bytes. */
  require: (bytes?: number) => Promise<void>
}

type Options = {
  /** A folder on the disk. */
  folder: string
  /** Bytes to keep free; undefined for the larger of 512 MiB and 5% of the disk. */
  minBytes: number | undefined
  /** Tries to free this many bytes beyond the minimum. */
  reclaim: (bytes: number) => Promise<void>
}

type Space = {
  freeBytes: number
  minFreeBytes: number
  /** How many more files the disk can hold; infinite where the file system has no limit of inodes. */
  freeFiles: number
}

/** Writes are rejected when the disk can hold fewer further files. */
export const minFreeFiles = 1000
const defaultMinBytes = 512 * 1024 ** 2
const defaultMinShare = 1 / 20
const pollIntervalMs = 500

/** With a log, it records when space becomes short, and when it is no longer. */
export function createFreeSpace({
  folder,
  minBytes,
  reclaim,
  log,
}: Options & { log?: Log }): FreeSpace {
  let isShort = false
  let measuredAt = Number.NEGATIVE_INFINITY

  const measure = () => readSpace({ folder, minBytes })

  /** Measures; returns how many bytes are left to use, which is negative when space is short. */
  async function update(): Promise<number> {
    measuredAt = performance.now()
    const space = await measure()
    const leftBytes = space.freeFiles < minFreeFiles ? -1 : space.freeBytes - space.minFreeBytes
    const wasShort = isShort
    isShort = leftBytes < 0
    if (isShort && !wasShort) log?.warn(space, 'disk nearly full: writes are rejected')
    if (!isShort && wasShort) log?.info(space, 'disk has space again')
    return leftBytes
  }

  return {
    measure,

    isShort() {
      if (performance.now() - measuredAt > pollIntervalMs) update().catch(() => {})
      return isShort
    },

    async checkShort() {
      if (performance.now() - measuredAt > pollIntervalMs) await update().catch(() => {})
      return isShort
    },

    async require(bytes = 0) {
      if ((await update()) >= bytes) return
      await reclaim(bytes)
      if ((await update()) >= bytes) return
      throw new Problem(
        'storage_full',
        'The server has too little space left to write; nothing was changed.',
      )
    },
  }
}

/** Measures the free space on the disk of a folder, and the minimum to keep free there. */
export async function readSpace({
  folder,
  minBytes,
}: Pick<Options, 'folder' | 'minBytes'>): Promise<Space> {
  const { bavail, blocks, bsize, files, ffree } = await statfs(folder)
  const minFreeBytes = minBytes ?? Math.max(defaultMinBytes, blocks * bsize * defaultMinShare)
  // File systems without a limit of inodes report 0.
  const freeFiles = files > 0 ? ffree : Number.POSITIVE_INFINITY
  return { freeBytes: bavail * bsize, minFreeBytes, freeFiles }
}
