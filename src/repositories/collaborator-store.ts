import type { Role } from '#access/roles.ts'
import type { Visibility } from '#access/visibility.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { CollaboratorRow, Db } from '#database/schema.ts'

/** Adds a collaborator; false when it was one already. */
export async function insertCollaborator(db: Db, collaborator: CollaboratorRow): Promise<boolean> {
  const row = await db
    .insertInto('collaborators')
    .values(collaborator)
    .onConflict((conflict) => conflict.columns(['repositoryId', 'username']).doNothing())
    .returning('username')
    .executeTakeFirst()
  return row !== undefined
}

/** The role of a collaborator; undefined when a username is none. Locked until the transaction ends. */
export async function lockRole(
  tx: Db,
  repositoryId: string,
  username: string,
): Promise<Role | undefined> {
  const row = await selectRole(tx, repositoryId, username)
    .$if(hasRowLocks(tx), (rows) => rows.forUpdate())
    .executeTakeFirst()
  return row?.role
}

/** The role of a collaborator; undefined when a username is none. */
export async function findRole(
  db: Db,
  repositoryId: string,
  username: string,
): Promise<Role | undefined> {
  const row = await selectRole(db, repositoryId, username).executeTakeFirst()
  return row?.role
}

function selectRole(db: Db, repositoryId: string, username: string) {
  return db
    .selectFrom('collaborators')
    .select('role')
    .where('repositoryId', '=', repositoryId)
    .where('username', '=', username)
}

export async function updateRole(
  tx: Db,
  { repositoryId, username, role }: Omit<CollaboratorRow, 'createdAt'>,
): Promise<void> {
  await tx
    .updateTable('collaborators')
    .set({ role })
    .where('repositoryId', '=', repositoryId)
    .where('username', '=', username)
    .execute()
}

/** The collaborators of a repository, oldest first. */
export function listCollaborators(
  db: Db,
  repositoryId: string,
): Promise<Pick<CollaboratorRow, 'username' | 'role'>[]> {
  return db
    .selectFrom('collaborators')
    .select(['username', 'role'])
    .where('repositoryId', '=', repositoryId)
    .orderBy('createdAt')
    .orderBy('username')
    .execute()
}

export async function deleteCollaborator(
  db: Db,
  repositoryId: string,
  username: string,
): Promise<boolean> {
  const row = await db
    .deleteFrom('collaborators')
    .where('repositoryId', '=', repositoryId)
    .where('username', '=', username)
    .returning('username')
    .executeTakeFirst()
  return row !== undefined
}

/** Ends what a user may do as a collaborator, and returns the ids of the repositories. */
export async function deleteCollaborations(tx: Db, username: string): Promise<string[]> {
  const rows = await tx
    .deleteFrom('collaborators')
    .where('username', '=', username)
    .returning('repositoryId')
    .execute()
  return rows.map(({ repositoryId }) => repositoryId)
}

/** The name of a repository, and the users who can see it. */
export type RepositoryAudience = {
  id: string
  name: string
  ownerUsername: string
  visibility: Visibility
  /** Roles by username. */
  collaborators: ReadonlyMap<string, Role>
}

/** The audience of a repository; undefined when it was deleted. */
export async function findRepositoryAudience(
  db: Db,
  repositoryId: string,
): Promise<RepositoryAudience | undefined> {
  const rows = await db
    .selectFrom('repositories')
    .leftJoin('collaborators', 'collaborators.repositoryId', 'repositories.id')
    .select(['name', 'ownerUsername', 'visibility', 'username', 'role'])
    .where('id', '=', repositoryId)
    .where('deletedAt', 'is', null)
    .execute()
  const [first] = rows
  if (!first) return undefined
  const collaborators = new Map(
    rows.flatMap(({ username, role }) => (username && role ? [[username, role] as const] : [])),
  )
  const { name, ownerUsername, visibility } = first
  return { id: repositoryId, name, ownerUsername, visibility, collaborators }
}
