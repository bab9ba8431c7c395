import { createHash } from 'node:crypto'
import { readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ignoreAbsence } from '../base/absence.ts'
import { forEachConcurrently } from '../base/for-each-concurrently.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { createKeyedMutex } from '../concurrency/keyed-mutex.ts'
import type { Database } from '../database/database.ts'
import type { Db } from '../database/schema.ts'
import { type LivePack, readInline } from './pack-store.ts'
import { writeHead, writePackedRefs } from './packed-refs-file.ts'
import { firstHead } from './ref-store.ts'
import type { S3 } from './s3.ts'
import { S3Error } from './s3-error.ts'
import { repositoryGone, storeUnavailable } from './store-error.ts'
import {
  readStoredRepository,
  type StoredRepository,
  versionOf,
} from './stored-repository-store.ts'

/** The directories of repositories on this node, which may be removed at any time: each is filled when it is used. */
export type Cache = {
  /** Brings a directory to at least a version, and returns its path. */
  at: (repository: { id: string; version: number }) => Promise<string>
  /** Brings a directory to the present version, and returns its path. Throws `repository_not_found`. */
  open: (id: string) => Promise<string>
  /** Brings the packs that a repository has in a snapshot of the database into its directory. */
  fill: (snapshot: Db, id: string) => Promise<boolean>
  /** Forgets a directory that was removed. */
  forget: (id: string) => void
}

type Dependencies = {
  db: Database
  storage: S3
  pathOf: (id: string) => string
  /** Creates an empty repository in place. */
  create: (id: string, defaultBranch: string) => Promise<unknown>
  log: Log
}

const maxConcurrentReads = 8
// Maintenance may retire packs between the reading of their list and of their files.
const maxPasses = 5
// For object storage that shows new objects late.
const absencePatienceMs = 5000
const absencePauseMs = 200

export function createCache({ db, storage, pathOf, create, log }: Dependencies): Cache {
  const serialize = createKeyedMutex()
  /** The version of each directory that this process has brought up to date. */
  const versions = new Map<string, number>()

  async function refresh(id: string, wanted: number): Promise<void> {
    if ((versions.get(id) ?? -1) >= wanted) return
    for (let pass = 1; ; pass++) {
      const state = await readStoredRepository(db, id)
      if (!state) throw repositoryGone()
      if (state.version < (versions.get(id) ?? 0)) {
        log.error(
          { repositoryId: id, version: state.version, cached: versions.get(id) },
          'the database has lost changes of a repository; its cached directory is dropped',
        )
        versions.delete(id)
        await rm(pathOf(id), { recursive: true, force: true })
      }
      await createMissing(id, state)
      if (await fillPacks(db, id, state)) {
        await writeRefs(id, state)
        versions.set(id, state.version)
        return
      }
      if (pass === maxPasses) throw storeUnavailable('its packs change too quickly')
    }
  }

  async function createMissing(id: string, { head }: StoredRepository): Promise<void> {
    if (await isThere(join(pathOf(id), 'HEAD'))) return
    await create(id, head ?? firstHead).catch(async (error) => {
      // A command beside the server may have been faster.
      if (!(await isThere(join(pathOf(id), 'HEAD')))) throw error
    })
  }

  async function writeRefs(id: string, { refs, head }: StoredRepository): Promise<void> {
    await writePackedRefs(pathOf(id), refs)
    if (head !== null) await writeHead(pathOf(id), head)
  }

  /** Writes the packs that are missing; false when one is no longer where the list has it. */
  async function fillPacks(rows: Db, id: string, { packs }: StoredRepository): Promise<boolean> {
    const folder = join(pathOf(id), 'objects', 'pack')
    const present = new Set(await readdir(folder))
    const missing = packs.filter(({ hash }) => !present.has(`pack-${hash}.idx`))
    const inline = missing.filter(({ isInline }) => isInline)
    const stored = missing.filter(({ isInline }) => !isInline)
    const [some] = await Promise.all([fillInline(rows, folder, inline), fillStored(folder, stored)])
    return some
  }

  async function fillInline(rows: Db, folder: string, packs: LivePack[]): Promise<boolean> {
    if (packs.length === 0) return true
    const files = new Map(
      (
        await readInline(
          rows,
          packs.map(({ key }) => key),
        )
      ).map((row) => [row.key, row]),
    )
    for (const pack of packs) {
      const found = files.get(pack.key)
      if (!found) return false
      const draft = join(folder, `tmp_svc_${newId()}`)
      assertSame(pack.packSha256, sha256Of(found.pack), pack.key)
      assertSame(pack.idxSha256, sha256Of(found.idx), pack.key)
      await writeFile(`${draft}.pack`, found.pack, { mode: 0o400 })
      await writeFile(`${draft}.idx`, found.idx, { mode: 0o400 })
      await place(draft, folder, pack.hash)
    }
    return true
  }

  async function fillStored(folder: string, packs: LivePack[]): Promise<void> {
    await forEachConcurrently(maxConcurrentReads, packs, async (pack) => {
      const draft = join(folder, `tmp_svc_${newId()}`)
      try {
        const [packSha256, idxSha256] = await Promise.all([
          download(`${pack.key}.pack`, `${draft}.pack`, pack.packBytes),
          download(`${pack.key}.idx`, `${draft}.idx`, pack.idxBytes),
        ])
        assertSame(pack.packSha256, packSha256, pack.key)
        assertSame(pack.idxSha256, idxSha256, pack.key)
        await place(draft, folder, pack.hash)
      } catch (error) {
        await rm(`${draft}.pack`, { force: true })
        await rm(`${draft}.idx`, { force: true })
        throw error
      }
    })
  }

  async function download(key: string, path: string, bytes: number): Promise<string> {
    const deadline = performance.now() + absencePatienceMs
    for (;;) {
      try {
        const { sha256 } = await storage.getToFile(key, path, bytes)
        return sha256
      } catch (error) {
        if (!(error instanceof S3Error)) throw error
        const isLate = error.code === 'absent' && performance.now() < deadline
        if (!isLate) throw storeUnavailable(error.message, error)
        await sleep(absencePauseMs)
      }
    }
  }

  async function bringTo(id: string, version: number): Promise<string> {
    if ((versions.get(id) ?? -1) < version) await serialize(id, () => refresh(id, version))
    return pathOf(id)
  }

  return {
    at: ({ id, version }) => bringTo(id, version),

    async open(id) {
      const version = await versionOf(db, id)
      if (version === undefined) throw repositoryGone()
      return bringTo(id, version)
    },

    async fill(snapshot, id) {
      const state = await readStoredRepository(snapshot, id)
      if (!state) return false
      await serialize(id, async () => {
        await createMissing(id, state)
        if (!(await fillPacks(snapshot, id, state))) throw storeUnavailable('its packs are gone')
      })
      return true
    },

    forget: (id) => void versions.delete(id),
  }
}

/** Git uses a pack once it has an index, so that comes last. */
async function place(draft: string, folder: string, hash: string): Promise<void> {
  await rename(`${draft}.pack`, join(folder, `pack-${hash}.pack`))
  await rename(`${draft}.idx`, join(folder, `pack-${hash}.idx`))
}

function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function assertSame(expected: string, actual: string, key: string): void {
  if (actual !== expected) throw storeUnavailable(`${key} is damaged in the store`)
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(ignoreAbsence)) !== undefined
}
