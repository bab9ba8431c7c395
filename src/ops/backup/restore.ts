import { mkdir, rmdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { FaultPoint } from '#base/fault-points.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { toProblem } from '#base/problem.ts'
import { beginRestore, endRestore, lock, undoRestore } from '#config/data-directory.ts'
import { connect, type DatabaseOptions, engineOf } from '#database/database.ts'
import { listTables } from '#database/rows.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import { pathOfLfsObject } from '#repositories/store/lfs-files.ts'
import { type BackupSource, createSource, findBackup, readOwnManifest } from './backup-source.ts'
import { loadRows } from './load-rows.ts'
import { BackupError, lfsIdIn } from './manifest.ts'
import { lockFolder, refuseNested } from './open-folder.ts'
import { readRefsFile, writeRefs } from './refs-file.ts'
import { listFolder, refuseOthers, type Tree } from './tree.ts'

type Dependencies = { database: DatabaseOptions; directories: Directories; faultPoint: FaultPoint }

type Options = {
  from: string
  /** Receives progress texts. */
  report: (progress: string) => void
  /** Cancels the restore, which then restores nothing. */
  signal: AbortSignal
}

const maxConcurrentRestores = 4

/**
 * Restores a backup into a new data directory and an empty database, completely or not at all. Verifies every
 * byte while copying. Throws a BackupError or a DataDirectoryError.
 */
export async function restore(dependencies: Dependencies, options: Options) {
  const { from } = options
  const { database, faultPoint } = dependencies
  const { dataDir } = database
  const root = await findBackup(from)
  await refuseNested(root, dataDir)
  const tree = await listFolder(root)
  refuseOthers(root, tree)
  using _folderLock = await lockFolder(root)
  const source = createSource(root, await readOwnManifest(root))
  refuseIncomplete(source, tree)
  await refuseFullDatabase(database)
  await beginRestore(dataDir)
  faultPoint('restore.marked')
  try {
    using _serving = await lock(dataDir, 'server', 0)
    return await fill(dependencies, source, options)
  } catch (error) {
    await undoRestore(dataDir)
    await rmdir(dataDir).catch(() => {}) // The directory may be a mount point.
    throw toProblem(error).code === 'storage_full' ? full(dataDir, error) : error
  }
}

async function fill(
  { database, directories, faultPoint }: Dependencies,
  source: BackupSource,
  { report, signal }: Options,
) {
  const { manifest, keys } = source
  const { dataDir } = database
  await directories.prepare(async () => {})
  const present = manifest.repositories.filter(({ refs }) => refs !== null)
  let done = 0
  await forEachConcurrently(maxConcurrentRestores, present, async ({ id, refs, objectFormat }) => {
    signal.throwIfAborted()
    await directories.create(id, objectFormat ?? 'sha1')
    await fillRepository(source, { id, refs: refs ?? '', directory: directories.pathOf(id) })
    report(`Restored ${++done} of ${present.length} repositories`)
  })
  for (const { path } of keys) await source.copy(path, join(dataDir, basename(path)))
  await writeFile(join(dataDir, 'instance'), `${manifest.instanceId}\n`, { mode: 0o600 })
  faultPoint('restore.copied')
  signal.throwIfAborted()
  report('Restoring rows')
  const db = connect(database)
  try {
    await loadRows(db, engineOf(database), source)
  } finally {
    await db.destroy()
  }
  faultPoint('restore.rows')
  await endRestore(dataDir)
  faultPoint('restore.unmarked')
  return {
    dataDir,
    createdAt: manifest.createdAt,
    repositories: manifest.repositories.length,
    rows: manifest.tables.reduce((sum, { rows }) => sum + rows, 0),
    bytes: manifest.files.reduce((sum, { bytes }) => sum + bytes, 0),
    keys: keys.map(({ path }) => basename(path)),
    lost: manifest.repositories.filter(({ refs }) => refs === null).map(({ name }) => name),
  }
}

type RestoredRepository = { id: string; refs: string; directory: string }

async function fillRepository(source: BackupSource, { id, refs, directory }: RestoredRepository) {
  const objects = join(directory, 'objects')
  const prefix = `repositories/${id}/`
  for (const { path } of source.objectsOf(id)) {
    const oid = lfsIdIn(path)
    const target =
      oid === undefined ? join(objects, path.slice(prefix.length)) : pathOfLfsObject(directory, oid)
    await mkdir(dirname(target), { recursive: true })
    await source.copy(path, target)
  }
  const path = `refs/${refs}`
  await writeRefs(directory, readRefsFile(path, await source.read(path)))
}

// Checks presence and size of all files before anything is created.
function refuseIncomplete({ root, manifest }: BackupSource, { files }: Tree): void {
  for (const { path, bytes } of manifest.files) {
    const file = files.get(path)
    if (file?.bytes === bytes) continue
    const fault = file ? `has ${file.bytes} bytes instead of ${bytes}` : 'is missing'
    throw new BackupError(
      `${join(root, path)} ${fault}. \`svc backup verify\` lists all damage; use another copy.`,
    )
  }
}

async function refuseFullDatabase(database: DatabaseOptions): Promise<void> {
  if (database.url === undefined) return
  const db = connect(database)
  try {
    const names = await listTables(db, 'postgres')
    if (names.length === 0) return
    throw new BackupError(
      `The database of SVC_DATABASE_URL is not empty: it has the table ${names[0]}. Restore into an empty database.`,
    )
  } finally {
    await db.destroy()
  }
}

function full(dataDir: string, cause: unknown): BackupError {
  return new BackupError(
    `The disk of ${dataDir}, or of the database, is full; nothing was restored. Free some space and try again.`,
    { cause },
  )
}
