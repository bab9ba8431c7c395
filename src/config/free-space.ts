import { statfs } from 'node:fs/promises'
import { Problem } from '../base/problem.ts'

/** Keeps some of the disk free, so that running operations can finish and clean-ups can work. */
export type FreeSpace = {
  measure: () => Promise<{ freeBytes: number; minFreeBytes: number }>
  /** Whether space is short, as of the last measurement: it does not wait for the disk. */
  isShort: () => boolean
  /** Throws `storage_full` when space is short, or would be after this many bytes more. */
  require: (bytes?: number) => Promise<void>
}

type Options = {
  /** A folder on the disk. */
  folder: string
  /** Bytes to keep free; undefined for the larger of 512 MiB and 5% of the disk. */
  minBytes: number | undefined
  /** Tries to have a number of bytes free beyond the minimum. */
  reclaim: (bytes: number) => Promise<void>
}

const defaultMinBytes = 512 * 1024 ** 2
const defaultMinShare = 1 / 20
const pollIntervalMs = 500

export function createFreeSpace({ folder, minBytes, reclaim }: Options): FreeSpace {
  let isShort = false
  let measuredAt = Number.NEGATIVE_INFINITY

  const measure = () => readSpace({ folder, minBytes })

  /** Measures; returns how many bytes are left to use, which is negative when space is short. */
  async function update(): Promise<number> {
    measuredAt = performance.now()
    const { freeBytes, minFreeBytes } = await measure()
    isShort = freeBytes < minFreeBytes
    return freeBytes - minFreeBytes
  }

  return {
    measure,

    isShort() {
      if (performance.now() - measuredAt > pollIntervalMs) update().catch(() => {})
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
}: Omit<Options, 'reclaim'>): Promise<{ freeBytes: number; minFreeBytes: number }> {
  const { bavail, blocks, bsize } = await statfs(folder)
  const minFreeBytes = minBytes ?? Math.max(defaultMinBytes, blocks * bsize * defaultMinShare)
  return { freeBytes: bavail * bsize, minFreeBytes }
}
