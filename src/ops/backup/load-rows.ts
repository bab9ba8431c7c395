import { printable } from '#base/format.ts'
import { isId } from '#base/ids.ts'
import type { Database } from '#database/database.ts'
import { type Engine, migrateIn } from '#database/migrate.ts'
import { migrations } from '#database/migrations.ts'
import { deleteRows, insertRows, listTables, type Row } from '#database/rows.ts'
import type { Db } from '#database/schema.ts'
import { listImportIds } from '#repositories/import-store.ts'
import { readInstance } from '#repositories/instance-store.ts'
import { forgetBucketKeys } from '#repositories/lfs-object-store.ts'
import { listRepositoryStates, listWholeRepositories } from '#repositories/repository-store.ts'
import { forgetStore } from '#repositories/store/stored-repository-store.ts'
import type { BackupSource } from './backup-source.ts'
import { type BackedUpTable, BackupError, type Manifest } from './manifest.ts'
import { readRowLines } from './row-lines.ts'

/**
 * Loads the rows of a backup into an empty database, in one transaction: creates the tables in the backup's
 * schema version, inserts the rows, and then migrates.
 */
export async function loadRows(db: Database, engine: Engine, source: BackupSource): Promise<void> {
  const { manifest } = source
  await db.transaction().execute(async (tx) => {
    await migrateIn(tx, engine, migrations.slice(0, manifest.schemaVersion))
    await assertTables(tx, engine, manifest)
    // Migrations insert rows into some tables.
    for (const { name } of manifest.tables.toReversed()) await deleteRows(tx, name)
    for (const table of manifest.tables) await loadTable(tx, source, table)
    await migrateIn(tx, engine)
    await forgetStore(tx)
    await forgetBucketKeys(tx)
    await assertSameAsManifest(tx, manifest)
  })
}

async function loadTable(tx: Db, source: BackupSource, { name, rows, parts }: BackedUpTable) {
  let count = 0
  for (const part of parts) {
    const path = `rows/${part}`
    const read = readRowLines(path, await source.read(path))
    assertSameColumns(path, read)
    await insertRows(tx, name, read).catch((error) => {
      throw new BackupError(`${path}: its rows cannot be inserted into ${name}: ${error.message}`, {
        cause: error,
      })
    })
    count += read.length
  }
  if (count === rows) return
  throw new BackupError(`The table ${name} has ${count} rows; the manifest says ${rows}.`)
}

// Rows are inserted with the columns of the first row.
function assertSameColumns(path: string, rows: Row[]): void {
  const columns = (row: Row | undefined) => Object.keys(row ?? {}).join()
  const first = columns(rows[0])
  if (rows.every((row) => columns(row) === first)) return
  throw new BackupError(`${path}: its rows have different columns.`)
}

async function assertTables(tx: Db, engine: Engine, { tables }: Manifest): Promise<void> {
  const existing = (await listTables(tx, engine)).filter((name) => name !== 'schema_version').sort()
  const named = tables.map(({ name }) => name).sort()
  if (existing.join() === named.join()) return
  throw new BackupError(
    `The manifest has the tables ${named.join(', ')}, but its schema has ${existing.join(', ')}.`,
  )
}

async function assertSameAsManifest(tx: Db, manifest: Manifest): Promise<void> {
  if ((await readInstance(tx))?.id !== manifest.instanceId) {
    throw new BackupError('The rows and the manifest are of different services.')
  }
  // Ids become paths, including the ids of imports, whose files a start removes.
  const ids = (await listRepositoryStates(tx)).map(({ id }) => id)
  for (const id of [...ids, ...(await listImportIds(tx))]) {
    if (!isId(id))
      throw new BackupError(`The rows have a repository with the id "${printable(id)}".`)
  }
  const rows = (await listWholeRepositories(tx)).map(({ id, name }) => `${id} ${name}`)
  const named = new Set(manifest.repositories.map(({ id, name }) => `${id} ${name}`))
  if (rows.length === named.size && rows.every((row) => named.has(row))) return
  throw new BackupError('The rows and the manifest name different repositories.')
}
