import { maySeeAll, visibilitiesOpenTo } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import type { Role } from '#access/roles.ts'
import type { Visibility } from '#access/visibility.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import { prepared } from '#database/prepared.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type {
  Db,
  LiveState,
  NewRepository,
  RepositoryRow,
  RepositoryState,
} from '#database/schema.ts'
import { readLastSeq } from '#events/event-store.ts'
import { namespacesOfUser, roleOfUser } from './role-store.ts'
import { deleteBelongings } from './scope-store.ts'

/** A repository that was not deleted. */
type LiveRow = RepositoryRow & { state: LiveState }

export type VisibleRow = LiveRow & { role: Role | undefined }

/**
 * Selects all repositories, or those that a username owns or collaborates on, or that have an open visibility; of these,
 * only some when `within` has their ids.
 */
export type Viewer =
  | 'all'
  | { username: string; open: readonly Visibility[]; within?: string[] | undefined }

/** The viewer that a principal is. */
export function viewerOf(principal: Principal): Viewer {
  if (maySeeAll(principal)) return 'all'
  const { username, repositories } = principal
  const open = visibilitiesOpenTo(principal)
  return { username, open, within: repositories && [...repositories] }
}

/** Inserts a repository; false when its name is taken. */
export async function insertRepository(db: Db, repository: NewRepository): Promise<boolean> {
  const row = await db
    .insertInto('repositories')
    .values(repository)
    .onConflict((conflict) => conflict.column('nameKey').doNothing())
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

const withRole = (db: Db, username: string) =>
  db
    .selectFrom('repositories')
    .selectAll('repositories')
    .select(roleOfUser(username).as('role'))
    .where('repositories.deletedAt', 'is', null)
    .$narrowType<{ state: LiveState }>()

const byName = prepared((db, by: { name: string; nameKey: string; username: string }) =>
  withRole(db, by.username)
    .where('repositories.nameKey', '=', by.nameKey)
    .where('repositories.name', '=', by.name),
)

const byId = prepared((db, by: { id: string; username: string }) =>
  withRole(db, by.username).where('repositories.id', '=', by.id),
)

/** A repository by its exact name or its id, with the role of a username in it. */
export async function findRepository(
  db: Db,
  by: { name: string } | { id: string },
  username: string,
): Promise<VisibleRow | undefined> {
  const [row] = await ('id' in by
    ? byId(db, { id: by.id, username })
    : byName(db, { name: by.name, nameKey: by.name.toLowerCase(), username }))
  return row && Object.assign(row, { role: row.role ?? undefined })
}

/** Repositories by their ids, with the role of a username in each. */
export async function findRepositoriesById(
  db: Db,
  ids: readonly string[],
  username: string,
): Promise<VisibleRow[]> {
  const all: VisibleRow[] = []
  for (let start = 0; start < ids.length; start += idsPerQuery) {
    const some = ids.slice(start, start + idsPerQuery)
    const rows = await withRole(db, username).where('repositories.id', 'in', some).execute()
    all.push(...rows.map((row) => ({ ...row, role: row.role ?? undefined })))
  }
  return all
}

/** Whether any repository is public. */
export async function hasPublicRepository(db: Db): Promise<boolean> {
  const row = await db
    .selectFrom('repositories')
    .select('id')
    .where('visibility', '=', 'public')
    .where('deletedAt', 'is', null)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Whether a name is that of a repository or a namespace, ignoring case. */
export async function isNameTaken(db: Db, name: string): Promise<boolean> {
  return (await countNames(db, name)) > 0
}

/** How many repositories and namespaces have a name, ignoring case. */
export async function countNames(db: Db, name: string): Promise<number> {
  const nameKey = name.toLowerCase()
  const rows = await db
    .selectFrom('repositories')
    .select('id')
    .where('nameKey', '=', nameKey)
    .unionAll(db.selectFrom('namespaces').select('id').where('nameKey', '=', nameKey))
    .execute()
  return rows.length
}

/** The names of the oldest repositories of an owner, also of deleted ones. */
export async function listNamesOwnedBy(tx: Db, username: string, limit: number): Promise<string[]> {
  const rows = await tx
    .selectFrom('repositories')
    .select('name')
    .where('ownerUsername', '=', username)
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(({ name }) => name)
}

/** The repositories that a viewer can see. */
export function selectVisible(db: Db, viewer: Viewer) {
  const query = db.selectFrom('repositories').where('deletedAt', 'is', null)
  if (viewer === 'all') return query
  const { username, open, within } = viewer
  return query.where((is) =>
    is.and([
      ...(within ? [is('id', 'in', within)] : []),
      is.or([
        // In a namespace, owners count by their roles there.
        is.and([is('ownerUsername', '=', username), is('namespaceId', 'is', null)]),
        ...(open.length > 0 ? [is('visibility', 'in', open)] : []),
        is(
          'id',
          'in',
          is.selectFrom('collaborators').select('repositoryId').where('username', '=', username),
        ),
        is('namespaceId', 'in', namespacesOfUser(username)),
      ]),
    ]),
  )
}

const idsPerQuery = 1000

/** The names of repositories by their ids; those that the viewer cannot see are left out. */
export async function listNames(
  db: Db,
  viewer: Viewer,
  ids: readonly string[],
): Promise<Map<string, string>> {
  const names = new Map<string, string>()
  for (let start = 0; start < ids.length; start += idsPerQuery) {
    const rows = await selectVisible(db, viewer)
      .select(['id', 'name'])
      .where('id', 'in', ids.slice(start, start + idsPerQuery))
      .execute()
    for (const { id, name } of rows) names.set(id, name)
  }
  return names
}

/** The ids and states of all repositories, also of deleted ones. */
export function listRepositoryStates(db: Db): Promise<Pick<RepositoryRow, 'id' | 'state'>[]> {
  return db.selectFrom('repositories').select(['id', 'state']).orderBy('id', 'desc').execute()
}

/** The repositories with refs and objects: the ready ones, and deleted ones that can be restored. */
export function listWholeRepositories(
  db: Db,
): Promise<Pick<RepositoryRow, 'id' | 'name' | 'objectFormat'>[]> {
  return db
    .selectFrom('repositories')
    .select(['id', 'name', 'objectFormat'])
    .where('state', 'in', ['ready', 'deleted'])
    .orderBy('id')
    .execute()
}

/** Filters ids to those of repositories that were not deleted. */
export async function presentAmong(db: Db, ids: string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .selectFrom('repositories')
    .select('id')
    .where('id', 'in', ids)
    .where('deletedAt', 'is', null)
    .execute()
  return new Set(rows.map(({ id }) => id))
}

export async function countRepositories(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('repositories')
    .select((is) => is.fn.countAll<number>().as('count'))
    .where('deletedAt', 'is', null)
    .executeTakeFirstOrThrow()
  return count
}

/** What changes with the name of a repository, and with its namespace. */
export async function changesOfName(
  tx: Db,
  former: Pick<RepositoryRow, 'namespaceId'>,
  { name, namespaceId }: { name: string; namespaceId: string | null },
): Promise<Partial<NewRepository>> {
  const joined = namespaceId === former.namespaceId ? {} : { joinedSeq: await readLastSeq(tx) }
  return { name, nameKey: name.toLowerCase(), namespaceId, ...joined }
}

/**
 * Renames a repository; returns its former name and namespace, undefined when it was deleted. Throws the database's error when
 * the name is taken.
 */
export async function updateName(
  tx: Db,
  id: string,
  { name, namespaceId }: { name: string; namespaceId: string | null },
): Promise<Pick<RepositoryRow, 'name' | 'namespaceId'> | undefined> {
  const former = await tx
    .selectFrom('repositories')
    .select(['name', 'namespaceId'])
    .where('id', '=', id)
    .where('deletedAt', 'is', null)
    .$if(hasRowLocks(tx), (rows) => rows.forUpdate())
    .executeTakeFirst()
  if (!former) return undefined
  const changes = await changesOfName(tx, former, { name, namespaceId })
  await tx.updateTable('repositories').set(changes).where('id', '=', id).execute()
  return former
}

/** The columns that the settings of a repository change. */
export type RepositorySettings = Pick<
  RepositoryRow,
  'description' | 'leakGuard' | 'runTokens' | 'visibility' | 'ownerUsername'
>

/** Changes settings of a repository; returns the former ones, undefined when the repository was deleted. */
export async function updateSettings(
  tx: Db,
  id: string,
  changes: Partial<RepositorySettings>,
): Promise<RepositorySettings | undefined> {
  const former = await tx
    .selectFrom('repositories')
    .select(['description', 'leakGuard', 'runTokens', 'visibility', 'ownerUsername'])
    .where('id', '=', id)
    .where('deletedAt', 'is', null)
    .$if(hasRowLocks(tx), (rows) => rows.forNoKeyUpdate())
    .executeTakeFirst()
  if (former) await tx.updateTable('repositories').set(changes).where('id', '=', id).execute()
  return former
}

/** The object format of a repository; null while nothing has decided it. */
export async function findObjectFormat(db: Db, id: string): Promise<ObjectFormat | null> {
  const row = await db
    .selectFrom('repositories')
    .select('objectFormat')
    .where('id', '=', id)
    .executeTakeFirst()
  return row?.objectFormat ?? null
}

/** Decides the object format of a repository that has none. Returns the one that it has now. */
export async function decideObjectFormat(
  db: Db,
  id: string,
  objectFormat: ObjectFormat,
): Promise<ObjectFormat | null> {
  await db
    .updateTable('repositories')
    .set({ objectFormat })
    .where('id', '=', id)
    .where('objectFormat', 'is', null)
    .execute()
  return findObjectFormat(db, id)
}

/** Records that a push was received, and the bytes that it has added, with the transaction that finalizes it. */
export async function recordPushed(
  tx: Db,
  id: string,
  { pushedAt, bytes }: { pushedAt: number; bytes: number },
): Promise<void> {
  await tx
    .updateTable('repositories')
    .set((is) => ({ pushedAt, packBytes: is('packBytes', '+', bytes) }))
    .where('id', '=', id)
    .execute()
}

/** Whether a user has set the default branch of a repository, and not only pushes. */
export async function isHeadChosen(db: Db, id: string): Promise<boolean> {
  const row = await db
    .selectFrom('repositories')
    .select('headChosen')
    .where('id', '=', id)
    .executeTakeFirst()
  return row?.headChosen === 1
}

export async function markHeadChosen(db: Db, id: string): Promise<void> {
  await db.updateTable('repositories').set({ headChosen: 1 }).where('id', '=', id).execute()
}

/** Marks an imported repository ready; false when it was deleted. */
export async function markReady(
  db: Db,
  id: string,
  imported: Pick<RepositoryRow, 'importedAt' | 'missingLfsObjects' | 'objectFormat'>,
): Promise<boolean> {
  const row = await db
    .updateTable('repositories')
    .set({ state: 'ready', ...imported })
    .where('id', '=', id)
    .where('state', '=', 'importing')
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** The state of a repository; undefined when there is none with this id. */
export async function stateOf(db: Db, id: string): Promise<RepositoryState | undefined> {
  const row = await db
    .selectFrom('repositories')
    .select('state')
    .where('id', '=', id)
    .executeTakeFirst()
  return row?.state
}

/** The name of a repository; undefined when it was deleted. */
export async function nameOf(db: Db, repositoryId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('repositories')
    .select('name')
    .where('id', '=', repositoryId)
    .where('deletedAt', 'is', null)
    .executeTakeFirst()
  return row?.name
}

export async function deleteRepository(db: Db, id: string): Promise<boolean> {
  const row = await db
    .deleteFrom('repositories')
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst()
  if (row) await deleteBelongings(db, id)
  return row !== undefined
}
