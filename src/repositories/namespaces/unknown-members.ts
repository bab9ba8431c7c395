import type { Db, NamespaceMemberRow } from '#database/schema.ts'
import { groupMembersAmong } from '../role-store.ts'

type ListedMember = Pick<NamespaceMemberRow, 'member' | 'role' | 'createdAt'>

export type Member = ListedMember & {
  /** Whether no token or key has the username, or no user who has logged in the group. */
  unknown: boolean
}

/** Those of some usernames that a token or key has. */
export type UsernamesAmong = (usernames: string[]) => Promise<string[]>

/** Says which members of a namespace are unknown, since they may be added before they log in. */
export async function markUnknown(
  db: Db,
  rows: readonly ListedMember[],
  usernamesAmong: UsernamesAmong,
): Promise<Member[]> {
  const members = rows.map(({ member }) => member)
  const groups = members.filter((member) => member.startsWith('group:'))
  const usernames = members.filter((member) => !member.startsWith('group:'))
  const known = new Set([
    ...(await groupMembersAmong(db, groups)),
    ...(usernames.length > 0 ? await usernamesAmong(usernames) : []),
  ])
  return rows.map((row) => ({ ...row, unknown: !known.has(row.member) }))
}
