import type { Log } from '#base/log.ts'
import { problemIn } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import { importFailed } from '#git/import/import-error.ts'
import type { LfsSource } from '#git/import/lfs-source.ts'
import { readLfsServers } from '#git/objects/lfs-pointers.ts'
import type { Git } from '#git/process/git-process.ts'
import type { LfsObjects } from '../lfs-objects.ts'

/** What the import of LFS objects needs. */
export type LfsImportDependencies = {
  git: Git
  lfsObjects: Pick<LfsObjects, 'add' | 'sizesOf' | 'bytesLeft'>
  settings: Pick<PlainSettings, 'lfsObjectMaxBytes' | 'importStallSeconds'>
  log: Log
}

/** The watch over an import during the transfer of LFS objects. */
export type LfsWatch = {
  signal: AbortSignal
  /**
   * Begins the transfer of LFS objects, which has stall timeouts and limits of its own. When the import takes too long now,
   * only the transfer ends, by the signal that this returns, as it does by the signal of the import.
   */
  beginLfs: () => AbortSignal
  onLfsProgress: (percent: number) => void
}

type Draft = {
  id: string
  directory: string
  /** The owner mark of the import's processes. */
  owner: string
  /** The sizes of the objects that its files name, by their ids. */
  pointers: ReadonlyMap<string, number>
  source: LfsSource | undefined
}

const countedTogether = 1000

/**
 * Adds those LFS objects that the files of a draft name and its source has. Returns how many are missing then: an object that
 * cannot be read does not fail the import, but a full namespace does.
 */
export async function importLfsObjects(
  draft: Draft,
  watched: LfsWatch,
  dependencies: LfsImportDependencies,
): Promise<number> {
  const { id, pointers, source } = draft
  if (pointers.size === 0) return 0
  const faults: unknown[] = []
  if (source) {
    const signal = watched.beginLfs()
    await readObjects({ ...draft, source, signal, faults }, watched, dependencies).catch((error) =>
      faults.push(error),
    )
    watched.signal.throwIfAborted()
  }
  const [fault] = faults
  if (isFull(fault)) throw fault
  const missing = await countMissing(draft, dependencies)
  if (missing > 0)
    dependencies.log.info({ repositoryId: id, missing, err: fault }, 'LFS objects not imported')
  return missing
}

function isFull(fault: unknown): boolean {
  return problemIn(fault)?.code === 'namespace_full'
}

async function readObjects(
  draft: Draft & { source: LfsSource; signal: AbortSignal; faults: unknown[] },
  watched: LfsWatch,
  { git, lfsObjects, settings }: LfsImportDependencies,
): Promise<void> {
  const { id: repositoryId, directory, owner, pointers, source, signal, faults } = draft
  const onFault = (fault: unknown) => {
    // The first one is logged, and one that fails the import is passed on.
    if (faults.length === 0 || isFull(fault)) faults[0] = fault
  }
  const servers = await readLfsServers(git, directory, 'HEAD', { owner })
  const { lfsObjectMaxBytes: maxBytes } = settings
  const stallMs = settings.importStallSeconds * 1000
  const readable = [...pointers].filter(([, size]) => size <= maxBytes)
  if (readable.length < pointers.size)
    onFault(importFailed(`The source has LFS objects of more than ${maxBytes} bytes.`))
  let added = 0
  await source.read({
    pointers: readable.map(([oid, size]) => ({ oid, size })),
    lfsUrl: servers.get('lfs.url'),
    async receive({ oid, size }, stream) {
      const body = { declaredBytes: size, open: () => stream }
      const content = { body, signal, stallMs, draftId: repositoryId }
      await lfsObjects.add({ repositoryId, oid }, content)
      added += 1
      watched.onLfsProgress(Math.floor((100 * added) / readable.length))
    },
    onFault,
    stallMs,
    signal,
  })
}

/** How many objects the draft does not have, by the rows that make them exist. */
async function countMissing(
  { id, pointers }: Draft,
  { lfsObjects }: LfsImportDependencies,
): Promise<number> {
  const oids = [...pointers.keys()]
  let missing = oids.length
  for (let at = 0; at < oids.length; at += countedTogether)
    missing -= (await lfsObjects.sizesOf(id, oids.slice(at, at + countedTogether))).size
  return missing
}
