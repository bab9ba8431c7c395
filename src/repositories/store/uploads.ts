import { createPoller } from '#base/concurrency/poller.ts'
import type { Database } from '#database/database.ts'
import { abandonOpenUploads, insertUpload, renewUploads } from './pack-store.ts'
import { uploadTakenBack } from './store-error.ts'

type Uploads = {
  /** Announces an upload, before it begins. */
  open: (key: string) => Promise<void>
  /** Aborted when an upload was taken back. */
  signal: AbortSignal
}

const renewalMs = 20_000

/**
 * Does what uploads files, however long it takes: the collector takes back uploads that are old, so they are renewed
 * meanwhile. When it fails, the collector deletes what it has uploaded; by then all its requests must have ended.
 */
export async function withUploads<T>(
  { db, node }: { db: Database; node: string },
  work: (uploads: Uploads) => Promise<T>,
): Promise<T> {
  const keys: string[] = []
  const lost = new AbortController()
  await using _ = createPoller({
    intervalMs: renewalMs,
    async run() {
      if (keys.length > 0 && !(await renewUploads(db, [...keys]))) lost.abort(uploadTakenBack())
    },
    // The next renewal comes long before the uploads are old.
    onError: () => {},
  })
  const open = async (key: string) => {
    await insertUpload(db, key, node)
    keys.push(key)
  }
  try {
    return await work({ open, signal: lost.signal })
  } catch (error) {
    // What cannot be abandoned now is taken back when it is old.
    await abandonOpenUploads(db, keys).catch(() => {})
    throw error
  }
}
