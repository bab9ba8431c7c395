import { randomUUID } from 'node:crypto'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { FreeSpace } from '#config/free-space.ts'

/** Files for responses that exceed memory. */
export type Spool = {
  /** Whether the disk is short of space: no file should be opened or grow. */
  isFull: () => boolean
  /** Opens a file that disappears when it is closed. Throws `storage_full`. */
  open: () => Promise<FileHandle>
}

export function createSpool({
  dataDir,
  freeSpace,
}: {
  dataDir: string
  freeSpace: Pick<FreeSpace, 'isShort' | 'require'>
}): Spool {
  return {
    isFull: freeSpace.isShort,

    async open() {
      await freeSpace.require()
      const path = join(dataDir, 'staging', `${randomUUID()}.response`)
      const file = await open(path, 'wx+', 0o600)
      // An unlinked file disappears when it is closed, however the program ends.
      await unlink(path)
      return file
    },
  }
}
