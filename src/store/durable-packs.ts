import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '../base/absence.ts'
import { newId } from '../base/ids.ts'
import { Problem } from '../base/problem.ts'
import type { Database } from '../database/database.ts'
import { openUpload, type StoredPack } from './pack-store.ts'
import type { S3 } from './s3.ts'
import { S3Error } from './s3-error.ts'

type Dependencies = {
  db: Database
  storage: S3
  /** The name of this node. */
  node: string
  /** Packs up to this size are stored in the database, which is faster. */
  inlineMaxBytes: number
}

/** A pack on the disk that is not durable yet. */
type LocalPack = { hash: string; packPath: string; idxPath: string }

/**
 * Makes the packs of a folder durable, so that a transaction can add them to a repository: small ones are read, to become
 * part of the transaction,  and others are uploaded under a key of their own. `wanted` are the
 * checksums of packs; all by default.
 */
export async function storePacks(
  { db, storage, node, inlineMaxBytes }: Dependencies,
  repositoryId: string,
  folder: string,
  wanted?: ReadonlySet<string>,
): Promise<StoredPack[]> {
  const packs: StoredPack[] = []
  for (const { hash, packPath, idxPath } of await listPacks(folder)) {
    if (wanted && !wanted.has(hash)) continue
    const [{ size: packBytes }, { size: idxBytes }] = await Promise.all([
      stat(packPath),
      stat(idxPath),
    ])
    const key = `${repositoryId}/${newId()}-${hash}`
    if (packBytes + idxBytes <= inlineMaxBytes) {
      const [pack, idx] = await Promise.all([readFile(packPath), readFile(idxPath)])
      const sums = { packSha256: sha256Of(pack), idxSha256: sha256Of(idx) }
      packs.push({ key, hash, packBytes, idxBytes, ...sums, pack, idx })
      continue
    }
    await openUpload(db, key, node)
    const [packSha256, idxSha256] = await Promise.all([
      hashFile(packPath),
      hashFile(idxPath),
      upload(storage, `${key}.pack`, { path: packPath, bytes: packBytes }),
      upload(storage, `${key}.idx`, { path: idxPath, bytes: idxBytes }),
    ])
    packs.push({ key, hash, packBytes, idxBytes, packSha256, idxSha256, pack: null, idx: null })
  }
  return packs
}

async function upload(storage: S3, key: string, file: { path: string; bytes: number }) {
  await storage.put(key, file).catch((error) => {
    if (!(error instanceof S3Error)) throw error
    throw new Problem('storage_unavailable', `Nothing was changed: ${error.message}.`, {
      cause: error,
    })
  })
}

async function listPacks(folder: string): Promise<LocalPack[]> {
  const names = (await readdir(folder).catch(ignoreAbsence)) ?? []
  return names.flatMap((name) => {
    const [, hash] = /^pack-([0-9a-f]{40})\.idx$/.exec(name) ?? []
    if (hash === undefined) return []
    const idxPath = join(folder, name)
    return [{ hash, packPath: idxPath.replace(/idx$/, 'pack'), idxPath }]
  })
}

function sha256Of(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return hash.digest('hex')
}
