import { sql } from 'kysely'
import { databaseNow } from '#database/database-clock.ts'
import { migrations } from '#database/migrations.ts'
import type { AuditRow, Db, LfsObjectRow, RunFileRow } from '#database/schema.ts'
import { type ScopeKind, scopeColumns } from '#repositories/scope-store.ts'
import { lfsKeyStart } from '#repositories/store/lfs-files.ts'
import { bucketKeyOf } from '#workflows/run-files/file-storage.ts'

/** The schema version of this svc: its number of migrations. */
export const knownVersion = migrations.length

const maxListed = 3

/** Returns the schema version of a database; undefined if it does not belong to svc. */
export async function readVersion(db: Db): Promise<number | undefined> {
  const { rows } = await sql<{ version: number }>`select version from schema_version`.execute(db)
  return rows[0]?.version
}

/** Lists the faults that SQLite finds in its file. */
export async function listSqliteFaults(db: Db): Promise<string[]> {
  const { rows } = await sql<{ integrityCheck: string }>`
    pragma integrity_check(${sql.raw(String(maxListed))})`.execute(db)
  return rows.map(({ integrityCheck }) => integrityCheck).filter((text) => text !== 'ok')
}

/** Lists the tables with rows that refer to missing rows. */
export async function listOrphanedTables(db: Db): Promise<string[]> {
  const { rows } = await sql<{ table: string }>`pragma foreign_key_check`.execute(db)
  return [...new Set(rows.map(({ table }) => table))]
}

type PostgresState = {
  version: string
  isStandby: boolean
  /** Settings that, when off, can lose committed transactions. */
  fsync: string
  synchronousCommit: string
  fullPageWrites: string
  standbys: number
  /** The standbys that a commit waits for. */
  synchronousStandbyNames: string
  now: number
}

/** Reads the version, role and durability settings of PostgreSQL. */
export async function readPostgresState(db: Db): Promise<PostgresState | undefined> {
  const { rows } = await sql<PostgresState>`
    select current_setting('server_version') as version,
      pg_is_in_recovery() as is_standby,
      current_setting('fsync') as fsync,
      current_setting('synchronous_commit') as synchronous_commit,
      current_setting('full_page_writes') as full_page_writes,
      (select count(*) from pg_stat_replication) as standbys,
      current_setting('synchronous_standby_names') as synchronous_standby_names,
      ${databaseNow} as now`.execute(db)
  return rows[0]
}

export type KnownRepository = {
  id: string
  name: string
  /** False during an import, when there is no directory yet, and while the repository is purged. */
  hasDirectory: boolean
  isDeleted: boolean
}

/** Lists all repositories, also deleted ones, oldest first. */
export async function listAllRepositories(db: Db): Promise<KnownRepository[]> {
  // Older databases have no column `state`.
  const rows = await db.selectFrom('repositories').selectAll().orderBy('id').execute()
  return rows.map(({ id, name, state }) => ({
    id,
    name,
    hasDirectory: state !== 'importing' && state !== 'purging',
    isDeleted: state === 'deleted' || state === 'purging',
  }))
}

/**
 * Counts authorized pushes that are not finished, except to deleted repositories; `since` is the time of the oldest.
 */
export async function readUnfinished(db: Db): Promise<{ count: number; since: number | null }> {
  const row = await db
    .selectFrom('pushes')
    .select((is) => [is.fn.countAll().as('count'), is.fn.min('judgedAt').as('since')])
    .where('finishedAt', 'is', null)
    .where('repositoryId', 'in', (of) =>
      of
        .selectFrom('repositories')
        .select('id')
        .where('state', '=', 'ready')
        .where('deletedAt', 'is', null),
    )
    .executeTakeFirstOrThrow()
  return { count: Number(row.count), since: row.since === null ? null : Number(row.since) }
}

/** Returns the newest creation time in the database, in milliseconds since the epoch; 0 if it is empty. */
export async function readNewestTime(db: Db): Promise<number> {
  const times: number[] = []
  for (const table of ['tokens', 'repositories', 'events'] as const) {
    const row = await db
      .selectFrom(table)
      .select((is) => is.fn.max('createdAt').as('newest'))
      .executeTakeFirst()
    times.push(Number(row?.newest ?? 0))
  }
  return Math.max(...times)
}

type DisabledWebhook = {
  id: string
  scopeKind: ScopeKind
  scopeName: string
  disabledAt: number | null
}

/** Lists the webhooks that were disabled because all deliveries failed. */
export function listDisabledWebhooks(db: Db): Promise<DisabledWebhook[]> {
  const { scopeKind, scopeName } = scopeColumns('webhooks.scopeId')
  return db
    .selectFrom('webhooks')
    .leftJoin('repositories', 'repositories.id', 'webhooks.scopeId')
    .select(['webhooks.id', 'disabledAt'])
    .select([scopeKind.as('scopeKind'), scopeName.as('scopeName')])
    .where('isEnabled', '=', 0)
    .where((is) => is.or([is('state', 'is', null), is('state', '=', 'ready')]))
    .where('failingSince', 'is not', null)
    .where('webhooks.deletedAt', 'is', null)
    .orderBy('webhooks.id')
    .execute()
}

/** Returns the time at which the oldest pending delivery was due; null when there is none. */
export async function findOldestPending(db: Db): Promise<number | null> {
  const row = await db
    .selectFrom('webhooks')
    .select((is) => is.fn.min('dueAt').as('dueAt'))
    .executeTakeFirstOrThrow()
  return row.dueAt === null ? null : Number(row.dueAt)
}

/** Files in the bucket of a shared store, by their keys. */
export type StoredFiles = {
  /** Files that repositories and their runs need. */
  live: Map<string, { bytes: number; repository: string }>
  /** Files that are being uploaded, or will be deleted. */
  others: Set<string>
}

export async function listStoredFiles(db: Db): Promise<StoredFiles> {
  const packs = await db
    .selectFrom('packs')
    .innerJoin('repositories', 'repositories.id', 'packs.repositoryId')
    .select(['key', 'packs.packBytes', 'idxBytes', 'mtimesBytes', 'retiredAt', 'name'])
    .where('pack', 'is', null)
    .execute()
  const uploads = await db.selectFrom('uploads').select('key').execute()
  const live: StoredFiles['live'] = new Map()
  const others = new Set(
    uploads.flatMap(({ key }) =>
      key.startsWith(lfsKeyStart)
        ? [key]
        : ['pack', 'idx', 'mtimes'].map((type) => `${key}.${type}`),
    ),
  )
  for (const { key, packBytes, idxBytes, mtimesBytes, retiredAt, name } of packs) {
    const files = { pack: packBytes, idx: idxBytes, mtimes: mtimesBytes }
    for (const [type, bytes] of Object.entries(files)) {
      if (bytes === null) continue
      if (retiredAt === null) live.set(`${key}.${type}`, { bytes, repository: name })
      else others.add(`${key}.${type}`)
    }
  }
  for (const { bucketKey, size, name } of await listKnownLfsObjects(db))
    if (bucketKey !== null) live.set(bucketKey, { bytes: size, repository: name })
  for (const file of await listRunFiles(db)) {
    const key = bucketKeyOf(file)
    if (file.state === 'kept') live.set(key, { bytes: file.size, repository: file.repositoryId })
    else others.add(key)
  }
  return { live, others }
}

/** The first schema version with objects of Git LFS. */
const lfsVersion = 38

export type KnownLfsObject = Pick<LfsObjectRow, 'repositoryId' | 'oid' | 'size' | 'bucketKey'> & {
  /** The name of the repository. */
  name: string
}

/** Lists the LFS objects of all repositories. */
export async function listKnownLfsObjects(db: Db): Promise<KnownLfsObject[]> {
  const version = (await readVersion(db)) ?? 0
  if (version < lfsVersion) return []
  return db
    .selectFrom('lfsObjects')
    .innerJoin('repositories', 'repositories.id', 'lfsObjects.repositoryId')
    .select(['repositoryId', 'oid', 'size', 'bucketKey', 'name'])
    .execute()
}

/** The first schema version with artifacts and caches. */
const runFilesVersion = 27

/** Lists the files of artifacts and caches. */
export async function listRunFiles(
  db: Db,
): Promise<Pick<RunFileRow, 'id' | 'repositoryId' | 'state' | 'size'>[]> {
  const version = (await readVersion(db)) ?? 0
  if (version < runFilesVersion) return []
  return db
    .selectFrom('runFiles')
    .select(['id', 'repositoryId', 'state', 'size'])
    .orderBy('id')
    .execute()
}

const auditBatchSize = 2000

/** The number of the last audit entry that was recorded. */
export async function readAuditNumber(db: Db): Promise<number> {
  const row = await db
    .selectFrom('marks')
    .select('value')
    .where('name', '=', 'audit')
    .executeTakeFirst()
  return Number(row?.value ?? 0)
}

/** Lists some audit entries after a number, in order. */
export function listAuditAfter(db: Db, seq: number): Promise<AuditRow[]> {
  return db
    .selectFrom('audit')
    .selectAll()
    .where('seq', '>', seq)
    .orderBy('seq')
    .limit(auditBatchSize)
    .execute()
}
