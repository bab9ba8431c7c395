import type { FaultPoint } from '../base/fault-points.ts'
import type { Log } from '../base/log.ts'
import type { Settings } from '../config/settings.ts'
import type { Database } from '../database/database.ts'
import type { Git } from '../git/process/git-process.ts'
import type { ObjectStorage } from './object-storage.ts'
import { createSharedStore, type LocalDirectories } from './shared-store.ts'
import type { Store } from './store.ts'

type Dependencies = {
  db: Database
  git: Git
  directories: LocalDirectories
  node: string
  faultPoint: FaultPoint
  settings: Settings
  log: Log
}

const kib = 1024
// An upload costs more than these bytes in the transaction.
const inlineMaxBytes = 64 * kib

export async function openSharedStore(dependencies: Dependencies): Promise<Store> {
  const { dataDir } = dependencies.settings
  const storage: ObjectStorage = {
    put: async () => {
      throw new Error('none')
    },
    getToFile: async () => undefined,
    delete: async () => {},
  }
  return createSharedStore({ ...dependencies, dataDir, storage, inlineMaxBytes })
}
