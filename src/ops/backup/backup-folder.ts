import { type FileHandle, mkdir, open, rename, rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ignoreExistence } from '#base/absence.ts'
import { sync, writeAll } from '#base/disk.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { createOncePerKey } from '#base/once.ts'
import { type ByteRange, ContentError, copyBytes, copyChunks, measureFile } from './bytes.ts'
import { type BackupFile, formatManifest, type Manifest, manifestFile, sumOf } from './manifest.ts'
import { listFolder, type Tree } from './tree.ts'

export type BackupFolder = ReturnType<typeof createBackupFolder>

type Options = {
  root: string
  tree: Tree
  /** The manifest of the previous backup. */
  previous: Manifest | undefined
  /** Whether files of the previous backup are read again and verified. */
  recheck: boolean
  faultPoint: FaultPoint
}

type Content = Omit<Manifest, 'format' | 'sha256' | 'files'>

const knownFolders = /^(rows|refs|keys|repositories)(\/|$)/
const draftFile = `${manifestFile}.new`

/**
 * Writes a backup beside the previous one. Files never change once a manifest names them. The new manifest
 * replaces the previous one atomically; only then are files removed that it does not name.
 */
export function createBackupFolder({ root, tree, previous, recheck, faultPoint }: Options) {
  const previousFiles = new Map(previous?.files.map((file) => [file.path, file]))
  const files = new Map<string, BackupFile>()
  const createdFolders = new Set<string>()
  const folders = createOncePerKey<Promise<void>>()
  const written = createOncePerKey<Promise<void>>()
  const counts = { filesCopied: 0, filesKept: 0, bytesCopied: 0 }

  // Reads files that were modified after their manifest was written. `recheck` and verify find silent corruption.
  async function isIntact({ path, bytes, sha256 }: BackupFile): Promise<boolean> {
    const file = tree.files.get(path)
    if (file?.bytes !== bytes) return false
    const isOld = file.modifiedAt <= (previous?.finishedAt ?? 0)
    return (isOld && !recheck) || (await measureFile(join(root, path), bytes)).sha256 === sha256
  }

  /** Keeps a file of the previous backup, or writes it. */
  async function keepOrWrite(path: string, write: (to: FileHandle) => Promise<ByteRange>) {
    const kept = previousFiles.get(path)
    if (kept && (await isIntact(kept))) {
      files.set(path, kept)
      counts.filesKept += 1
      return
    }
    await makeFolder(dirname(path))
    const part = join(root, `${path}.part`)
    await using file = await open(part, 'wx', 0o600)
    const extent = await write(file)
    await file.sync()
    await rename(part, join(root, path))
    files.set(path, { path, ...extent })
    counts.filesCopied += 1
    counts.bytesCopied += extent.bytes
  }

  // Paths identify content, so each is written once.
  const once = (path: string, write: (to: FileHandle) => Promise<ByteRange>) =>
    written(path, () => keepOrWrite(path, write))

  function makeFolder(folder: string): Promise<void> {
    if (folder === '.') return Promise.resolve()
    createdFolders.add(folder)
    return folders(folder, async () => {
      await makeFolder(dirname(folder))
      await mkdir(join(root, folder), { mode: 0o700 }).catch(ignoreExistence)
    })
  }

  /** Removes all files of backups except those named. */
  async function clear(names: Iterable<string>): Promise<void> {
    const named = new Set(names)
    const present = await listFolder(root)
    await rm(join(root, draftFile), { force: true })
    for (const path of present.files.keys()) {
      if (knownFolders.test(path) && !named.has(path)) await rm(join(root, path), { force: true })
    }
    // The deepest folders come last in the list. Removing a folder that is not empty fails.
    for (const folder of present.folders.toReversed()) {
      if (knownFolders.test(folder)) await rmdir(join(root, folder)).catch(() => {})
    }
  }

  return {
    counts,

    /** Adds a file whose path identifies its content; copies it only if the previous backup lacks it. */
    add: (path: string, from: FileHandle) => once(path, (to) => copyBytes(from, to)),

    /**
     * Adds a file that is named by its SHA-256, which is read only if the previous backup lacks it. False when it is missing
     * or damaged.
     */
    async addNamed(path: string, sha256: string, read: () => AsyncIterable<Buffer>) {
      try {
        await once(path, (to) => copyChunks(read(), to, sha256))
        return true
      } catch (error) {
        if (error instanceof ContentError) return false
        throw error
      }
    },

    /** Adds bytes as a file named by their SHA-256, and returns the SHA-256. */
    async addBytes(folder: 'rows' | 'refs', bytes: Buffer): Promise<string> {
      const sha256 = sumOf(bytes)
      await once(`${folder}/${sha256}`, async (to) => {
        await writeAll(to, bytes)
        return { bytes: bytes.length, sha256 }
      })
      return sha256
    },

    /** Whether the previous backup has a file whose path starts with `prefix`. */
    previousHas: (prefix: string) =>
      [...previousFiles.keys()].some((path) => path.startsWith(prefix)),

    /**
     * Adds a repository in the state of the previous backup. Returns its refs; null unless all its files are intact.
     */
    async keepRepository(id: string): Promise<string | null> {
      const refs = previous?.repositories.find((repository) => repository.id === id)?.refs ?? null
      const kept = [...previousFiles.values()].filter(
        ({ path }) => path === `refs/${refs}` || path.startsWith(`repositories/${id}/`),
      )
      for (const file of kept) if (!(await isIntact(file))) return null
      for (const file of kept) files.set(file.path, file)
      counts.filesKept += kept.length
      return refs
    },

    /** Removes files from the new backup. */
    leaveOut(isExcluded: (path: string) => boolean): void {
      for (const path of files.keys()) if (isExcluded(path)) files.delete(path)
    },

    /** Removes the remains of an interrupted backup. */
    clearRemains: () => clear(previousFiles.keys()),

    /** Replaces the previous backup by the new one, which is durable when this returns. */
    async finish(content: Content): Promise<void> {
      const all = [...files.values()].sort((a, b) => (a.path < b.path ? -1 : 1))
      for (const folder of createdFolders) await sync(join(root, folder))
      await using draft = await open(join(root, draftFile), 'wx', 0o600)
      await writeAll(draft, Buffer.from(formatManifest({ ...content, files: all })))
      await draft.sync()
      faultPoint('backup.written')
      await rename(join(root, draftFile), join(root, manifestFile))
      await sync(root)
      faultPoint('backup.named')
      await clear(files.keys())
      faultPoint('backup.cleared')
    },

    /** The size of all files of the new backup, in bytes. */
    totalBytes: () => [...files.values()].reduce((sum, { bytes }) => sum + bytes, 0),
  }
}
