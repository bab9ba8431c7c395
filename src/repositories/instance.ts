import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from '../base/ids.ts'
import { DataDirectoryError } from '../config/data-directory.ts'
import type { Database } from '../database/database.ts'
import { insertInstance, readInstance } from './instance-store.ts'

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
  const ofDirectory = (await readFile(file, 'utf8').catch(() => '')).trim()
  const ofDatabase = await readInstance(db)
  const record = (id: string) => writeFile(file, `${id}\n`, { mode: 0o600, flush: true })
  if (ofDatabase === undefined && !hasData) {
    const id = ofDirectory || newId()
    if (!ofDirectory) await record(id)
    await insertInstance(db, id)
    return
  }
  if (isShared && ofDatabase !== undefined && ofDirectory === '') return await record(ofDatabase)
  if (ofDatabase !== undefined && ofDatabase === ofDirectory) return
  throw new DataDirectoryError(
    `The data directory ${dataDir} and the database do not belong together` +
      `${ofDatabase === undefined ? ': the database is empty, but there are repositories' : ''}. ` +
      'Check SVC_DATA_DIR and SVC_DATABASE_URL, or restore the database of this directory.',
  )
}

/** The id of the service instance that a database belongs to. */
export async function readOwnInstance(db: Database): Promise<string> {
  const id = await readInstance(db)
  if (id !== undefined) return id
  throw new DataDirectoryError('The database has not been initialized; run `svc serve` once.')
}
