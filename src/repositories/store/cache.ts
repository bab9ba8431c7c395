import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createKeyedMutex } from '#base/concurrency/keyed-mutex.ts'
import { readFingerprint } from '#base/file-fingerprint.ts'
import type { Log } from '#base/log.ts'
import { Problem, toProblem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { writeObjectFormat } from '#git/objects/object-format.ts'
import { closeReadersOf } from '#git/process/process-pool.ts'
import { renewRepositoryVersion } from '#git/refs/repository-version.ts'
import type { S3 } from '../s3/s3.ts'
import {
  areUnchanged,
  type CachedFolders,
  hasFiles,
  isRepository,
  readFolders,
} from './cached-files.ts'
import type { CommittedChange } from './commit-change.ts'
import {
  createPackFiles,
  isPresent,
  linkPack,
  listPresent,
  type PacksPresent,
  removePacks,
  removeTimes,
} from './pack-files.ts'
import { changePackedRefs, writeHead, writePackedRefs } from './packed-refs-file.ts'
import { firstHead } from './ref-store.ts'
import { goneFromStore, storeUnavailable } from './store-error.ts'
import {
  readStoredRepository,
  type StoredRepository,
  versionOf,
} from './stored-repository-store.ts'

/** The directories of repositories on this node, which may be removed at any time: each is filled when it is used. */
export type Cache = {
  /** Brings a directory to at least a version. */
  at: (repository: { id: string; version: number }) => Promise<CachedDirectory>
  /** Brings a directory to the present version. Throws `repository_not_found`. */
  open: (id: string) => Promise<CachedDirectory>
  /** Brings a directory to the version of a change that was made with its objects. */
  advance: (id: string, change: CommittedChange) => Promise<void>
  /**
   * Called before packs are merged in a directory: until disposed, packs that are gone from it are not read again, and
   * packs that the store does not have stay.
   */
  beginMerge: (id: string) => Promise<Merge>
  /** Gives a folder the packs that a repository has in a snapshot of the database; false when it has none there. */
  copyPacks: (snapshot: Db, id: string, folder: string) => Promise<boolean>
  /** Removes a directory. */
  remove: (id: string) => Promise<void>
  /** Removes a directory unless it is in use, or was used after a time by performance.now(). */
  evict: (id: string, lastUse: number) => Promise<boolean>
  /** When this process last used a directory, by performance.now(); negative infinity for never. */
  lastUse: (id: string) => number
  /** Returns a repository with large packs in whose directory they have no common index, once. */
  takeUnindexed: () => string | undefined
}

/** A directory in a state of its repository. */
export type CachedDirectory = {
  path: string
  version: number
  /** How often the repository had been pruned when the directory last had exactly the packs of the store. */
  pruneEpoch: number
}

export type Merge = CachedDirectory &
  AsyncDisposable & {
    /** The packs that are in the directory and in the store. */
    packs: StoredRepository['packs']
  }

type Dependencies = {
  db: Database
  storage: S3
  pathOf: (id: string) => string
  /** Creates an empty repository in place. */
  create: (id: string, defaultBranch: string) => Promise<unknown>
  /** Removes a directory with its files. */
  removeDirectory: (id: string) => Promise<void>
  /** Frees space for a number of bytes, and reserves it until disposed. Throws `storage_full`. */
  reserve: (bytes: number) => Promise<Disposable>
  log: Log
}

type CacheState = {
  version: number
  pruneEpoch: number
  /** The checksums of the packs that it had. */
  packs: ReadonlySet<string>
  /** Its folders when all its files were there. */
  folders?: CachedFolders
}

// Maintenance may retire packs between the reading of their list and of their files.
const maxPasses = 5
// Git finds objects of smaller repositories as fast without a common index and a bitmap.
const indexedMinBytes = 8 * 1024 ** 2
const indexedMinPacks = 20
const neverFilled: CacheState = { version: -1, pruneEpoch: -1, packs: new Set() }

export function createCache(dependencies: Dependencies): Cache {
  const { db, storage, pathOf, create, removeDirectory, reserve, log } = dependencies
  const serialize = createKeyedMutex()
  const packFiles = createPackFiles(storage)
  const states = new Map<string, CacheState>()
  const lastUses = new Map<string, number>()
  /** The packs that are being merged, by repository. */
  const merging = new Map<string, PacksPresent>()
  const unindexed = new Set<string>()

  const packsOf = (id: string) => join(pathOf(id), 'objects', 'pack')
  const stateOf = (id: string) => states.get(id) ?? neverFilled
  const lastUse = (id: string) => lastUses.get(id) ?? Number.NEGATIVE_INFINITY

  /**
   * Whether a directory has a version, and no file of it was removed; remembers its folders if so. Synchronous, because every
   * use of a directory calls it.
   */
  function confirmCurrent(id: string, version: number): boolean {
    const state = stateOf(id)
    if (state.version < version) return false
    const folders = readFolders(pathOf(id))
    if (areUnchanged(state.folders, folders)) return true
    // Merging replaces packs.
    const packs = merging.has(id) ? new Set<string>() : state.packs
    if (!hasFiles(pathOf(id), packs)) return false
    state.folders = folders
    return true
  }

  async function refresh(id: string, wanted: number): Promise<void> {
    if (confirmCurrent(id, wanted)) return
    if (stateOf(id).version >= wanted) {
      log.warn({ repositoryId: id }, 'files of a cached repository were lost; they are read again')
      states.delete(id)
    }
    for (let pass = 1; ; pass++) {
      await createMissing(id)
      // Before the rows: a push moves its pack to the directory after it has committed the row.
      const present = await listPresent(packsOf(id))
      const repository = await readStoredRepository(db, id)
      if (!repository) throw goneFromStore()
      if (repository.version < stateOf(id).version) {
        await dropNewer(id, repository.version)
        continue
      }
      const isFilled = await fillPacks(id, present, repository).catch((error) => {
        // Others have used the space meanwhile.
        const isDiskFull = !(error instanceof Problem) && toProblem(error).code === 'storage_full'
        if (isDiskFull && pass < maxPasses) return false
        throw error
      })
      if (isFilled) {
        const { objectFormat } = repository
        if (objectFormat !== null) await writeObjectFormat(pathOf(id), objectFormat)
        await writeRefs(id, repository)
        const isExact = await removeOthers(id, present, repository)
        const pruneEpoch = isExact ? repository.pruneEpoch : stateOf(id).pruneEpoch
        const packs = new Set(repository.packs.map(({ hash }) => hash))
        states.set(id, { version: repository.version, pruneEpoch, packs })
        await noteMissingIndex(id, repository)
        return
      }
      if (pass === maxPasses) throw storeUnavailable('its packs change too quickly')
    }
  }

  async function createMissing(id: string): Promise<void> {
    if (isRepository(pathOf(id))) return
    if ((await versionOf(db, id)) === undefined) throw goneFromStore()
    // Readers would go on with removed files.
    await closeReadersOf(pathOf(id))
    await removeDirectory(id)
    await create(id, firstHead).catch((error) => {
      // A command beside the server may have been faster.
      if (!isRepository(pathOf(id))) throw error
    })
  }

  async function dropNewer(id: string, version: number): Promise<void> {
    log.error(
      { repositoryId: id, version, cached: stateOf(id).version },
      'the database has lost changes of a repository; its cached directory is dropped',
    )
    states.delete(id)
    await rm(pathOf(id), { recursive: true, force: true })
  }

  async function fillPacks(
    id: string,
    present: PacksPresent,
    { packs }: StoredRepository,
  ): Promise<boolean> {
    const merged = merging.get(id)
    const missing = packs.filter((pack) => !isPresent(present, pack) && !merged?.has(pack.hash))
    if (missing.length === 0) return true
    using _space = await reserve(missing.reduce((sum, { packBytes }) => sum + packBytes, 0))
    return await packFiles.read(db, packsOf(id), missing)
  }

  /** Removes packs that the store does not have, or no longer; false when they may still be needed. */
  async function removeOthers(
    id: string,
    present: PacksPresent,
    { packs, pruneEpoch }: StoredRepository,
  ): Promise<boolean> {
    if (merging.has(id)) return false
    for (const { hash, mtimesBytes } of packs) {
      if (mtimesBytes === null && present.get(hash)) await removeTimes(packsOf(id), hash)
    }
    const others = new Set(present.keys()).difference(new Set(packs.map(({ hash }) => hash)))
    if (others.size === 0) return true
    if (pruneEpoch > 0 && pruneEpoch !== stateOf(id).pruneEpoch) {
      // Stored responses and the graph may have objects that are in none of the packs that stay.
      await renewRepositoryVersion(pathOf(id))
      await removeGraphs(pathOf(id))
    }
    await removePacks(packsOf(id), others)
    return true
  }

  async function noteMissingIndex(id: string, { packs }: StoredRepository): Promise<void> {
    const bytes = packs.reduce((sum, { packBytes }) => sum + packBytes, 0)
    const isWorthIt = bytes >= indexedMinBytes || packs.length >= indexedMinPacks
    if (!isWorthIt || merging.has(id)) return
    if (!readFingerprint(join(packsOf(id), 'multi-pack-index'))) unindexed.add(id)
  }

  async function writeRefs(id: string, { refs, head }: StoredRepository): Promise<void> {
    await writePackedRefs(pathOf(id), refs)
    if (head !== null) await writeHead(pathOf(id), head)
  }

  async function bringTo(id: string, version: number): Promise<CachedDirectory> {
    lastUses.set(id, performance.now())
    if (!confirmCurrent(id, version)) await serialize(id, () => refresh(id, version))
    const { version: present, pruneEpoch } = stateOf(id)
    return { path: pathOf(id), version: present, pruneEpoch }
  }

  const remove = (id: string) =>
    serialize(id, async () => {
      states.delete(id)
      lastUses.delete(id)
      await removeDirectory(id)
    })

  async function open(id: string): Promise<CachedDirectory> {
    const version = await versionOf(db, id)
    if (version === undefined) throw goneFromStore()
    return bringTo(id, version)
  }

  return {
    at: ({ id, version }) => bringTo(id, version),
    open,

    async advance(id, { version, head, refs, packs }) {
      const isNext = await serialize(id, async () => {
        const state = stateOf(id)
        if (state.version !== version - 1) return false
        const present = await listPresent(packsOf(id))
        if (!packs.every((hash) => present.has(hash))) return false
        await changePackedRefs(pathOf(id), refs)
        if (head) await writeHead(pathOf(id), head.branch)
        states.set(id, {
          version,
          pruneEpoch: state.pruneEpoch,
          packs: new Set([...state.packs, ...packs]),
        })
        return true
      })
      if (!isNext) await bringTo(id, version)
    },

    async beginMerge(id) {
      const directory = await open(id)
      return serialize(id, async () => {
        const present = await listPresent(packsOf(id))
        const { packs = [] } = (await readStoredRepository(db, id)) ?? {}
        merging.set(id, present)
        return {
          ...directory,
          packs: packs.filter((pack) => isPresent(present, pack)),
          [Symbol.asyncDispose]: () =>
            serialize(id, async () => {
              merging.delete(id)
              // The next use reads what is missing, and removes what the store does not have.
              states.delete(id)
            }),
        }
      })
    },

    async copyPacks(snapshot, id, folder) {
      const repository = await readStoredRepository(snapshot, id)
      if (!repository) return false
      const missing: StoredRepository['packs'] = []
      for (const pack of repository.packs) {
        if (!(await linkPack(packsOf(id), folder, pack))) missing.push(pack)
      }
      if (await packFiles.read(snapshot, folder, missing)) return true
      throw storeUnavailable('its packs are gone')
    },

    remove,

    async evict(id, usedLast) {
      // Not waited for: what is done with it may wait for space.
      if (serialize.isHeld(id) || merging.has(id) || lastUse(id) > usedLast) return false
      await remove(id)
      return true
    },

    lastUse,

    takeUnindexed() {
      const [id] = unindexed
      if (id !== undefined) unindexed.delete(id)
      return id
    },
  }
}

async function removeGraphs(directory: string): Promise<void> {
  for (const name of ['commit-graph', 'commit-graphs']) {
    await rm(join(directory, 'objects', 'info', name), { recursive: true, force: true })
  }
}
