import { includesRole, type Role } from '#access/roles.ts'
import type { Visibility } from '#access/visibility.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { CollaboratorRow, Db } from '#database/schema.ts'
import { listUsersOfNamespace } from './namespace-store.ts'

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
  const row = await tx
    .selectFrom('collaborators')
    .select('role')
    .where('repositoryId', '=', repositoryId)
    .where('username', '=', username)
    .$if(hasRowLocks(tx), (rows) => rows.forUpdate())
    .executeTakeFirst()
  return row?.role
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
  namespaceId: string | null
  visibility: Visibility
  /** Roles by username: the highest of each. */
  roles: ReadonlyMap<string, Role>
}

/** The audience of a repository; undefined when it was deleted. */
export async function findRepositoryAudience(
  db: Db,
  repositoryId: string,
): Promise<RepositoryAudience | undefined> {
  const repository = await db
    .selectFrom('repositories')
    .select(['name', 'ownerUsername', 'visibility', 'namespaceId'])
    .where('id', '=', repositoryId)
    .where('deletedAt', 'is', null)
    .executeTakeFirst()
  if (!repository) return undefined
  const { name, ownerUsername, visibility, namespaceId } = repository
  const granted = [
    ...(await listCollaborators(db, repositoryId)),
    ...(namespaceId === null ? [] : await listUsersOfNamespace(db, namespaceId)),
  ]
  const roles = new Map<string, Role>()
  for (const { username, role } of granted) {
    const known = roles.get(username)
    if (known === undefined || includesRole(role, known)) roles.set(username, role)
  }
  return { id: repositoryId, name, ownerUsername, namespaceId, visibility, roles }
}
