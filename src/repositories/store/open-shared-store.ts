import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { Settings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Git } from '#git/process/git-process.ts'
import { createS3 } from '../s3/s3.ts'
import { createMarkedBucket } from './marked-bucket.ts'
import { createSharedStore, type LocalDirectories } from './shared-store.ts'
import type { Store } from './store.ts'

type Dependencies = {
  db: Database
  git: Git
  directories: LocalDirectories
  node: string
  freeSpace: Pick<FreeSpace, 'measure'>
  faultPoint: FaultPoint
  settings: Settings
  log: Log
}

const kib = 1024
// An upload costs more than these bytes in the transaction.
const inlineMaxBytes = 64 * kib

export async function openSharedStore(dependencies: Dependencies): Promise<Store> {
  const { settings, log } = dependencies
  const { dataDir, store: address, storeAccessKeyId, storeSecretAccessKey } = settings
  if (!address || !storeAccessKeyId || !storeSecretAccessKey) {
    throw new Error(
      'SVC_STORE, SVC_STORE_ACCESS_KEY_ID and SVC_STORE_SECRET_ACCESS_KEY belong together.',
    )
  }
  const credentials = { accessKeyId: storeAccessKeyId, secretAccessKey: storeSecretAccessKey }
  const { db } = dependencies
  const s3 = createS3({ address, credentials, log })
  const storage = createMarkedBucket({ db, storage: s3, address, log })
  const cacheMaxBytes = settings.repositoryCacheBytes
  const { endpoint } = address
  const limits = { inlineMaxBytes, cacheMaxBytes }
  return createSharedStore({ ...dependencies, dataDir, storage, endpoint, ...limits })
}
