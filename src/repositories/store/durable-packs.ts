import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ignoreAbsence } from '#base/absence.ts'
import { hashFile } from '#base/disk.ts'
import { allOrNone } from '#base/for-each-concurrently.ts'
import { newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { S3 } from '../s3/s3.ts'
import { S3Error } from '../s3/s3-error.ts'
import type { StoredPack } from './pack-store.ts'
import { withUploads } from './uploads.ts'

type Dependencies = {
  db: Database
  storage: S3
  /** The name of this node. */
  node: string
  /** Packs up to this size are stored in the database, which is faster. */
  inlineMaxBytes: number
}

/** A pack on the disk that is not durable yet. */
type LocalPack = { hash: string; files: LocalFile[] }
type LocalFile = { type: 'pack' | 'idx' | 'mtimes'; path: string; bytes: number }
type Hashed = { sha256: string; content: Buffer | null }

/**
 * Makes the packs of a folder durable, so that a transaction can add them to a repository: small ones are read, to become
 * part of the transaction, and others are uploaded under a key of their own. `wanted` are the checksums of packs; all by
 * default.
 */
export async function storePacks(
  { db, storage, node, inlineMaxBytes }: Dependencies,
  repositoryId: string,
  folder: string,
  wanted?: ReadonlySet<string>,
): Promise<StoredPack[]> {
  return withUploads({ db, node }, async ({ open, signal }) => {
    const packs: StoredPack[] = []
    for (const { hash, files } of await listPacks(folder)) {
      if (wanted && !wanted.has(hash)) continue
      const key = `${repositoryId}/${newId()}-${hash}`
      const isInline = files.reduce((sum, { bytes }) => sum + bytes, 0) <= inlineMaxBytes
      if (!isInline) await open(key)
      const hashed = isInline
        ? await Promise.all(files.map(readWhole))
        : await allOrNone(
            files.map((file) => (until: AbortSignal) => uploadFile(storage, key, file, until)),
            signal,
          )
      packs.push(toStoredPack({ key, hash, files, hashed }))
    }
    return packs
  })
}

type StoredFiles = { key: string; hash: string; files: LocalFile[]; hashed: Hashed[] }

function toStoredPack({ key, hash, files, hashed }: StoredFiles): StoredPack {
  const find = (type: LocalFile['type']) => {
    const index = files.findIndex((file) => file.type === type)
    return { bytes: files[index]?.bytes, ...hashed[index] }
  }
  const [pack, idx, mtimes] = [find('pack'), find('idx'), find('mtimes')]
  return {
    key,
    hash,
    packBytes: pack.bytes ?? 0,
    packSha256: pack.sha256 ?? '',
    pack: pack.content ?? null,
    idxBytes: idx.bytes ?? 0,
    idxSha256: idx.sha256 ?? '',
    idx: idx.content ?? null,
    mtimesBytes: mtimes.bytes ?? null,
    mtimesSha256: mtimes.sha256 ?? null,
    mtimes: mtimes.content ?? null,
  }
}

async function readWhole({ path }: LocalFile): Promise<Hashed> {
  const content = await readFile(path)
  return { sha256: createHash('sha256').update(content).digest('hex'), content }
}

async function uploadFile(
  storage: S3,
  key: string,
  file: LocalFile,
  signal: AbortSignal,
): Promise<Hashed> {
  const put = (until: AbortSignal) =>
    storage.put(`${key}.${file.type}`, file, { signal: until }).catch((error) => {
      if (!(error instanceof S3Error)) throw error
      throw new Problem('storage_unavailable', `Nothing was changed: ${error.message}.`, {
        cause: error,
      })
    })
  const [sha256] = await allOrNone([() => hashFile(file.path), put], signal)
  return { sha256, content: null }
}

async function listPacks(folder: string): Promise<LocalPack[]> {
  const names = new Set(await readdir(folder).catch(ignoreAbsence))
  const packs: LocalPack[] = []
  for (const name of names) {
    const [, hash] = /^pack-([0-9a-f]{40,64})\.idx$/.exec(name) ?? []
    if (hash === undefined) continue
    const types = (['pack', 'idx', 'mtimes'] as const).filter((type) =>
      names.has(`pack-${hash}.${type}`),
    )
    const files = types.map(async (type) => {
      const path = join(folder, `pack-${hash}.${type}`)
      return { type, path, bytes: (await stat(path)).size }
    })
    packs.push({ hash, files: await Promise.all(files) })
  }
  return packs
}
