import { statfs } from 'node:fs/promises'
import { Problem } from '../base/problem.ts'

export type FreeSpace = ReturnType<typeof createFreeSpace>

type Options = {
  /** The folder whose disk is watched. */
  folder: string
  /** Bytes that are kept free; undefined for the larger of 512 MiB and a twentieth of the disk. */
  least: number | undefined
}

const fallbackBytes = 512 * 1024 ** 2
const leastShare = 1 / 20
const lookEveryMs = 500

/** Keeps some of the disk free, so that what has begun can end, and whoever cleans up has room to work in. */
export function createFreeSpace({ folder, least }: Options) {
  let isShort = false
  let lookedAt = Number.NEGATIVE_INFINITY

  const measure = () => readSpace({ folder, least })

  async function look(): Promise<boolean> {
    lookedAt = performance.now()
    const { freeBytes, leastBytes } = await measure()
    isShort = freeBytes < leastBytes
    return isShort
  }

  return {
    /** How much is free, and how much of it is kept free. */
    measure,

    /**
     * Whether so little is free that nothing more should be written, as of a moment ago: whoever only wants
     * to know does not wait for the disk.
     */
    isShort(): boolean {
      if (performance.now() - lookedAt > lookEveryMs) look().catch(() => {})
      return isShort
    },

    /** Throws `storage_full` when so little is free that nothing more should be written. */
    async require(): Promise<void> {
      if (!(await look())) return
      throw new Problem(
        'storage_full',
        'The server has too little space left to write; nothing was changed.',
      )
    },
  }
}

/** What is free on the disk of a folder, and what is to be kept free there. */
export async function readSpace({
  folder,
  least,
}: Options): Promise<{ freeBytes: number; leastBytes: number }> {
  const { bavail, blocks, bsize } = await statfs(folder)
  const leastBytes = least ?? Math.max(fallbackBytes, blocks * bsize * leastShare)
  return { freeBytes: bavail * bsize, leastBytes }
}
