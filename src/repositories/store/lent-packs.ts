import { randomUUID } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { open as openFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { newId } from '#base/ids.ts'
import type { Database } from '#database/database.ts'
import type { S3 } from '../s3/s3.ts'
import { abandonUploads } from './pack-store.ts'
import { withUploads } from './uploads.ts'

type Dependencies = { db: Database; storage: S3; node: string; dataDir: string }

/** A pack in the object storage that belongs to no repository. The collector deletes it after an hour at the latest. */
export type LentPack = { key: string; bytes: number }

/** Lends a pack to the other nodes. */
export async function lendPack(
  { db, storage, node, dataDir }: Dependencies,
  repositoryId: string,
  chunks: AsyncIterable<Buffer>,
): Promise<LentPack> {
  const path = stagingPath(dataDir)
  try {
    await pipeline(chunks, createWriteStream(path, { flags: 'wx', mode: 0o600 }))
    const { size: bytes } = await stat(path)
    const key = `${repositoryId}/${newId()}-lent`
    await withUploads({ db, node }, async ({ open, signal }) => {
      await open(key)
      await storage.put(objectOf(key), { path, bytes }, { signal })
    })
    return { key, bytes }
  } finally {
    await rm(path, { force: true })
  }
}

/** Opens a lent pack. */
export async function openLentPack(
  { storage, dataDir }: Pick<Dependencies, 'storage' | 'dataDir'>,
  { key, bytes }: LentPack,
): Promise<Readable> {
  const path = stagingPath(dataDir)
  try {
    await storage.getToFile(objectOf(key), path, bytes)
    // An unlinked file disappears when it is closed.
    return (await openFile(path)).createReadStream()
  } finally {
    await rm(path, { force: true })
  }
}

/** Leaves lent packs to the collector. */
export function takeBackPacks(db: Database, packs: LentPack[]): Promise<void> {
  return abandonUploads(
    db,
    packs.map(({ key }) => key),
  )
}

const stagingPath = (dataDir: string) => join(dataDir, 'staging', `${randomUUID()}.lent`)
const objectOf = (key: string) => `${key}.pack`
