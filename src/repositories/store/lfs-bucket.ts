import { newId } from '#base/ids.ts'
import type { Database } from '#database/database.ts'
import type { S3 } from '../s3/s3.ts'
import { asUnavailable, S3Error } from '../s3/s3-error.ts'
import { type LfsFiles, lfsKeyStart } from './lfs-files.ts'
import { abandonUploads, closeUpload } from './pack-store.ts'
import { uploadTakenBack } from './store-error.ts'
import { withUploads } from './uploads.ts'

type Dependencies = {
  db: Database
  /** The name of this node. */
  node: string
  storage: Pick<S3, 'put' | 'get' | 'head'>
}

const readBytes = 8 * 1024 * 1024

/** The objects of repositories in a shared store. */
export function createBucketLfsFiles({ db, node, storage }: Dependencies): LfsFiles {
  return {
    async place({ repositoryId, oid }, { path, size, signal }, commit) {
      const key = `${lfsKeyStart}${repositoryId}/${oid}/${newId()}`
      await withUploads({ db, node }, async (uploads) => {
        await uploads.open(key)
        const either = AbortSignal.any([signal, uploads.signal])
        await storage.put(key, { path, bytes: size }, { signal: either }).catch(asUnavailable)
        await db.transaction().execute(async (tx) => {
          if (!(await closeUpload(tx, key))) throw uploadTakenBack()
          if (!(await commit(tx, key))) await abandonUploads(tx, [key])
        })
      })
      return true
    },

    remove: (_repositoryId, deleteRows) =>
      db.transaction().execute(async (tx) => {
        const rows = await deleteRows(tx)
        await abandonUploads(
          tx,
          rows.flatMap(({ bucketKey }) => bucketKey ?? []),
        )
        return rows.length
      }),

    // The collector deletes uploads that were never completed.
    removeStray: async () => {},

    async open({ bucketKey, size }) {
      if (bucketKey === null || !(await isThere(bucketKey, size))) return undefined
      return {
        async *read({ start, bytes }, signal) {
          for (let at = start; at < start + bytes; at += readBytes) {
            const range = { start: at, bytes: Math.min(readBytes, start + bytes - at) }
            yield await storage.get(bucketKey, { signal, range }).catch(asUnavailable)
          }
        },
        async [Symbol.asyncDispose]() {},
      }
    },
  }

  async function isThere(key: string, size: number): Promise<boolean> {
    const found = await storage.head(key).catch((error) => {
      if (error instanceof S3Error && error.code === 'absent') return undefined
      return asUnavailable(error)
    })
    return found?.bytes === size
  }
}
