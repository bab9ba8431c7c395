import { sql } from 'kysely'
import type { Role } from '#access/roles.ts'
import type { PageRequest } from '#base/list-all.ts'
import { hasRowLocks } from '#database/row-locks.ts'
import type { Db, NamespaceMemberRow, NamespaceRow, RepositoryRow } from '#database/schema.ts'
import type { NamespaceLimits } from './namespace-limit-store.ts'
import { selectVisible, type Viewer } from './repository-store.ts'
import { namespaceRoleOfUser, namespacesOfUser } from './role-store.ts'
import { deleteBelongings } from './scope-store.ts'

/** A namespace with its limits, and with the role of a username in it. */
export type JoinedNamespace = NamespaceRow & NamespaceLimits & { role: Role | undefined }

/** Inserts a namespace; false when another one has its name. */
export async function insertNamespace(tx: Db, namespace: NamespaceRow): Promise<boolean> {
  const row = await tx
    .insertInto('namespaces')
    .values(namespace)
    .onConflict((conflict) => conflict.column('nameKey').doNothing())
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** A namespace by its exact name, with the role of a username in it. */
export async function findNamespace(
  db: Db,
  name: string,
  username: string,
): Promise<JoinedNamespace | undefined> {
  const row = await db
    .selectFrom('namespaces')
    .leftJoin('namespaceLimits', 'namespaceLimits.namespaceId', 'namespaces.id')
    .selectAll('namespaces')
    .select(['maxRepositories', 'maxBytes'])
    .select(namespaceRoleOfUser(username).as('role'))
    .where('nameKey', '=', name.toLowerCase())
    .where('name', '=', name)
    .executeTakeFirst()
  return row && { ...row, role: row.role ?? undefined }
}

/**
 * Whether a namespace exists under a name, which it keeps until the transaction ends: with `share` for repositories that
 * are put into it; with `update` for changes of itself, which wait for those. Pushes to its repositories, whose rows refer to
 * it, do not wait.
 */
export async function lockNamespace(
  tx: Db,
  { id, name }: Pick<NamespaceRow, 'id' | 'name'>,
  kind: 'share' | 'update',
): Promise<boolean> {
  const row = await tx
    .selectFrom('namespaces')
    .select('id')
    .where('id', '=', id)
    .where('name', '=', name)
    .$if(hasRowLocks(tx), (rows) => (kind === 'share' ? rows.forShare() : rows.forNoKeyUpdate()))
    .executeTakeFirst()
  return row !== undefined
}

/** The namespaces after an id of which a username is a member or a viewer sees a repository, or all; oldest first. */
export async function listNamespaces(
  db: Db,
  { viewer, username }: { viewer: Viewer; username: string },
  { after, limit }: PageRequest,
): Promise<JoinedNamespace[]> {
  const rows = await db
    .selectFrom('namespaces')
    .leftJoin('namespaceLimits', 'namespaceLimits.namespaceId', 'namespaces.id')
    .selectAll('namespaces')
    .select(['maxRepositories', 'maxBytes'])
    .select(namespaceRoleOfUser(username).as('role'))
    .where('id', '>', after)
    .$if(viewer !== 'all', (query) =>
      query.where((is) =>
        is.or([
          is('id', 'in', namespacesOfUser(username)),
          is('id', 'in', selectVisible(db, viewer).select('namespaceId')),
        ]),
      ),
    )
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map((row) => ({ ...row, role: row.role ?? undefined }))
}

/** Which of some namespaces, by their ids, a user has the role `admin` in. */
export async function listAdministered(
  db: Db,
  username: string,
  ids: readonly string[],
): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .selectFrom('namespaces')
    .select(['id', namespaceRoleOfUser(username).as('role')])
    .where('id', 'in', ids)
    .execute()
  return new Set(rows.flatMap(({ id, role }) => (role === 'admin' ? [id] : [])))
}

/** Whether a viewer can see a repository of a namespace. */
export async function hasVisibleRepository(
  db: Db,
  viewer: Viewer,
  namespaceId: string,
): Promise<boolean> {
  const row = await selectVisible(db, viewer)
    .select('id')
    .where('namespaceId', '=', namespaceId)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** All repositories of a namespace, also deleted ones that can be restored, in the order of their ids. */
export function listRepositoriesOf(
  tx: Db,
  namespaceId: string,
): Promise<Pick<RepositoryRow, 'id' | 'name' | 'state'>[]> {
  return tx
    .selectFrom('repositories')
    .select(['id', 'name', 'state'])
    .where('namespaceId', '=', namespaceId)
    .orderBy('id')
    .$if(hasRowLocks(tx), (rows) => rows.forUpdate())
    .execute()
}

/** Changes the name of a repository that is deleted; it keeps its key. */
export async function updateDeletedName(tx: Db, id: string, name: string): Promise<void> {
  await tx.updateTable('repositories').set({ name }).where('id', '=', id).execute()
}

/**
 * Renames a namespace whose repositories are locked: from now on pushes to them wait. Throws the database's error when the
 * name is taken.
 */
export async function updateNamespaceName(tx: Db, id: string, name: string): Promise<void> {
  await tx
    .updateTable('namespaces')
    .set({ name, nameKey: name.toLowerCase() })
    .where('id', '=', id)
    .execute()
}

export async function deleteNamespace(tx: Db, id: string): Promise<void> {
  await tx.deleteFrom('namespaces').where('id', '=', id).execute()
  await deleteBelongings(tx, id)
}

/** The members of a namespace, oldest first. */
export function listMembers(
  db: Db,
  namespaceId: string,
): Promise<Pick<NamespaceMemberRow, 'member' | 'role' | 'createdAt'>[]> {
  return db
    .selectFrom('namespaceMembers')
    .select(['member', 'role', 'createdAt'])
    .where('namespaceId', '=', namespaceId)
    .orderBy('createdAt')
    .orderBy('member')
    .execute()
}

/** Adds a member or changes its role. */
export async function upsertMember(tx: Db, member: NamespaceMemberRow): Promise<void> {
  await tx
    .insertInto('namespaceMembers')
    .values(member)
    .onConflict((conflict) =>
      conflict.columns(['namespaceId', 'member']).doUpdateSet({ role: member.role }),
    )
    .execute()
}

/** Removes a member; returns its role, undefined when there was none. */
export async function deleteMember(
  tx: Db,
  namespaceId: string,
  member: string,
): Promise<Role | undefined> {
  const row = await tx
    .deleteFrom('namespaceMembers')
    .where('namespaceId', '=', namespaceId)
    .where('member', '=', member)
    .returning('role')
    .executeTakeFirst()
  return row?.role
}

/** Ends all memberships of a user, and returns the names of the namespaces. */
export async function deleteMemberships(tx: Db, username: string): Promise<string[]> {
  const rows = await tx
    .deleteFrom('namespaceMembers')
    .where('member', '=', username)
    .returning('namespaceId')
    .execute()
  if (rows.length === 0) return []
  const namespaces = await tx
    .selectFrom('namespaces')
    .select('name')
    .where(
      'id',
      'in',
      rows.map(({ namespaceId }) => namespaceId),
    )
    .orderBy('id')
    .execute()
  return namespaces.map(({ name }) => name)
}

/** The roles that users have as members of a namespace, themselves and by their groups. */
export function listUsersOfNamespace(
  db: Db,
  namespaceId: string,
): Promise<{ username: string; role: Role }[]> {
  return db
    .selectFrom('namespaceMembers')
    .select(['member as username', 'role'])
    .where('namespaceId', '=', namespaceId)
    .where('member', 'not like', 'group:%')
    .unionAll(
      db
        .selectFrom('namespaceMembers')
        .innerJoin('userGroups', (join) =>
          // By the index of names.
          join.on('userGroups.name', '=', sql<string>`substr(namespace_members.member, 7)`),
        )
        .select(['userGroups.username', 'role'])
        .where('namespaceId', '=', namespaceId)
        .where('member', 'like', 'group:%'),
    )
    .execute()
}
