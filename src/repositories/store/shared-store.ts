import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ignoreAbsence } from '#base/absence.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Git } from '#git/process/git-process.ts'
import { adoptDraft } from './adopt.ts'
import { type Cache, createCache } from './cache.ts'
import { createCacheEviction } from './cache-eviction.ts'
import { deleteUnneeded } from './collector.ts'
import { commitChange, PrunedError } from './commit-change.ts'
import { storePacks } from './durable-packs.ts'
import { lendPack, openLentPack, takeBackPacks } from './lent-packs.ts'
import { createBucketLfsFiles } from './lfs-bucket.ts'
import type { MarkedBucket } from './marked-bucket.ts'
import { releasePacks, sumPacks } from './pack-store.ts'
import { beginGeneration } from './publish-generation.ts'
import { firstHead } from './ref-store.ts'
import { createRepositoryTransaction } from './repository-transactions.ts'
import type { Store } from './store.ts'
import { beingMaintained, needsPruned } from './store-error.ts'

/** The directories of a node. */
export type LocalDirectories = {
  pathOf: (id: string) => string
  /** Creates an empty repository in place. */
  create: (id: string, format: ObjectFormat, defaultBranch?: string) => Promise<void>
  draftOf: (id: string) => string
  remove: (id: string) => Promise<void>
  /** The ids of all directories. */
  list: () => Promise<string[]>
}

type Dependencies = {
  db: Database
  dataDir: string
  git: Git
  storage: MarkedBucket
  /** The origin of the bucket. */
  endpoint: string
  /** The name of this node. */
  node: string
  inlineMaxBytes: number
  /** Bytes that the cache may take; undefined for all but a part of the disk. */
  cacheMaxBytes: number | undefined
  freeSpace: Pick<FreeSpace, 'measure'>
  directories: LocalDirectories
  settings: Pick<PlainSettings, 'defaultObjectFormat'>
  faultPoint: FaultPoint
  log: Log
}

// How long a push waits for maintenance of its repository on this node.
const mergePatienceMs = 10_000
const mergePauseMs = 200

/** Repositories in PostgreSQL and object storage; the directories of this node are caches. */
export function createSharedStore(dependencies: Dependencies): Store {
  const { db, dataDir, directories, settings, faultPoint, log, storage } = dependencies
  const transaction = createRepositoryTransaction(db)
  const cache = createCache({
    db,
    storage,
    pathOf: directories.pathOf,
    create: (id, branch) => directories.create(id, settings.defaultObjectFormat, branch),
    removeDirectory: directories.remove,
    reserve: (bytes) => eviction.reserve(bytes),
    log,
  })
  const maxBytes = dependencies.cacheMaxBytes
  const eviction = createCacheEviction({ ...dependencies, cache, maxBytes })

  return {
    prepare: () => dropUnsyncedCache(dataDir),
    join: storage.join,
    ping: storage.ping,

    at: cache.at,
    open: async (id) => (await cache.open(id)).path,
    async create(id, format, defaultBranch = firstHead) {
      // Not needed by others, but on a full disk the repository is not created.
      await directories.create(id, format, defaultBranch)
      return { head: defaultBranch }
    },

    async adopt(id) {
      const directory = directories.draftOf(id)
      return adoptDraft(dependencies, { id, directory })
    },

    packBytes: (id, tx) => sumPacks(tx, id),
    release: releasePacks,

    remove: (id) => cache.remove(id),

    reclaim: eviction.reclaim,

    async sweep() {
      await eviction.sweep()
      await deleteUnneeded(dependencies)
    },

    lfsFiles: createBucketLfsFiles(dependencies),
    bucket: storage,

    shared: {
      db,
      transaction,
      show: cache.advance,
      copyPacks: cache.copyPacks,
      takeUnindexed: cache.takeUnindexed,
      lentPacks: {
        lend: (repositoryId, chunks) => lendPack(dependencies, repositoryId, chunks),
        open: (pack) => openLentPack(dependencies, pack),
        takeBack: (packs) => takeBackPacks(db, packs),
      },

      async adoptDirectory(id, directory) {
        const record = await adoptDraft(dependencies, { id, directory })
        await transaction(id, record)
      },

      beginGeneration: (id) => beginGeneration({ ...dependencies, cache, transaction }, id),

      async commit(change, packFolder) {
        const packs =
          packFolder === undefined
            ? []
            : await storePacks(dependencies, change.repositoryId, join(packFolder, 'pack'))
        faultPoint('shared-push.stored')
        for (let pruneEpoch = change.pruneEpoch; ; ) {
          try {
            return await commitChange(transaction, { ...change, pruneEpoch, packs })
          } catch (error) {
            if (!(error instanceof PrunedError)) throw error
          }
          pruneEpoch = await openPruned(cache, change.repositoryId, pruneEpoch)
          if (!(await change.isConnected())) throw needsPruned()
        }
      },
    },

    [Symbol.asyncDispose]: () => storage[Symbol.asyncDispose](),
  }
}

/**
 * Brings a directory up to date whose repository was pruned; returns its new prune epoch. While this node merges packs,
 * pruned objects stay in the directory. Throws `storage_unavailable` when that takes too long.
 */
async function openPruned(cache: Cache, id: string, formerEpoch: number): Promise<number> {
  const deadline = performance.now() + mergePatienceMs
  for (;;) {
    const { pruneEpoch } = await cache.open(id)
    if (pruneEpoch !== formerEpoch) return pruneEpoch
    if (performance.now() > deadline) throw beingMaintained()
    await sleep(mergePauseMs)
  }
}

/**
 * Removes the cache when the machine has started again since it was written: nothing in it is synced to the disk, so a
 * power failure may have left files with other content than git wrote. A killed process leaves its writes with the system.
 */
async function dropUnsyncedCache(dataDir: string): Promise<void> {
  const file = join(dataDir, 'cache-boot')
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
  if ((await readFile(file, 'utf8').catch(ignoreAbsence)) === boot) return
  await rm(join(dataDir, 'cache'), { recursive: true, force: true })
  await writeFile(file, boot, { mode: 0o600 })
}
