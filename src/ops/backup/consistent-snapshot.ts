import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { isBusy } from '#base/sqlite-busy.ts'
import type { Database, DatabaseOptions } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { openPlainSnapshot, openRowSnapshot } from '#database/snapshot.ts'
import { readLastSeq } from '#events/event-store.ts'
import { branchPrefix, readRawRefs, readRawRefsNamed } from '#git/refs/refs.ts'
import { type RawRefs, toRawName } from '#git/refs/stored-ref.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import { listWholeRepositories } from '#repositories/repository-store.ts'
import { readStoredRepository } from '#repositories/store/stored-repository-store.ts'
import type { BackupFolder } from './backup-folder.ts'
import { listChangedRefs, listChangingRefs, type TouchedRef } from './journal-store.ts'
import { type BackedUpRepository, BackupError } from './manifest.ts'
import { readRefsFile, toRefsFile } from './refs-file.ts'

/** All rows and refs at one point in time. */
export type ConsistentSnapshot = AsyncDisposable & {
  db: Db
  at: number
  repositories: BackedUpRepository[]
}

type Dependencies = {
  db: Database
  database: DatabaseOptions
  directories: Directories
  folder: BackupFolder
  /** Reads a file that was added to the folder. */
  read: (path: string) => Promise<Buffer>
}

/** The newest event, and the refs of the pushes that were running then. */
type Cursor = { event: number; changing: TouchedRef[] }

/** Refs that may have changed, by repository; 'all' where their names are unknown. */
type Touched = Map<string, Set<string> | 'all'>

type ReadRefs = { some: Map<string, string | undefined> } | { all: RawRefs | undefined }

const maxPasses = 5
const maxAttempts = 5
const fewRefs = 100
const maxConcurrentReads = 8
// Stands for bytes that are not UTF-8: https://encoding.spec.whatwg.org/#replacement-character
const unreadable = '\ufffd'
// https://www.postgresql.org/docs/current/errcodes-appendix.html: lock_not_available, deadlock_detected
const lockCodes = new Set<unknown>(['55P03', '40P01'])

/**
 * Finds a point in time at which rows and refs are consistent, as in a data directory whose server was killed:
 * the push journal explains every change of a ref. Refs are read in advance; while the journal is blocked,
 * only the refs that pushes have touched since are read again.
 */
export function createSnapshotFinder({ db, database, directories, folder, read }: Dependencies) {
  // The SHA-256 of the refs file of each repository; null if the directory is missing.
  const refsFiles = new Map<string, string | null>()

  async function readCursor(): Promise<Cursor> {
    // In this order, a push that ends in between is in at least one of the two.
    const event = await readLastSeq(db)
    return { event, changing: await listChangingRefs(db) }
  }

  async function readRefs(id: string, touched: Touched): Promise<ReadRefs | undefined> {
    const names = refsFiles.has(id) ? touched.get(id) : 'all'
    if (names === undefined) return undefined
    const directory = await directories.locate(id)
    if (directory === undefined) return { all: undefined }
    if (names === 'all') return { all: await readRawRefs(directory) }
    return { some: await readRawRefsNamed(directory, names) }
  }

  async function record(id: string, current: ReadRefs): Promise<void> {
    const all = 'all' in current ? current.all : await changed(refsFiles.get(id), current.some)
    refsFiles.set(id, all ? await folder.addBytes('refs', toRefsFile(all)) : null)
  }

  async function changed(sum: string | null | undefined, some: Map<string, string | undefined>) {
    if (!sum) return undefined
    const path = `refs/${sum}`
    const refs = readRefsFile(path, await read(path))
    for (const [name, value] of some) {
      if (value === undefined) refs.delete(name)
      else refs.set(name, value)
    }
    return refs
  }

  async function readAhead(touched: Touched): Promise<void> {
    await forEachConcurrently(
      maxConcurrentReads,
      await listWholeRepositories(db),
      async ({ id }) => {
        const current = await readRefs(id, touched)
        if (current) await record(id, current)
      },
    )
  }

  async function readAheadUntilFew(): Promise<Cursor> {
    let cursor = await readCursor()
    await readAhead(new Map())
    for (let pass = 1; pass < maxPasses; pass++) {
      const next = await readCursor()
      const touched = await listTouched(db, cursor)
      if (countOf(touched) < fewRefs) break
      await readAhead(touched)
      cursor = next
    }
    return cursor
  }

  async function readTouched(rows: Db, cursor: Cursor, signal: AbortSignal) {
    const touched = await listTouched(rows, cursor)
    const repositories = await listWholeRepositories(rows)
    const current = new Map<string, ReadRefs>()
    await forEachConcurrently(maxConcurrentReads, repositories, async ({ id }) => {
      signal.throwIfAborted()
      const refs = await readRefs(id, touched)
      if (refs) current.set(id, refs)
    })
    return { repositories, current, at: Date.now() }
  }

  async function tryOnce(fenced: () => void): Promise<ConsistentSnapshot> {
    const cursor = await readAheadUntilFew()
    await using opening = new AsyncDisposableStack()
    const snapshot = await openRowSnapshot(database, async (rows, signal) => {
      const state = await readTouched(rows, cursor, signal)
      fenced()
      return state
    })
    opening.use(snapshot)
    const { repositories, current, at } = snapshot.found
    for (const [id, refs] of current) await record(id, refs)
    const resources = opening.move()
    return {
      db: snapshot.db,
      at,
      repositories: repositories.map(({ id, name, objectFormat }) => ({
        id,
        name,
        refs: refsFiles.get(id) ?? null,
        ...(objectFormat === 'sha256' && { objectFormat }),
      })),
      [Symbol.asyncDispose]: () => resources.disposeAsync(),
    }
  }

  return {
    /** Opens a consistent snapshot. `fenced` is called while the journal is blocked. */
    async find(fenced: () => void): Promise<ConsistentSnapshot> {
      for (let attempt = 1; ; attempt++) {
        try {
          return await tryOnce(fenced)
        } catch (error) {
          if (!isTooBusy(error)) throw error
          if (attempt < maxAttempts) continue
          throw new BackupError(
            'The server is too busy for a consistent snapshot; try again when there is less load.',
            { cause: error },
          )
        }
      }
    },
  }
}

async function listTouched(db: Db, cursor: Cursor): Promise<Touched> {
  const changed = await listChangedRefs(db, cursor.event)
  const touched: Touched = new Map()
  for (const { repositoryId, ref } of [
    ...cursor.changing,
    ...changed,
    ...(await listChangingRefs(db)),
  ]) {
    const names = touched.get(repositoryId) ?? new Set<string>()
    if (names === 'all') continue
    names.add(toRawName(ref))
    touched.set(repositoryId, ref.includes(unreadable) ? 'all' : names)
  }
  return touched
}

function countOf(touched: Touched): number {
  return [...touched.values()].reduce(
    (sum, names) => sum + (names === 'all' ? fewRefs : names.size),
    0,
  )
}

function isTooBusy(error: unknown): boolean {
  if (isBusy(error)) return true
  if (!(error instanceof Error)) return false
  return error.name === 'TimeoutError' || ('code' in error && lockCodes.has(error.code))
}

type Options = { database: DatabaseOptions; folder: BackupFolder }

/** Opens a consistent snapshot of a shared store: refs are rows there, so that one transaction has everything. */
export async function openSharedSnapshot({
  database,
  folder,
}: Options): Promise<ConsistentSnapshot> {
  await using opening = new AsyncDisposableStack()
  const { db } = opening.use(await openPlainSnapshot(database))
  const at = Date.now()
  const repositories: BackedUpRepository[] = []
  for (const { id, name } of await listWholeRepositories(db)) {
    const refs = await folder.addBytes('refs', toRefsFile(await readRefs(db, id)))
    repositories.push({ id, name, refs })
  }
  const resources = opening.move()
  return { db, at, repositories, [Symbol.asyncDispose]: () => resources.disposeAsync() }
}

async function readRefs(db: Db, id: string): Promise<RawRefs> {
  const { refs = [], head } = (await readStoredRepository(db, id)) ?? {}
  const values = refs.map(([name, value]) => [toRawName(name), value] as const)
  return new Map([...values, ['HEAD', `ref:${branchPrefix}${toRawName(head ?? '')}`]])
}
