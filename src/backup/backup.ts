import { constants } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FaultPoint } from '../base/fault-points.ts'
import { forEachConcurrently } from '../base/for-each-concurrently.ts'
import { newId } from '../base/ids.ts'
import { toProblem } from '../base/problem.ts'
import { lock } from '../config/data-directory.ts'
import type { Database, DatabaseOptions } from '../database/database.ts'
import { schemaVersion } from '../database/migrate.ts'
import type { Directories } from '../repositories/directories.ts'
import { assertSameInstance, readOwnInstance } from '../repositories/instance.ts'
import { type BackupFolder, createBackupFolder } from './backup-folder.ts'
import { createSnapshotFinder } from './consistent-snapshot.ts'
import { type BackedUpRepository, BackupError, type Manifest } from './manifest.ts'
import { addObjects } from './objects.ts'
import { findManifest, refuseNested, takeFolder } from './open-folder.ts'
import { addRows } from './row-lines.ts'
import { readTree, refuseOthers } from './tree.ts'

type Dependencies = {
  db: Database
  database: DatabaseOptions
  directories: Directories
  faultPoint: FaultPoint
  version: string
}

type Options = {
  /** The folder of the backup, new or with a former backup of the same service. */
  to: string
  withKeys: boolean
  /** Whether what the former backup has is read again, all of it, and copied anew where it has changed. */
  recheck: boolean
  /** Is told what goes on. */
  report: (what: string) => void
  /** Ends it early; the folder is then as it was. */
  signal: AbortSignal
}

const lockWaitMs = 5000
const copiesAtOnce = 4
const namedAtMost = 3
const keyFiles = ['encryption.key', 'ssh_host_ed25519_key', 'ssh_host_ed25519_key.pub']

/** Brings a backup up to date with a service, whether its server runs or not. Throws a BackupError. */
export async function backUp(dependencies: Dependencies, options: Options) {
  const { db, database, faultPoint } = dependencies
  const { to: root, recheck } = options
  const { dataDir } = database
  await refuseNested(root, dataDir)
  await assertSameInstance({ db, dataDir, hasData: true })
  const instanceId = await readOwnInstance(db)
  // Keeps what is deleted meanwhile in the trash.
  using _whole = await lock(dataDir, 'backup', lockWaitMs)
  using _own = await takeFolder(root)
  const tree = await readTree(root)
  refuseOthers(root, tree)
  const former = await findManifest(root)
  if (former && former.instanceId !== instanceId) {
    throw new BackupError(`${root} holds a backup of another service; name another folder.`)
  }
  const folder = createBackupFolder({ root, tree, former, recheck, faultPoint })
  const had = new Set(former?.repositories.filter(({ refs }) => refs !== null).map(({ id }) => id))
  await folder.clearRemains()
  try {
    return await write(dependencies, options, { folder, instanceId, had })
  } catch (error) {
    await folder.clearRemains().catch(() => {}) // The first failure says more than what follows from it.
    throw isFull(error) ? full(root, former, error) : error
  }
}

async function write(
  { db, database, directories, faultPoint, version }: Dependencies,
  { to: root, withKeys, report, signal }: Options,
  { folder, instanceId, had }: { folder: BackupFolder; instanceId: string; had: Set<string> },
) {
  const startedAt = performance.now()
  const id = newId()
  report('Reading refs and rows')
  const read = (path: string) => readFile(join(root, path))
  const moments = createSnapshotFinder({ db, database, directories, folder, read })
  const { at, repositories, tables, schema } = await (async () => {
    await using snapshot = await moments.find(() => faultPoint('backup.fenced'))
    const schema = await schemaVersion(snapshot.db)
    const tables = await addRows(snapshot.db, folder)
    return { ...snapshot, tables, schema }
  })()
  faultPoint('backup.rows')
  refuseLoss(repositories, had)
  let done = 0
  const whole = repositories.filter(({ refs }) => refs !== null)
  await forEachConcurrently(copiesAtOnce, whole, async ({ id: repositoryId }) => {
    signal.throwIfAborted()
    await addObjects({ directories, folder, id: repositoryId })
    report(`Copied ${++done} of ${whole.length} repositories`)
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
    repositories,
  })
  return {
    id,
    createdAt: at,
    repositories: repositories.length,
    rows: tables.reduce((sum, { rows }) => sum + rows, 0),
    ...folder.counts,
    bytes: folder.totalBytes(),
    seconds: Math.round(performance.now() - startedAt) / 1000,
    /** Names of repositories whose directories are lost: of them there are rows alone. */
    lost: repositories.filter(({ refs }) => refs === null).map(({ name }) => name),
  }
}

// A disk that is not mounted, for example: what the former backup has of it must not go for that.
function refuseLoss(repositories: BackedUpRepository[], had: Set<string>): void {
  const names = repositories.filter(({ id, refs }) => refs === null && had.has(id))
  if (names.length === 0) return
  const some = names.slice(0, namedAtMost).map(({ name }) => name)
  const rest = names.length > namedAtMost ? ' and others' : ''
  throw new BackupError(
    `The files of ${names.length} repositories are lost: ${some.join(', ')}${rest}. The former backup has them, and is as good ` +
      'as before. Bring them back, or give them up (svc repos delete NAME), and back up again.',
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

function isFull(error: unknown): boolean {
  return toProblem(error).code === 'storage_full'
}

function full(root: string, former: Manifest | undefined, cause: unknown): BackupError {
  const rest = former
    ? `The backup of ${new Date(former.createdAt).toISOString()} in it is as good as before.`
    : 'Nothing was left in it.'
  return new BackupError(`The disk of ${root} is full. ${rest} Make room and try again.`, { cause })
}
