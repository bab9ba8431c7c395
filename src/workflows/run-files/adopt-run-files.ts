import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import type { Db } from '#database/schema.ts'
import type { S3 } from '#repositories/s3/s3.ts'
import { bucketKeyOf, pathInFolder, runFileFolder } from './file-storage.ts'
import { listKeptFiles } from './run-file-store.ts'

type Dependencies = { db: Db; dataDir: string; bucket: Pick<S3, 'head' | 'put'> }

type Options = { report: (progress: string) => void; signal: AbortSignal }

const filesAtOnce = 500

/**
 * Copies the files of artifacts and caches from a data directory into the bucket of a shared store. It can be repeated:
 * those in the bucket are left out. Returns how many were copied.
 */
export async function adoptRunFiles(
  { db, dataDir, bucket }: Dependencies,
  { report, signal }: Options,
): Promise<number> {
  const root = join(dataDir, runFileFolder)
  let copied = 0
  for (let after = ''; ; ) {
    const files = await listKeptFiles(db, after, filesAtOnce)
    for (const file of files) {
      signal.throwIfAborted()
      const path = pathInFolder(root, file.id)
      const bytes = (await stat(path).catch(ignoreAbsence))?.size
      // A missing or damaged file cannot be copied; doctor names it.
      if (bytes !== file.size || (await bucket.head(bucketKeyOf(file)))?.bytes === bytes) continue
      await bucket.put(bucketKeyOf(file), { path, bytes }, { signal })
      copied += 1
      if (copied % 100 === 0) report(`Copied ${copied} artifacts and caches`)
    }
    const last = files.at(-1)
    if (!last) return copied
    after = last.id
  }
}
