import { forEachConcurrently } from '../base/for-each-concurrently.ts'
import { isBusy } from '../base/sqlite-busy.ts'
import type { Database, DatabaseOptions } from '../database/database.ts'
import type { Db } from '../database/schema.ts'
import { openRowSnapshot } from '../database/snapshot.ts'
import { type RawRefs, readRawRefs, readRawRefsNamed, toRawName } from '../git/refs/raw-refs.ts'
import type { Directories } from '../repositories/directories.ts'
import type { BackupFolder } from './backup-folder.ts'
import {
  lastEvent,
  listChangedRefs,
  listChangingRefs,
  listRepositoryNames,
  type TouchedRef,
} from './journal-store.ts'
import { type BackedUpRepository, BackupError } from './manifest.ts'
import { readRefsFile, toRefsFile } from './refs-file.ts'

/** All rows of one moment, and what the refs were then. */
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
  /** The bytes of a file that was added to the folder. */
  read: (path: string) => Promise<Buffer>
}

/** Since when is known which refs pushes have touched: an event, and what they were changing then. */
type Mark = { event: number; changing: TouchedRef[] }

/** Refs that may have moved, by repository; all of a repository's where they are not known by name. */
type Touched = Map<string, Set<string> | 'all'>

type Seen = { some: Map<string, string | undefined> } | { all: RawRefs | undefined }

const passesAtMost = 5
const triesAtMost = 5
const fewRefs = 100
const readsAtOnce = 8
// What text becomes that is not UTF-8: https://encoding.spec.whatwg.org/#replacement-character
const unreadable = '\ufffd'
// https://www.postgresql.org/docs/current/errcodes-appendix.html: lock_not_available, deadlock_detected
const lockCodes = new Set<unknown>(['55P03', '40P01'])

/**
 * Finds a moment at which rows and refs belong together, as they do in a data directory whose server was
 * killed: a ref has moved only as the journal of pushes explains. Refs are read beforehand. At the moment
 * itself, while the journal stands still, only those are read again that pushes have touched since.
 */
export function createSnapshotFinder({ db, database, directories, folder, read }: Dependencies) {
  // The refs of each repository as a file of the backup; null for one whose directory is not there.
  const known = new Map<string, string | null>()

  async function readCursor(): Promise<Mark> {
    // In this order: a push that ends in between is then in the one or the other.
    const event = await lastEvent(db)
    return { event, changing: await listChangingRefs(db) }
  }

  async function look(id: string, touched: Touched): Promise<Seen | undefined> {
    const names = known.has(id) ? touched.get(id) : 'all'
    if (names === undefined) return undefined
    const directory = await directories.locate(id)
    if (directory === undefined) return { all: undefined }
    if (names === 'all') return { all: await readRawRefs(directory) }
    return { some: await readRawRefsNamed(directory, names) }
  }

  async function note(id: string, seen: Seen): Promise<void> {
    const all = 'all' in seen ? seen.all : await changed(known.get(id), seen.some)
    known.set(id, all ? await folder.addBytes('refs', toRefsFile(all)) : null)
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
    await forEachConcurrently(readsAtOnce, await listRepositoryNames(db), async ({ id }) => {
      const seen = await look(id, touched)
      if (seen) await note(id, seen)
    })
  }

  async function readAheadUntilFew(): Promise<Mark> {
    let mark = await readCursor()
    await readAhead(new Map())
    for (let pass = 1; pass < passesAtMost; pass++) {
      const next = await readCursor()
      const touched = await listTouched(db, mark)
      if (countOf(touched) < fewRefs) break
      await readAhead(touched)
      mark = next
    }
    return mark
  }

  async function lookAtAll(rows: Db, mark: Mark, signal: AbortSignal) {
    const touched = await listTouched(rows, mark)
    const repositories = await listRepositoryNames(rows)
    const seen = new Map<string, Seen>()
    await forEachConcurrently(readsAtOnce, repositories, async ({ id }) => {
      signal.throwIfAborted()
      const found = await look(id, touched)
      if (found) seen.set(id, found)
    })
    return { repositories, seen, at: Date.now() }
  }

  async function tryOnce(fenced: () => void): Promise<ConsistentSnapshot> {
    const mark = await readAheadUntilFew()
    await using opening = new AsyncDisposableStack()
    const pinned = await openRowSnapshot(database, async (rows, signal) => {
      const found = await lookAtAll(rows, mark, signal)
      fenced()
      return found
    })
    opening.use(pinned)
    const { repositories, seen, at } = pinned.found
    for (const [id, one] of seen) await note(id, one)
    const held = opening.move()
    return {
      db: pinned.db,
      at,
      repositories: repositories.map(({ id, name }) => ({ id, name, refs: known.get(id) ?? null })),
      [Symbol.asyncDispose]: () => held.disposeAsync(),
    }
  }

  return {
    /** Finds the moment; `fenced` is called in it. */
    async find(fenced: () => void): Promise<ConsistentSnapshot> {
      for (let tries = 1; ; tries++) {
        try {
          return await tryOnce(fenced)
        } catch (error) {
          if (!isTooBusy(error)) throw error
          if (tries < triesAtMost) continue
          throw new BackupError(
            'The server writes so much that no moment could be held on to; try again when there is less to do.',
            { cause: error },
          )
        }
      }
    },
  }
}

async function listTouched(db: Db, mark: Mark): Promise<Touched> {
  const changed = await listChangedRefs(db, mark.event)
  const touched: Touched = new Map()
  for (const { repositoryId, ref } of [
    ...mark.changing,
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
