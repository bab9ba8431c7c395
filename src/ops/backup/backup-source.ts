import { constants } from 'node:fs'
import { open, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { copyBytes, measureFile } from './bytes.ts'
import { BackupError, type BackupFile, type Manifest, manifestFile, sumOf } from './manifest.ts'
import { findManifest } from './open-folder.ts'
import { openFile, type Tree } from './tree.ts'

/** Reads a backup, and verifies everything that it reads against the manifest. */
export type BackupSource = ReturnType<typeof createSource>

// V8 limits strings to half a GiB.
const maxReadBytes = 400 * 1024 * 1024

/** Returns the real path of a folder with a backup. Throws a BackupError for a folder without one. */
export async function findBackup(folder: string): Promise<string> {
  const names = await readdir(folder).catch((error) => {
    const reason = error.code === 'ENOENT' ? 'no such directory' : error.message
    throw new BackupError(`${folder} cannot be read: ${reason}.`, { cause: error })
  })
  if (names.includes(manifestFile)) return realpath(folder)
  throw new BackupError(`${folder} holds no backup: there is no ${manifestFile} in it.`)
}

/** Reads the manifest of a folder. Throws a BackupError if it has none. */
export async function readOwnManifest(root: string): Promise<Manifest> {
  const manifest = await findManifest(root)
  if (manifest) return manifest
  throw new BackupError(`${root} holds no backup: there is no ${manifestFile} in it.`)
}

export function createSource(root: string, manifest: Manifest) {
  const files = new Map(manifest.files.map((file) => [file.path, file]))
  const objects = Map.groupBy(
    manifest.files.filter(({ path }) => path.startsWith('repositories/')),
    ({ path }) => path.split('/')[1] ?? '',
  )

  function named(path: string): BackupFile {
    const file = files.get(path)
    if (file) return file
    throw new BackupError(`${path} is not in the manifest.`)
  }

  return {
    root,
    manifest,

    /** Lists the files of a repository's objects. */
    objectsOf: (id: string): BackupFile[] => objects.get(id) ?? [],

    keys: manifest.files.filter(({ path }) => path.startsWith('keys/')),

    async read(path: string): Promise<Buffer> {
      const { bytes, sha256 } = named(path)
      if (bytes > maxReadBytes) throw new BackupError(`${path} is too large to be read.`)
      await using file = await openFile(join(root, path))
      const content = await file.readFile()
      if (sumOf(content) !== sha256) throw changed(path)
      return content
    },

    /** Copies a file to a new file. */
    async copy(path: string, target: string): Promise<void> {
      const { bytes, sha256 } = named(path)
      await using from = await openFile(join(root, path))
      const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
      await using to = await open(target, flags, 0o600)
      const copied = await copyBytes(from, to, bytes)
      if (copied.bytes !== bytes || copied.sha256 !== sha256) throw changed(path)
    },

    /** Verifies a file. Returns its fault as the end of a sentence, or undefined. */
    async faultOf({ path, bytes, sha256 }: BackupFile, tree: Tree): Promise<string | undefined> {
      const file = tree.files.get(path)
      if (!file) return 'is missing'
      if (file.bytes !== bytes) return `has ${file.bytes} bytes instead of ${bytes}`
      const { sha256: sum } = await measureFile(join(root, path), bytes)
      return sum === sha256 ? undefined : 'has changed: its checksum does not match'
    },
  }
}

function changed(path: string): BackupError {
  return new BackupError(
    `${path} has changed since the backup. \`svc backup verify\` lists all damage; use another copy.`,
  )
}
