import { sql } from 'kysely'
import { dayMs } from '#base/clock.ts'
import type { Db, NamespaceRow } from '#database/schema.ts'
import { findRepository, type VisibleRow } from './repository-store.ts'

/** For how long a name that a rename has freed leads to its repository. */
export const formerNameMs = 90 * dayMs

/** A name that a rename has freed, with the owner of its repository. */
export type FormerName = { repositoryId: string; ownerUsername: string; freedAt: number }

export async function insertFormerName(
  tx: Db,
  { name, repositoryId, freedAt }: { name: string; repositoryId: string; freedAt: number },
): Promise<void> {
  const row = { nameKey: name.toLowerCase(), name, repositoryId, freedAt }
  await tx.insertInto('formerNames').values(row).execute()
}

/** Deletes a name from those that lead elsewhere; returns it if it still did. */
export async function takeFormerName(
  tx: Db,
  name: string,
  now: number,
): Promise<FormerName | undefined> {
  const nameKey = name.toLowerCase()
  const former = await tx
    .selectFrom('formerNames')
    .innerJoin('repositories', 'repositories.id', 'formerNames.repositoryId')
    .select(['formerNames.repositoryId', 'repositories.ownerUsername', 'formerNames.freedAt'])
    .where('formerNames.nameKey', '=', nameKey)
    .where('formerNames.freedAt', '>', now - formerNameMs)
    .where('repositories.deletedAt', 'is', null)
    .executeTakeFirst()
  await tx.deleteFrom('formerNames').where('nameKey', '=', nameKey).execute()
  return former
}

/**
 * Whether names that begin with that of a namespace lead to repositories of other namespaces, or to repositories of other
 * owners without a namespace.
 */
export async function hasNamesOfOthers(
  tx: Db,
  { id, name }: Pick<NamespaceRow, 'id' | 'name'>,
  { username, now }: { username: string; now: number },
): Promise<boolean> {
  const prefix = `${name.toLowerCase()}/`
  const row = await tx
    .selectFrom('formerNames')
    .innerJoin('repositories', 'repositories.id', 'formerNames.repositoryId')
    .select('formerNames.nameKey')
    .where(sql<string>`substr(former_names.name_key, 1, ${sql.lit(prefix.length)})`, '=', prefix)
    .where('formerNames.freedAt', '>', now - formerNameMs)
    .where('repositories.deletedAt', 'is', null)
    .where((is) =>
      is.or([
        is('repositories.namespaceId', '!=', id),
        is.and([
          is('repositories.namespaceId', 'is', null),
          is('repositories.ownerUsername', '!=', username),
        ]),
      ]),
    )
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Deletes former names of a repository whose time is over, and counts the others. */
export async function pruneFormerNames(tx: Db, repositoryId: string, now: number): Promise<number> {
  await tx
    .deleteFrom('formerNames')
    .where('repositoryId', '=', repositoryId)
    .where('freedAt', '<=', now - formerNameMs)
    .execute()
  const { count } = await tx
    .selectFrom('formerNames')
    .select((is) => is.fn.countAll<number | string>().as('count'))
    .where('repositoryId', '=', repositoryId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** The repository that had a name, with the role of a username in it. */
export async function findByFormerName(
  db: Db,
  name: string,
  { username, now }: { username: string; now: number },
): Promise<VisibleRow | undefined> {
  const former = await db
    .selectFrom('formerNames')
    .select('repositoryId')
    .where('nameKey', '=', name.toLowerCase())
    .where('name', '=', name)
    .where('freedAt', '>', now - formerNameMs)
    .executeTakeFirst()
  return former && findRepository(db, { id: former.repositoryId }, username)
}
