import { sql } from 'kysely'
import type { Role } from '#access/roles.ts'
import type { PageRequest } from '#base/list-all.ts'
import type { Db, LiveState } from '#database/schema.ts'
import { selectVisible, type Viewer, type VisibleRow } from './repository-store.ts'
import { roleOfUser } from './role-store.ts'

/** A repository of a list. Its role is only there if its visibility is open: those who see it otherwise have one. */
export type ListedRow = VisibleRow

/** Repositories after an id, oldest first; all, or those of a namespace. */
export function listRepositories(
  db: Db,
  viewer: Viewer,
  { after, limit, namespaceId }: PageRequest & { namespaceId?: string | undefined },
): Promise<ListedRow[]> {
  return selectListed(db, viewer)
    .$if(namespaceId !== undefined, (query) => query.where('namespaceId', '=', namespaceId ?? ''))
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
    .then(toListedRows)
}

function selectListed(db: Db, viewer: Viewer) {
  const role = sql<Role | null>`case when visibility = 'private' then null
    else ${roleOfUser(viewer === 'all' ? '' : viewer.username)} end`
  return selectVisible(db, viewer)
    .selectAll()
    .select(role.as('role'))
    .$narrowType<{ state: LiveState }>()
}

function toListedRows(
  rows: readonly (Omit<VisibleRow, 'role'> & { role: Role | null })[],
): ListedRow[] {
  return rows.map((row) => ({ ...row, role: row.role ?? undefined }))
}

type PushOrder = {
  /** A part of the name or the description, in lower case. */
  part: string
  /** After which repository the list starts: when it was pushed to or else created, and its id. */
  after: { at: number; id: string } | undefined
  limit: number
}

/** Repositories by their last push, or else their creation; newest first. */
export function listRepositoriesByPush(
  db: Db,
  viewer: Viewer,
  { part, after, limit }: PushOrder,
): Promise<ListedRow[]> {
  const at = sql<number>`coalesce(pushed_at, created_at)`
  const pattern = `%${part.replace(/[\\%_]/g, '\\$&')}%`
  return selectListed(db, viewer)
    .$if(part !== '', (query) =>
      query.where(
        sql<boolean>`(lower(name) like ${pattern} escape '\\' or lower(description) like ${pattern} escape '\\')`,
      ),
    )
    .$if(after !== undefined, (query) =>
      query.where((is) =>
        is.or([
          is(at, '<', after?.at ?? 0),
          is.and([is(at, '=', after?.at ?? 0), is('id', '<', after?.id ?? '')]),
        ]),
      ),
    )
    .orderBy(at, 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
    .then(toListedRows)
}
