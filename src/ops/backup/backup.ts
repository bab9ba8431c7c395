import { constants } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FaultPoint } from '#base/fault-points.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { newId } from '#base/ids.ts'
import { toProblem } from '#base/problem.ts'
import { lock } from '#config/data-directory.ts'
import type { Database, DatabaseOptions } from '#database/database.ts'
import { readSchema } from '#database/migrate.ts'
import { migrations } from '#database/migrations.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import { readOwnInstance } from '#repositories/instance.ts'
import { listAllLfsObjects } from '#repositories/lfs-object-store.ts'
import type { Store } from '#repositories/store/store.ts'
import { isDamage } from '#repositories/store/store-error.ts'
import { type BackupFolder, createBackupFolder } from './backup-folder.ts'
import { createSnapshotFinder, openSharedSnapshot } from './consistent-snapshot.ts'
import { addLfsObjects } from './lfs.ts'
import { type BackedUpRepository, BackupError, type Manifest } from './manifest.ts'
import { addObjects, addSharedObjects } from './objects.ts'
import { acquireFolder, findManifest, refuseNested } from './open-folder.ts'
import { addRows } from './row-lines.ts'
import { listFolder, refuseOthers } from './tree.ts'

type Dependencies = {
  db: Database
  database: DatabaseOptions
  directories: Directories
  store: Store
  faultPoint: FaultPoint
  version: string
}

type Options = {
  /** The folder of the backup: new, or with a previous backup of the same service. */
  to: string
  withKeys: boolean
  /** Whether all files of the previous backup are read again, and copied again where they have changed. */
  recheck: boolean
  /** Receives progress texts. */
  report: (progress: string) => void
  /** Cancels the backup, which leaves the folder as it was. */
  signal: AbortSignal
}

/** A repository that lacks a file in the store. */
type DamagedRepository = {
  name: string
  fault: string
  /** Whether the backup has it in the state of the previous backup; otherwise it has only its rows. */
  isKept: boolean
}

const lockWaitMs = 5000
const maxConcurrentCopies = 4
const maxNames = 3
const keyFiles = ['encryption.key', 'ssh_host_ed25519_key', 'ssh_host_ed25519_key.pub']

/** Backs up a service to a folder, whether its server runs or not. Throws a BackupError. */
export async function backUp(dependencies: Dependencies, options: Options) {
  const { db, database, store, faultPoint } = dependencies
  const { to: root, recheck } = options
  const { dataDir } = database
  await refuseNested(root, dataDir)
  const instanceId = await readOwnInstance(db)
  // In another bucket every pack would be missing.
  await store.ping()
  // While this lock is held, deleted repositories stay in the trash.
  using _backupLock = await lock(dataDir, 'backup', lockWaitMs)
  using _folderLock = await acquireFolder(root)
  const tree = await listFolder(root)
  refuseOthers(root, tree)
  const previous = await findManifest(root)
  if (previous && previous.instanceId !== instanceId) {
    throw new BackupError(`${root} holds a backup of another service; choose another folder.`)
  }
  const folder = createBackupFolder({ root, tree, previous, recheck, faultPoint })
  const idsWithRefs = new Set(
    previous?.repositories.filter(({ refs }) => refs !== null).map(({ id }) => id),
  )
  await folder.clearRemains()
  try {
    return await write(dependencies, options, { folder, instanceId, idsWithRefs })
  } catch (error) {
    await folder.clearRemains().catch(() => {}) // The first error is the cause.
    throw isFull(error) ? full(root, previous, error) : error
  }
}

async function write(
  { db, database, directories, store, faultPoint, version }: Dependencies,
  { to: root, withKeys, report, signal }: Options,
  {
    folder,
    instanceId,
    idsWithRefs,
  }: { folder: BackupFolder; instanceId: string; idsWithRefs: Set<string> },
) {
  const startedAt = performance.now()
  const id = newId()
  report('Reading refs and rows')
  await using resources = new AsyncDisposableStack()
  const open = async () => {
    if (store.shared) return openSharedSnapshot({ database, folder })
    const read = (path: string) => readFile(join(root, path))
    const snapshots = createSnapshotFinder({ db, database, directories, folder, read })
    return snapshots.find(() => faultPoint('backup.fenced'))
  }
  const snapshot = resources.use(await open())
  const { at, repositories } = snapshot
  const { version: schema } = await readSchema(snapshot.db)
  if (schema > migrations.length) throw tooNew(schema)
  const tables = await addRows(snapshot.db, folder)
  const lfsObjects = await listAllLfsObjects(snapshot.db)
  // With a shared store it is still needed: it has the packs of repositories that are deleted meanwhile.
  if (!store.shared) await resources.disposeAsync()
  faultPoint('backup.rows')
  refuseLoss(repositories, idsWithRefs)
  let done = 0
  const present = repositories.filter(({ refs }) => refs !== null)
  const damaged: DamagedRepository[] = []
  const lfsLacking: { name: string; oid: string }[] = []
  const backedUp = new Map(repositories.map((repository) => [repository.id, repository]))
  await forEachConcurrently(maxConcurrentCopies, present, async (repository) => {
    signal.throwIfAborted()
    const { shared } = store
    const { id } = repository
    if (!shared) await addObjects({ directories, folder, id })
    else {
      await addSharedObjects({ shared, directories, folder }, snapshot.db, repository.id).catch(
        async (error) => {
          if (!isDamage(error)) throw error
          const refs = await folder.keepRepository(repository.id)
          backedUp.set(repository.id, { ...repository, refs })
          damaged.push({ name: repository.name, fault: error.message, isKept: refs !== null })
        },
      )
    }
    const objects = lfsObjects.get(id) ?? []
    const lacking = await addLfsObjects({ db, directories, store, folder }, objects, signal)
    lfsLacking.push(...lacking.map((oid) => ({ name: repository.name, oid })))
    report(`Copied ${++done} of ${present.length} repositories`)
  })
  if (withKeys) await addKeys(folder, { id, dataDir: database.dataDir })
  signal.throwIfAborted()
  faultPoint('backup.copied')
  await folder.finish({
    id,
    instanceId,
    svcVersion: version,
    schemaVersion: schema,
    createdAt: at,
    finishedAt: Date.now(),
    tables,
    repositories: [...backedUp.values()],
  })
  return {
    id,
    createdAt: at,
    repositories: repositories.length,
    rows: tables.reduce((sum, { rows }) => sum + rows, 0),
    ...folder.counts,
    bytes: folder.totalBytes(),
    seconds: Math.round(performance.now() - startedAt) / 1000,
    /** Names of repositories whose directories are lost; only their rows are in the backup. */
    lost: repositories.filter(({ refs }) => refs === null).map(({ name }) => name),
    damaged,
    /** LFS objects that the backup lacks, because they are missing or damaged, with the names of their repositories. */
    lfsLacking,
  }
}

// The previous backup must not be replaced when, for example, a disk is not mounted.
function refuseLoss(repositories: BackedUpRepository[], idsWithRefs: Set<string>): void {
  const names = repositories.filter(({ id, refs }) => refs === null && idsWithRefs.has(id))
  if (names.length === 0) return
  const some = names.slice(0, maxNames).map(({ name }) => name)
  const rest = names.length > maxNames ? ' and others' : ''
  const count = names.length === 1 ? '1 repository' : `${names.length} repositories`
  throw new BackupError(
    `The files of ${count} are lost: ${some.join(', ')}${rest}. The previous backup has them and was not ` +
      'changed. Restore them, or delete the repositories (svc repos delete NAME, svc deleted-repos purge ID), and back up again.',
  )
}

async function addKeys(folder: BackupFolder, { id, dataDir }: { id: string; dataDir: string }) {
  for (const name of keyFiles) {
    const flags = constants.O_RDONLY | constants.O_NONBLOCK
    const file = await open(join(dataDir, name), flags).catch((error) => {
      if (error.code !== 'ENOENT') throw error
    })
    if (!file) continue
    await using _closed = file
    await folder.add(`keys/${id}/${name}`, file)
  }
}

// A newer schema may have tables that this version does not know.
function tooNew(schema: number): BackupError {
  return new BackupError(
    `The database was migrated by a newer svc (version ${schema}); back up with that version.`,
  )
}

function isFull(error: unknown): boolean {
  return toProblem(error).code === 'storage_full'
}

function full(root: string, previous: Manifest | undefined, cause: unknown): BackupError {
  const rest = previous
    ? `The backup of ${new Date(previous.createdAt).toISOString()} in it was not changed.`
    : 'The folder was left empty.'
  return new BackupError(`The disk of ${root} is full. ${rest} Free some space and try again.`, {
    cause,
  })
}
