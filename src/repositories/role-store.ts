import { type RawBuilder, sql } from 'kysely'
import type { Role } from '#access/roles.ts'
import type { Db } from '#database/schema.ts'

// The highest of some roles.
const highest = sql`order by case role when 'admin' then 3 when 'maintain' then 2 when 'write' then 1 else 0 end desc limit 1`

/** The members by which a user is in a namespace: itself, and its groups. */
const ofMember = (username: string) =>
  sql`member in (select cast(${username} as text) union all select 'group:' || name from user_groups where username = ${username})`

/**
 * The role of a user in a repository of a query, null for none: the highest of its role as a collaborator, and its roles in
 * the namespace.
 */
export function roleOfUser(username: string): RawBuilder<Role | null> {
  return sql<Role | null>`(select role from (
    select role from collaborators
    where repository_id = repositories.id and username = ${username}
    union all
    select role from namespace_members
    where namespace_id = repositories.namespace_id and ${ofMember(username)}
  ) as roles ${highest})`
}

/** The role of a user in a namespace of a query. */
export function namespaceRoleOfUser(username: string): RawBuilder<Role | null> {
  return sql<Role | null>`(select role from namespace_members
    where namespace_id = namespaces.id and ${ofMember(username)} ${highest})`
}

/** The ids of the namespaces of which a user is a member. */
export function namespacesOfUser(username: string): RawBuilder<string> {
  return sql<string>`(select namespace_id from namespace_members where ${ofMember(username)})`
}

/** The ids of the repositories to which a user may push by its own roles. */
export function writableBy(username: string): RawBuilder<string> {
  return sql<string>`(
    select repository_id from collaborators where username = ${username} and role <> 'read'
    union all
    select id from repositories where owner_username = ${username}
      and (namespace_id is null or namespace_id in ${namespacesOfUser(username)})
    union all
    select id from repositories where namespace_id in (
      select namespace_id from namespace_members where ${ofMember(username)} and role <> 'read'
    )
  )`
}

/** The groups of a user. */
export async function groupsOf(db: Db, username: string): Promise<string[]> {
  const rows = await db
    .selectFrom('userGroups')
    .select('name')
    .where('username', '=', username)
    .execute()
  return rows.map(({ name }) => name)
}

/** Those of some members of namespaces, all groups, that a user is in. */
export async function groupMembersAmong(db: Db, members: readonly string[]): Promise<string[]> {
  if (members.length === 0) return []
  const rows = await db
    .selectFrom('userGroups')
    .select('name')
    .distinct()
    .where(
      'name',
      'in',
      members.map((member) => member.slice('group:'.length)),
    )
    .execute()
  return rows.map(({ name }) => `group:${name}`)
}

/** Whether the database could have a name of a user or a group: PostgreSQL rejects texts with a NUL. */
export function isStorable(name: string): boolean {
  return !name.includes('\0')
}
