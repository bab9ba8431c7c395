import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { absentAs, ignoreAbsence, ignoreExistence } from '#base/absence.ts'
import { createKeyedMutex } from '#base/concurrency/keyed-mutex.ts'
import { readAll, sync } from '#base/disk.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { problemIn } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import type { Directories } from '../directories/directories.ts'
import type { S3 } from '../s3/s3.ts'

/** Where the bytes of LFS objects are: in the directories of repositories, or in the bucket of a shared store. */
export type LfsFiles = {
  /**
   * Has a file written, makes it an object, durably, and then `commit`s its row with its key in the bucket, which is null
   * without one. `commit` returns false when there is such a row. False when the repository has been deleted.
   */
  place: (object: LfsFile, file: WrittenLfsFile, commit: CommitLfsFile) => Promise<boolean>
  /** Transfers between clients and the bucket; undefined where there is none. */
  direct: DirectLfsFiles | undefined
  /** Removes the bytes of objects whose rows `deleteRows` has deleted; returns how many they are. */
  remove: (repositoryId: string, deleteRows: DeleteLfsFiles) => Promise<number>
  /** Removes files that a crash has left before a time, which are none of the known objects. */
  removeStray: (repositoryId: string, before: number, findKnown: FindKnown) => Promise<void>
  /** Opens an object; undefined when it is missing. It can then be read to its end, even if it is removed. */
  open: (object: StoredLfsFile) => Promise<OpenLfsFile | undefined>
}

type SignedRequest = Awaited<ReturnType<S3['signGet']>>

/** Transfers of objects between clients and the bucket, without the server. */
export type DirectLfsFiles = {
  /** The origin of the bucket. */
  endpoint: string
  linksToDownload: (objects: StoredLfsFile[]) => Promise<Map<string, SignedRequest>>
  /** Links by the ids of objects that are to be uploaded; empty when the bucket would accept other bytes. */
  linksToUpload: (
    repositoryId: string,
    pointers: { oid: string; size: number }[],
  ) => Promise<Map<string, SignedRequest & { uploadId: string }>>
  /** Commits an object that a client has uploaded. Undefined when there is none, or how many bytes it has. */
  complete: (
    upload: LfsFile & { uploadId: string; size: number },
    commit: CommitLfsFile,
  ) => Promise<number | undefined>
}

type LfsFile = { repositoryId: string; oid: string }

type StoredLfsFile = LfsFile & { size: number; bucketKey: string | null }

type WrittenFile = Parameters<S3['putWhileWritten']>[1]

/** Called with the size of a file while it is written, and waited for. */
export type OnWritten = Parameters<WrittenFile['write']>[0]

/** A file that is written durably, unless it is stored meanwhile. */
type WrittenLfsFile = Omit<WrittenFile, 'write'> & {
  write: (onWritten?: OnWritten) => Promise<number>
  signal: AbortSignal
}

type DeleteLfsFiles = (tx: Db) => Promise<StoredLfsFile[]>

type FindKnown = (oids: string[]) => Promise<ReadonlySet<string>>

type CommitLfsFile = (
  tx: Db,
  placed: { bucketKey: string | null; size: number },
) => Promise<boolean>

type LfsRange = { start: number; bytes: number; buffer?: Buffer }

/** An open object, of which one range is read. */
export type OpenLfsFile = AsyncDisposable & {
  /** A chunk is valid until the next one is requested if the caller gives a `buffer` for it; otherwise, it is a new one. */
  read: (range: LfsRange, signal: AbortSignal) => AsyncIterable<Buffer>
}

/** The beginning of the keys of LFS objects in the bucket. A key is used once, so its object is never replaced. */
export const lfsKeyStart = 'lfs/'

const chunkBytes = 256 * 1024

/** The path of an object in the directory of its repository, which is the one that git-lfs uses. */
export function pathOfLfsObject(directory: string, oid: string): string {
  return join(directory, 'lfs', 'objects', oid.slice(0, 2), oid.slice(2, 4), oid)
}

/** The objects of repositories that are directories of this machine. A repository that is being imported is a draft. */
export function createLocalLfsFiles(
  db: Database,
  { pathOf, draftOf }: Pick<Directories, 'pathOf' | 'draftOf'>,
  faultPoint: FaultPoint,
): LfsFiles {
  // A file and its row change together: an upload may bring an object back that is being removed.
  const inOrder = createKeyedMutex()

  return {
    async place({ repositoryId, oid }, { path, write }, commit) {
      const size = await write()
      return inOrder(repositoryId, async () => {
        const isPlaced =
          (await placeIn(pathOf(repositoryId), oid, path)) ||
          (await placeIn(draftOf(repositoryId), oid, path))
        if (!isPlaced) return false
        await db
          .transaction()
          .execute((tx) => commit(tx, { bucketKey: null, size }))
          .catch(async (error) => {
            // Another failure may have committed it.
            if (problemIn(error)?.code === 'namespace_full')
              await removeFrom([pathOf(repositoryId), draftOf(repositoryId)], oid)
            throw error
          })
        return true
      })
    },

    direct: undefined,

    remove: (repositoryId, deleteRows) =>
      inOrder(repositoryId, async () => {
        const rows = await db.transaction().execute(deleteRows)
        if (rows.length > 0) faultPoint('lfs.deleted')
        for (const { oid } of rows) await removeFrom([pathOf(repositoryId)], oid)
        return rows.length
      }),

    async removeStray(repositoryId, before, findKnown) {
      const folder = join(pathOf(repositoryId), 'lfs', 'objects')
      for (const path of await listOldFiles(folder, before)) {
        await inOrder(repositoryId, async () => {
          const oid = basename(path)
          if (!(await findKnown([oid])).has(oid)) await rm(path, { force: true })
        })
      }
    },

    async open({ repositoryId, oid, size }) {
      const path = pathOfLfsObject(pathOf(repositoryId), oid)
      const file = await open(path).catch(ignoreAbsence)
      if (!file) return undefined
      if ((await file.stat()).size !== size) {
        await file.close()
        return undefined
      }
      return {
        read: (range, signal) => readChunks(file, range, signal),
        [Symbol.asyncDispose]: () => file[Symbol.asyncDispose](),
      }
    },
  }
}

/** Moves a file into the directory of a repository, durably; false when there is no such directory. */
async function placeIn(directory: string, oid: string, file: string): Promise<boolean> {
  const path = pathOfLfsObject(directory, oid)
  try {
    await makeFolder(dirname(path), directory)
    await rename(file, path)
    await sync(dirname(path))
    return true
  } catch (error) {
    ignoreAbsence(error)
    return false
  }
}

async function removeFrom(directories: string[], oid: string): Promise<void> {
  for (const directory of directories) await rm(pathOfLfsObject(directory, oid), { force: true })
}

/** Lists the files of a folder that were last written before a time. */
async function listOldFiles(folder: string, before: number): Promise<string[]> {
  const options = { recursive: true, withFileTypes: true } as const
  const entries = await readdir(folder, options).catch(absentAs([]))
  const old: string[] = []
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name)
    if (!entry.isFile()) continue
    const modifiedAt = (await stat(path).catch(ignoreAbsence))?.mtimeMs ?? before
    if (modifiedAt < before) old.push(path)
  }
  return old
}

async function* readChunks(
  file: FileHandle,
  { start, bytes, buffer }: LfsRange,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  for (let at = start; at < start + bytes; ) {
    signal.throwIfAborted()
    const rest = start + bytes - at
    const chunk = (buffer ?? Buffer.allocUnsafe(Math.min(chunkBytes, rest))).subarray(0, rest)
    await readAll(file, chunk, at)
    yield chunk
    at += chunk.length
  }
}

/** Creates a folder and its parents durably, but not `root`: a deleted repository must not come back as a folder. */
async function makeFolder(path: string, root: string): Promise<void> {
  if (path === root) return
  await makeFolder(dirname(path), root)
  const isNew = await mkdir(path, { mode: 0o700 }).then(() => true, ignoreExistence)
  if (isNew) await sync(dirname(path))
}
