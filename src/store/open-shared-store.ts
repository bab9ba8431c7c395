import type { FaultPoint } from '../base/fault-points.ts'
import type { Log } from '../base/log.ts'
import type { Settings } from '../config/settings.ts'
import type { Database } from '../database/database.ts'
import type { Git } from '../git/process/git-process.ts'
import { createS3 } from './s3.ts'
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
  const { settings, log } = dependencies
  const { dataDir, store: address, s3AccessKeyId, s3SecretAccessKey } = settings
  if (!address || !s3AccessKeyId || !s3SecretAccessKey) {
    throw new Error('SVC_STORE, SVC_S3_ACCESS_KEY_ID and SVC_S3_SECRET_ACCESS_KEY belong together.')
  }
  const credentials = { accessKeyId: s3AccessKeyId, secretAccessKey: s3SecretAccessKey }
  const storage = createS3({ address, credentials, log })
  return createSharedStore({ ...dependencies, dataDir, storage, inlineMaxBytes })
}
