import type { FaultPoint } from '#base/fault-points.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import type { Database } from '#database/database.ts'
import { knownPackBytes } from '#git/objects/packs.ts'
import { createLocalLfsFiles } from './lfs-files.ts'
import type { Store } from './store.ts'

type Dependencies = {
  db: Database
  pathOf: (id: string) => string
  draftOf: (id: string) => string
  create: (id: string, format: ObjectFormat, defaultBranch?: string) => Promise<void>
  place: (id: string) => Promise<void>
  remove: (id: string) => Promise<void>
  faultPoint: FaultPoint
}

/** Repositories that are directories of this machine. */
export function createLocalStore(dependencies: Dependencies): Store {
  const { db, pathOf, create, place, remove, faultPoint } = dependencies
  return {
    prepare: async () => {},
    join: async () => {},
    ping: async () => {},
    at: async ({ id }) => ({ path: pathOf(id), pruneEpoch: 0 }),
    open: async (id) => pathOf(id),

    async create(id, format, defaultBranch) {
      await create(id, format, defaultBranch)
      return {}
    },

    async adopt(id) {
      await place(id)
      return async () => {}
    },

    packBytes: (id) => knownPackBytes(pathOf(id)),
    release: async () => {},
    remove,
    reclaim: async () => {},
    sweep: async () => {},
    lfsFiles: createLocalLfsFiles(db, dependencies, faultPoint),
    bucket: undefined,
    shared: undefined,
    [Symbol.asyncDispose]: async () => {},
  }
}
