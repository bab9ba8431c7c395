import { prepared } from '../database/prepared.ts'
import type { Db, NewRepository, RepositoryRow, RepositoryState } from '../database/schema.ts'

export type VisibleRow = RepositoryRow & { isCollaborator: boolean }

/** Selects all repositories, or those that a username owns or collaborates on. */
export type Viewer = 'all' | { username: string }

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

const withCollaborator = (db: Db, username: string) =>
  db
    .selectFrom('repositories')
    .leftJoin('collaborators', (join) =>
      join
        .onRef('collaborators.repositoryId', '=', 'repositories.id')
        .on('collaborators.username', '=', username),
    )
    .selectAll('repositories')
    .select('collaborators.username as collaborator')

const byName = prepared((db, by: { name: string; nameKey: string; username: string }) =>
  withCollaborator(db, by.username)
    .where('repositories.nameKey', '=', by.nameKey)
    .where('repositories.name', '=', by.name),
)

const byId = prepared((db, by: { id: string; username: string }) =>
  withCollaborator(db, by.username).where('repositories.id', '=', by.id),
)

/** A repository by its exact name or its id, with whether a username is a collaborator of it. */
export async function findRepository(
  db: Db,
  by: { name: string } | { id: string },
  username: string,
): Promise<VisibleRow | undefined> {
  const [row] = await ('id' in by
    ? byId(db, { id: by.id, username })
    : byName(db, { name: by.name, nameKey: by.name.toLowerCase(), username }))
  if (!row) return undefined
  const { collaborator, ...repository } = row
  return { ...repository, isCollaborator: collaborator !== null }
}

/** Whether a name is taken, ignoring case. */
export async function isNameTaken(db: Db, name: string): Promise<boolean> {
  const row = await db
    .selectFrom('repositories')
    .select('id')
    .where('nameKey', '=', name.toLowerCase())
    .executeTakeFirst()
  return row !== undefined
}

/** Repositories after an id, oldest first. */
export function listRepositories(
  db: Db,
  viewer: Viewer,
  { after, limit }: { after: string; limit: number | undefined },
): Promise<RepositoryRow[]> {
  let query = db.selectFrom('repositories').selectAll().where('id', '>', after).orderBy('id')
  if (viewer !== 'all') {
    const { username } = viewer
    query = query.where((is) =>
      is.or([
        is('ownerUsername', '=', username),
        is(
          'id',
          'in',
          is.selectFrom('collaborators').select('repositoryId').where('username', '=', username),
        ),
      ]),
    )
  }
  if (limit !== undefined) query = query.limit(limit)
  return query.execute()
}

/** The ids and states of all repositories. */
export function listRepositoryStates(db: Db): Promise<Pick<RepositoryRow, 'id' | 'state'>[]> {
  return db.selectFrom('repositories').select(['id', 'state']).orderBy('id', 'desc').execute()
}

/** The repositories that are ready; those still being imported have no directory. */
export function listReadyRepositories(db: Db): Promise<{ id: string; name: string }[]> {
  return db
    .selectFrom('repositories')
    .select(['id', 'name'])
    .where('state', '=', 'ready')
    .orderBy('id')
    .execute()
}

/** Filters ids to those of existing repositories. */
export async function presentAmong(db: Db, ids: string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await db.selectFrom('repositories').select('id').where('id', 'in', ids).execute()
  return new Set(rows.map(({ id }) => id))
}

export async function countRepositories(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('repositories')
    .select((is) => is.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}

/** Renames a repository; false when it was deleted. Throws the database's error when the name is taken. */
export async function updateName(db: Db, id: string, name: string): Promise<boolean> {
  const row = await db
    .updateTable('repositories')
    .set({ name, nameKey: name.toLowerCase() })
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** Marks an imported repository ready; false when it was deleted. */
export async function markReady(db: Db, id: string): Promise<boolean> {
  const row = await db
    .updateTable('repositories')
    .set({ state: 'ready' })
    .where('id', '=', id)
    .where('state', '=', 'importing')
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** The state of a repository; undefined when it was deleted. */
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
    .executeTakeFirst()
  return row?.name
}

export async function deleteRepository(db: Db, id: string): Promise<boolean> {
  const row = await db
    .deleteFrom('repositories')
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}
