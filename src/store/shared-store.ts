import { join } from 'node:path'
import type { FaultPoint } from '../base/fault-points.ts'
import type { Log } from '../base/log.ts'
import type { Database } from '../database/database.ts'
import type { Git } from '../git/process/git-process.ts'
import { adoptDraft } from './adopt.ts'
import { createCache } from './cache.ts'
import { collect } from './collector.ts'
import { commitChange } from './commit-change.ts'
import { storePacks } from './durable-packs.ts'
import { releasePacks } from './pack-store.ts'
import { beginGeneration } from './publish-generation.ts'
import { firstHead } from './ref-store.ts'
import type { S3 } from './s3.ts'
import type { Store } from './store.ts'
import { dropUnsyncedCache } from './unclean-reboot.ts'

/** The directories of a node. */
export type LocalDirectories = {
  pathOf: (id: string) => string
  /** Creates an empty repository in place. */
  create: (id: string, defaultBranch?: string) => Promise<void>
  draftOf: (id: string) => string
  remove: (id: string) => Promise<void>
}

type Dependencies = {
  db: Database
  dataDir: string
  git: Git
  storage: S3
  /** The name of this node. */
  node: string
  inlineMaxBytes: number
  directories: LocalDirectories
  faultPoint: FaultPoint
  log: Log
}

/** Repositories in PostgreSQL and object storage; the directories of this node are caches. */
export function createSharedStore(dependencies: Dependencies): Store {
  const { db, dataDir, directories, faultPoint, log, storage } = dependencies
  const cache = createCache({
    db,
    storage,
    pathOf: directories.pathOf,
    create: directories.create,
    log,
  })

  return {
    prepare: () => dropUnsyncedCache(dataDir),

    at: cache.at,
    open: cache.open,
    create: async (_id, defaultBranch = firstHead) => ({ head: defaultBranch }),

    async adopt(id) {
      const directory = directories.draftOf(id)
      return adoptDraft(dependencies, { id, directory })
    },

    release: releasePacks,

    async remove(id) {
      cache.forget(id)
      await directories.remove(id)
    },

    sweep: () => collect(dependencies),

    shared: {
      db,
      fill: cache.fill,

      async adoptDirectory(id, directory) {
        const record = await adoptDraft(dependencies, { id, directory })
        await db.transaction().execute(record)
      },

      async beginGeneration(id) {
        const directory = await cache.open(id)
        return beginGeneration(dependencies, { id, directory })
      },

      async commit(change, packFolder) {
        const packs =
          packFolder === undefined
            ? []
            : await storePacks(dependencies, change.repositoryId, join(packFolder, 'pack'))
        faultPoint('shared-push.stored')
        return commitChange(db, { ...change, packs })
      },
    },

    [Symbol.asyncDispose]: () => storage[Symbol.asyncDispose](),
  }
}
