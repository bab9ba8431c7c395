import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Settings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import { maintain } from '#git/maintenance/maintain.ts'
import type { Git } from '#git/process/git-process.ts'
import { readRawRefs } from '#git/refs/refs.ts'
import { targetOf } from '#git/refs/stored-ref.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import { listAllLfsObjects, setLfsBucketKey } from '#repositories/lfs-object-store.ts'
import { type LfsFiles, pathOfLfsObject } from '#repositories/store/lfs-files.ts'
import type { SharedChanges } from '#repositories/store/store.ts'
import { listStored } from '#repositories/store/stored-repository-store.ts'
import { pruneAfterMs } from './maintenance.ts'

type Dependencies = {
  db: Database
  git: Git
  shared: SharedChanges
  lfsFiles: LfsFiles
  directories: Pick<Directories, 'pathOf' | 'locate'>
  settings: Pick<Settings, 'maintenanceMemoryMaxBytes'>
  clock: Clock
  faultPoint: FaultPoint
}

type Options = { report: (progress: string) => void; signal: AbortSignal }

export type Adoption = {
  /** The names of repositories that are now in the store. */
  adopted: string[]
  /** The repositories that could not be moved, and why. */
  refused: { name: string; reason: string }[]
}

/** Moves the repositories of a data directory, also deleted ones, into a shared store, which its database must know already. */
export async function adoptRepositories(
  dependencies: Dependencies,
  { report, signal }: Options,
): Promise<Adoption> {
  const { db, shared, directories, faultPoint } = dependencies
  const adoption: Adoption = { adopted: [], refused: [] }
  const waiting = await listStored(db, { isStored: false })
  for (const [index, { id, name, state }] of waiting.entries()) {
    signal.throwIfAborted()
    report(`Moving ${index + 1} of ${waiting.length} repositories: ${name}`)
    const directory = (await directories.locate(id)) ?? directories.pathOf(id)
    const reason = await obstacleTo(directory)
    if (reason !== undefined) {
      const advice = `; it was deleted, and svc deleted-repos purge ${id} removes it`
      adoption.refused.push({ name, reason: reason + (state === 'deleted' ? advice : '') })
      continue
    }
    await packAll(dependencies, directory, signal)
    await adoptLfsObjects(dependencies, { id, directory, signal })
    await shared.adoptDirectory(id, directory)
    faultPoint('adopt.moved')
    adoption.adopted.push(name)
  }
  return adoption
}

/** Copies the LFS objects of a repository into the bucket. A missing or damaged one cannot be copied; doctor names it. */
async function adoptLfsObjects(
  { db, lfsFiles }: Dependencies,
  { id, directory, signal }: { id: string; directory: string; signal: AbortSignal },
): Promise<void> {
  for (const object of (await listAllLfsObjects(db, id)).get(id) ?? []) {
    const path = pathOfLfsObject(directory, object.oid)
    const size = (await stat(path).catch(ignoreAbsence))?.size
    if (object.bucketKey !== null || size !== object.size) continue
    signal.throwIfAborted()
    const file = { path, maxBytes: size, write: async () => size, signal }
    await lfsFiles.place(object, file, (tx, { bucketKey }) =>
      setLfsBucketKey(tx, object, bucketKey),
    )
  }
}

async function obstacleTo(directory: string): Promise<string | undefined> {
  if (!(await stat(join(directory, 'HEAD')).catch(ignoreAbsence))) {
    return `${directory} is missing`
  }
  const refs = await readRawRefs(directory)
  if (!refs) return 'its refs cannot be read; svc doctor says why'
  for (const [name, value] of refs) {
    if (!isUtf8(name)) return 'it has a ref whose name is not UTF-8'
    if (name !== 'HEAD' && targetOf(value) !== undefined) return `${name} is a symbolic ref`
  }
  return undefined
}

function isUtf8(name: string): boolean {
  const bytes = Buffer.from(name, 'latin1')
  return Buffer.from(bytes.toString('utf8'), 'utf8').equals(bytes)
}

/** Packs all reachable objects: a store has no loose objects. */
async function packAll(
  { git, settings, clock, faultPoint }: Dependencies,
  directory: string,
  signal: AbortSignal,
): Promise<void> {
  await maintain(directory, {
    git,
    extent: 'full',
    expireBefore: clock.now() - pruneAfterMs,
    memoryMaxBytes: settings.maintenanceMemoryMaxBytes,
    watch() {},
    waitForOtherHolds: async () => true,
    faultPoint,
    signal,
  })
}
