import { type FileHandle, mkdir, open, rename, rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { sync } from '../base/disk.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import { type ByteRange, copyBytes, measureFile, writeAll } from './bytes.ts'
import { type BackupFile, type Manifest, manifestFile, sumOf, toText } from './manifest.ts'
import { readTree, type Tree } from './tree.ts'

export type BackupFolder = ReturnType<typeof createBackupFolder>

type Options = {
  root: string
  /** What is in it. */
  tree: Tree
  /** The backup that is there already. */
  former: Manifest | undefined
  /** Whether all that is kept of it is read again. */
  recheck: boolean
  faultPoint: FaultPoint
}

type Content = Omit<Manifest, 'format' | 'sha256' | 'files'>

const ourFolders = /^(rows|refs|keys|repositories)(\/|$)/
const draftFile = `${manifestFile}.new`

/**
 * A backup that is being written beside the former one. Files do not change once a manifest names them; the
 * new manifest replaces the former in one step, and only then goes what the former alone needed.
 */
export function createBackupFolder({ root, tree, former, recheck, faultPoint }: Options) {
  const formerFiles = new Map(former?.files.map((file) => [file.path, file]))
  const files = new Map<string, BackupFile>()
  const made = new Map<string, Promise<void>>()
  const written = new Map<string, Promise<void>>()
  const counts = { filesCopied: 0, filesKept: 0, bytesCopied: 0 }

  // What was changed since its manifest was written is read again. Bits that rot unseen are left to verify.
  async function isIntact({ path, bytes, sha256 }: BackupFile): Promise<boolean> {
    const found = tree.files.get(path)
    if (found?.bytes !== bytes) return false
    const isOld = found.modifiedAt <= (former?.finishedAt ?? 0)
    return (isOld && !recheck) || (await measureFile(join(root, path), bytes)).sha256 === sha256
  }

  /** Keeps a file of the former backup, or else has it written. */
  async function keepOrWrite(path: string, write: (to: FileHandle) => Promise<ByteRange>) {
    const kept = formerFiles.get(path)
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

  // What is named after its content is the same, whoever comes with it; so it is written once.
  function once(path: string, write: (to: FileHandle) => Promise<ByteRange>): Promise<void> {
    const known = written.get(path) ?? keepOrWrite(path, write)
    written.set(path, known)
    return known
  }

  function makeFolder(folder: string): Promise<void> {
    if (folder === '.') return Promise.resolve()
    const known = made.get(folder) ?? makeFolder(dirname(folder)).then(() => makeOne(folder))
    made.set(folder, known)
    return known
  }

  async function makeOne(folder: string): Promise<void> {
    await mkdir(join(root, folder), { mode: 0o700 }).catch((error) => {
      if (error.code !== 'EEXIST') throw error
    })
  }

  /** Removes what a manifest does not name, of what svc writes; without one, all of it. */
  async function clear(names: Iterable<string>): Promise<void> {
    const named = new Set(names)
    const found = await readTree(root)
    await rm(join(root, draftFile), { force: true })
    for (const path of found.files.keys()) {
      if (ourFolders.test(path) && !named.has(path)) await rm(join(root, path), { force: true })
    }
    // The deepest come last in the list; those that are in use stay.
    for (const folder of found.folders.toReversed()) {
      if (ourFolders.test(folder)) await rmdir(join(root, folder)).catch(() => {})
    }
  }

  return {
    counts,

    /** Adds a file; when its name tells its content, it is taken from the former backup if that has it. */
    add: (path: string, from: FileHandle) => once(path, (to) => copyBytes(from, to)),

    /** Adds bytes under their sum, which is returned. */
    async addBytes(folder: 'rows' | 'refs', bytes: Buffer): Promise<string> {
      const sha256 = sumOf(bytes)
      await once(`${folder}/${sha256}`, async (to) => {
        await writeAll(to, bytes)
        return { bytes: bytes.length, sha256 }
      })
      return sha256
    },

    /** Whether the former backup has any file whose path begins so. */
    formerHas: (prefix: string) => [...formerFiles.keys()].some((path) => path.startsWith(prefix)),

    /** Leaves files out of the new backup after all. */
    leaveOut(isUnwanted: (path: string) => boolean): void {
      for (const path of files.keys()) if (isUnwanted(path)) files.delete(path)
    },

    /** Removes what a backup that was cut short has left. */
    clearRemains: () => clear(formerFiles.keys()),

    /** Puts the new backup in the place of the former; it is on the disk when this returns. */
    async finish(content: Content): Promise<void> {
      const all = [...files.values()].sort((a, b) => (a.path < b.path ? -1 : 1))
      for (const folder of made.keys()) await sync(join(root, folder))
      await using draft = await open(join(root, draftFile), 'wx', 0o600)
      await writeAll(draft, Buffer.from(toText({ ...content, files: all })))
      await draft.sync()
      faultPoint('backup.written')
      await rename(join(root, draftFile), join(root, manifestFile))
      await sync(root)
      faultPoint('backup.named')
      await clear(files.keys())
      faultPoint('backup.cleared')
    },

    /** Bytes of all files of the new backup. */
    totalBytes: () => [...files.values()].reduce((sum, { bytes }) => sum + bytes, 0),
  }
}
