import { sql } from 'kysely'
import type { ObjectFormat } from '#base/object-id.ts'
import { prepared } from '#database/prepared.ts'
import type { Db, RepositoryState } from '#database/schema.ts'
import { recordMark } from './bucket-mark-store.ts'
import type { LivePack } from './pack-store.ts'

/** A ref: its name, value, and the object that an annotated tag points to. */
export type StoredRef = readonly [name: string, id: string, peeled: string | null]

/** All refs and packs of a repository, of one moment. */
export type StoredRepository = {
  version: number
  pruneEpoch: number
  head: string | null
  objectFormat: ObjectFormat | null
  /** In the order of their names' bytes. */
  refs: StoredRef[]
  packs: LivePack[]
}

/** Reads the state of a repository with one statement, whose snapshot is consistent; undefined when it is gone. */
export async function readStoredRepository(
  db: Db,
  repositoryId: string,
): Promise<StoredRepository | undefined> {
  const { rows } = await sql<StoredRepository>`
    select version, prune_epoch, head, object_format,
      (select coalesce(json_agg(json_build_array(name, object_id, peeled_id) order by name), '[]')
        from refs where repository_id = repositories.id) as refs,
      (select coalesce(json_agg(json_build_object('key', key, 'hash', hash,
          'packBytes', pack_bytes, 'packSha256', pack_sha256,
          'idxBytes', idx_bytes, 'idxSha256', idx_sha256,
          'mtimesBytes', mtimes_bytes, 'mtimesSha256', mtimes_sha256, 'isInline', pack is not null)), '[]')
        from packs where repository_id = repositories.id and retired_at_version is null) as packs
    from repositories where id = ${repositoryId}`.execute(db)
  return rows[0]
}

/** Makes repositories that were in a shared store ones that are in directories, as in a backup. */
export async function forgetStore(tx: Db): Promise<void> {
  await tx.updateTable('repositories').set({ version: 0, pruneEpoch: 0, head: null }).execute()
  await recordMark(tx, null)
}

/** The repositories that are in a shared store, or those that are in directories, in the order of their ids. */
export function listStored(
  db: Db,
  { isStored, limit }: { isStored: boolean; limit?: number },
): Promise<{ id: string; name: string; state: RepositoryState }[]> {
  const query = db
    .selectFrom('repositories')
    .select(['id', 'name', 'state'])
    .where('state', 'in', ['ready', 'deleted'])
    .where('head', isStored ? 'is not' : 'is', null)
    .orderBy('id')
  return (limit === undefined ? query : query.limit(limit)).execute()
}

/** The version of a repository; undefined when it was deleted. */
export async function versionOf(db: Db, repositoryId: string): Promise<number | undefined> {
  const [row] = await versionById(db, { id: repositoryId })
  return row?.version
}

const versionById = prepared((db, by: { id: string }) =>
  db
    .selectFrom('repositories')
    .select('version')
    .where('id', '=', by.id)
    .where('deletedAt', 'is', null),
)
