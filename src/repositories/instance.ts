import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from '#base/ids.ts'
import { DataDirectoryError } from '#config/data-directory.ts'
import type { Database } from '#database/database.ts'
import { lockStart } from '#database/migrate.ts'
import { insertInstance, readInstance } from './instance-store.ts'
import { listStored } from './store/stored-repository-store.ts'

type Options = {
  db: Database
  dataDir: string
  /** Whether repositories are in the data directory. */
  hasData: boolean
  /** Whether several data directories share the database. */
  isShared: boolean
}

/**
 * Refuses a data directory and a database that do not belong together: with the wrong one, every repository would
 * appear deleted or missing.
 */
export async function assertSameInstance({
  db,
  dataDir,
  hasData,
  isShared,
}: Options): Promise<void> {
  const file = join(dataDir, 'instance')
  let ofDirectory = (await readFile(file, 'utf8').catch(() => '')).trim()
  const known = (await readInstance(db))?.id
  if (known !== undefined && known === ofDirectory) return
  const record = (id: string) => writeFile(file, `${id}\n`, { mode: 0o600, flush: true })
  const ofDatabase = await db.transaction().execute(async (tx) => {
    await lockStart(tx)
    const found = (await readInstance(tx))?.id
    if (found !== undefined || hasData) return found
    const id = ofDirectory || newId()
    if (!ofDirectory) await record(id)
    await insertInstance(tx, id)
    ofDirectory = id
    return id
  })
  if (isShared && ofDatabase !== undefined && ofDirectory === '') return await record(ofDatabase)
  if (ofDatabase !== undefined && ofDatabase === ofDirectory) return
  throw new DataDirectoryError(
    `The data directory ${dataDir} and the database do not belong together` +
      `${ofDatabase === undefined ? ': the database is empty, but there are repositories' : ''}. ` +
      'Check SVC_DATA_DIR and SVC_DATABASE_URL, or restore the database of this directory.',
  )
}

/** Refuses an empty database, before tables are created in it, for a data directory that has been used with another. */
export function assertUsedDatabase(dataDir: string): void {
  if (!existsSync(join(dataDir, 'instance'))) return
  throw new DataDirectoryError(
    `it is empty, and the data directory ${dataDir} is not: they do not belong together. ` +
      'Set SVC_DATABASE_URL as the server has it, or correct SVC_DATA_DIR; restore a lost database from a backup.',
  )
}

/** Refuses a database whose repositories are elsewhere: each would appear empty. */
export async function assertSameStore(db: Database, isShared: boolean): Promise<void> {
  const [other] = await listStored(db, { isStored: !isShared, limit: 1 })
  if (!other) return
  throw new DataDirectoryError(
    isShared
      ? `The repository ${other.name} is not in the store of SVC_STORE. Run svc store adopt with the data directory that has it.`
      : `The repository ${other.name} is in a shared store: set SVC_STORE.`,
  )
}

/** The id of the service instance that a database belongs to. */
export async function readOwnInstance(db: Database): Promise<string> {
  const instance = await readInstance(db)
  if (instance) return instance.id
  throw new DataDirectoryError('The database has not been initialized; run `svc serve` once.')
}
