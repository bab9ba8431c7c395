import { statfs } from 'node:fs/promises'
import { Problem } from '../base/problem.ts'

export type FreeSpace = ReturnType<typeof createFreeSpace>

type Options = {
  /** The folder whose disk is watched. */
  folder: string
  /** Bytes that are kept free; undefined for the larger of 512 MiB and a twentieth of the disk. */
  least: number | undefined
}

const leastBytes = 512 * 1024 ** 2
const leastShare = 1 / 20

/** Keeps some of the disk free, so that what has begun can end, and whoever cleans up has room to work in. */
export function createFreeSpace({ folder, least }: Options) {
  async function isShort(): Promise<boolean> {
    const { bavail, blocks, bsize } = await statfs(folder)
    return bavail * bsize < (least ?? Math.max(leastBytes, blocks * bsize * leastShare))
  }

  return {
    /** Whether so little is free that nothing more should be written. */
    isShort,

    /** Throws `storage_full` when so little is free that nothing more should be written. */
    async require(): Promise<void> {
      if (!(await isShort())) return
      throw new Problem(
        'storage_full',
        'The server has too little space left to write; nothing was changed.',
      )
    },
  }
}
