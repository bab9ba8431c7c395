import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { sync } from '#base/disk.ts'
import { newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { S3 } from '#repositories/s3/s3.ts'
import { asUnavailable, S3Error } from '#repositories/s3/s3-error.ts'
import type { KeptFile } from './run-file-store.ts'

/** Where the files of artifacts and caches are: in the data directory, or in the bucket of a shared store. */
export type FileStorage = {
  /** Creates the folders, and removes what a killed server was receiving. */
  prepare: () => Promise<void>
  /** The path at which a file is received, to be synced there. The receiver removes what is left of it. */
  draftOf: (id: string) => string
  /** Makes a received file durable, in its place. */
  place: (file: Omit<KeptFile, 'sha256'>, signal: AbortSignal) => Promise<void>
  /** Opens a file; undefined when it is missing. It can then be read to its end, even if it is removed. Throws `storage_full`. */
  open: (file: KeptFile, signal: AbortSignal) => Promise<FileHandle | undefined>
  /** Removes a file from its place. Idempotent. */
  remove: (file: Pick<KeptFile, 'id' | 'repositoryId'>) => Promise<void>
  /** How long a file stays after it was given up, for those who are about to open it. */
  graceMs: number
}

type Bucket = Pick<S3, 'put' | 'getToFile' | 'delete'>
type Options = {
  dataDir: string
  bucket: Bucket | undefined
  freeSpace: Pick<FreeSpace, 'require'>
}

/** The folder of these files in the data directory. */
export const runFileFolder = 'run-files'

const bucketGraceMs = 10 * 60_000

export function createFileStorage({ dataDir, bucket, freeSpace }: Options): FileStorage {
  const root = join(dataDir, runFileFolder)
  const incoming = join(root, 'incoming')
  const draftOf = (id: string) => join(incoming, id)
  const drafts = {
    draftOf,

    async prepare() {
      await mkdir(incoming, { recursive: true, mode: 0o700 })
      for (const name of await readdir(incoming)) await rm(join(incoming, name), { force: true })
    },
  }
  return bucket
    ? { ...drafts, ...inBucket(bucket, draftOf, freeSpace) }
    : { ...drafts, ...inFolder(root, draftOf) }
}

type Placed = Pick<FileStorage, 'place' | 'open' | 'remove' | 'graceMs'>

/** Files, each in one of many folders. */
function inFolder(root: string, draftOf: FileStorage['draftOf']): Placed {
  const pathOf = (id: string) => pathInFolder(root, id)

  return {
    graceMs: 0,

    async place({ id }) {
      const folder = dirname(pathOf(id))
      const isNew = await mkdir(folder, { recursive: true, mode: 0o700 })
      await rename(draftOf(id), pathOf(id))
      await sync(folder)
      if (isNew !== undefined) await sync(root)
    },

    async open({ id }) {
      return open(pathOf(id)).catch(ignoreAbsence)
    },

    async remove({ id }) {
      await rm(pathOf(id), { force: true })
    },
  }
}

/** The path of a file: `<last 2 of the id>/<id>`. */
export function pathInFolder(root: string, id: string): string {
  return join(root, id.slice(-2), id)
}

/** The key of a file in the bucket. */
export function bucketKeyOf({ id, repositoryId }: Pick<KeptFile, 'id' | 'repositoryId'>): string {
  return `run-files/${repositoryId}/${id}`
}

/** Objects are read into a file first, so that no damaged one is passed on. */
function inBucket(
  bucket: Bucket,
  draftOf: FileStorage['draftOf'],
  freeSpace: Options['freeSpace'],
): Placed {
  let copyingBytes = 0

  /** Copies an object to a new file; undefined when it is missing. */
  async function copy(file: KeptFile, path: string, signal: AbortSignal) {
    copyingBytes += file.size
    try {
      // Other copies need space that they have not written yet.
      await freeSpace.require(copyingBytes)
      return await bucket.getToFile(bucketKeyOf(file), path, file.size, { signal })
    } catch (error) {
      if (error instanceof S3Error && error.code === 'absent') return undefined
      return asUnavailable(error)
    } finally {
      copyingBytes -= file.size
    }
  }

  return {
    graceMs: bucketGraceMs,

    async place(file, signal) {
      const source = { path: draftOf(file.id), bytes: file.size }
      await bucket.put(bucketKeyOf(file), source, { signal }).catch(asUnavailable)
    },

    async open(file, signal) {
      const path = draftOf(`${newId()}.copy`)
      try {
        const found = await copy(file, path, signal)
        if (!found) return undefined
        if (found.sha256 !== file.sha256)
          throw new Problem(
            'storage_unavailable',
            `The run file ${file.id} is damaged in the store.`,
          )
        return await open(path)
      } finally {
        await rm(path, { force: true })
      }
    },

    async remove(file) {
      await bucket.delete(bucketKeyOf(file)).catch(asUnavailable)
    },
  }
}
