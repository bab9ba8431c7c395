import type { Log } from '#base/log.ts'
import type { Database } from '#database/database.ts'
import type { S3 } from '../s3/s3.ts'
import { dropRetired, forgetUpload, listDead, takeBackUploads } from './collector-store.ts'
import { lfsKeyStart } from './lfs-files.ts'

type Dependencies = { db: Database; storage: Pick<S3, 'delete'>; log: Log }

const hourMs = 60 * 60_000

/**
 * Deletes files of the object storage that no repository needs: uploads that were never committed, packs that were
 * retired, LFS objects, and those of deleted repositories. A key is used once, so a deletion cannot hit what is in use.
 */
export async function deleteUnneeded({ db, storage, log }: Dependencies): Promise<void> {
  await takeBackUploads(db, hourMs)
  await dropRetired(db, hourMs)
  for (const key of await listDead(db)) {
    try {
      await Promise.all(objectsOf(key).map((object) => storage.delete(object)))
    } catch (error) {
      // Its row stays, for the next time.
      log.warn({ err: error, key }, 'files not deleted from the store')
      return
    }
    await forgetUpload(db, key)
  }
}

function objectsOf(key: string): string[] {
  if (key.startsWith(lfsKeyStart)) return [key]
  return ['pack', 'idx', 'mtimes'].map((type) => `${key}.${type}`)
}
