import type { CollaboratorRow, Db } from '../database/schema.ts'

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

/** The usernames of a repository's collaborators, oldest first. */
export async function listCollaborators(db: Db, repositoryId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('collaborators')
    .select('username')
    .where('repositoryId', '=', repositoryId)
    .orderBy('createdAt')
    .orderBy('username')
    .execute()
  return rows.map(({ username }) => username)
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

/** The name of a repository, and the users who can see it. */
export type RepositoryAudience = {
  name: string
  ownerUsername: string
  collaborators: ReadonlySet<string>
}

/** The audience of a repository; undefined when it was deleted. */
export async function findRepositoryAudience(
  db: Db,
  repositoryId: string,
): Promise<RepositoryAudience | undefined> {
  const rows = await db
    .selectFrom('repositories')
    .leftJoin('collaborators', 'collaborators.repositoryId', 'repositories.id')
    .select(['name', 'ownerUsername', 'username'])
    .where('id', '=', repositoryId)
    .execute()
  const [first] = rows
  if (!first) return undefined
  const collaborators = new Set(rows.flatMap(({ username }) => username ?? []))
  return { name: first.name, ownerUsername: first.ownerUsername, collaborators }
}
