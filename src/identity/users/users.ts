import { requirePermission } from '#access/may.ts'
import type { Permission } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import type { PageRequest } from '#base/list-all.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Db, LoginRow, UserRow } from '#database/schema.ts'
import type { Actor, Event, Publish } from '#events/events.ts'
import { deleteConsentsOf } from '../logins/cli-login-store.ts'
import { linkLogin } from '../logins/link-login.ts'
import {
  deleteLoginsOf,
  type GroupChange,
  listGroupsOf,
  listLoginsOf,
} from '../logins/login-store.ts'
import { groupsInEvent } from '../logins/people.ts'
import { deleteSessionsOf } from '../sessions/session-store.ts'
import { deleteKeysOf } from '../ssh-keys/ssh-key-store.ts'
import { keyDeleted } from '../ssh-keys/ssh-keys.ts'
import { tokenDeleted } from '../tokens/token-rows.ts'
import { deleteTokensOf } from '../tokens/token-store.ts'
import { deleteUser, findUser, listUsers, lockUser, updateUser } from '../user-store.ts'

/** The people and programs that have, or had, a token or a key. A user is as old as its first one. */
export type Users = {
  /** Lists users after an id, oldest first. */
  list: (page: PageRequest) => Promise<User[]>
  /** Returns a user: any for an admin, otherwise the caller's own. Throws `permission_missing` and `user_not_found`. */
  read: (principal: Principal, username: string) => Promise<User>
  /** Returns the caller. */
  describeCaller: (principal: Principal) => Promise<CallerDescription>
  /**
   * Changes a user. While it is disabled, none of its tokens, keys and sessions is valid; its long-lived responses end within
   * a second. Throws `user_not_found`, and `user_in_use` when callers disable themselves.
   */
  update: (principal: Principal, username: string, change: UserChange) => Promise<User>
  /**
   * Deletes a user with its tokens, keys, sessions and collaborations. Throws `user_not_found`, `user_in_use` for the
   * caller, and `user_owns_repositories`.
   */
  remove: (principal: Principal, username: string) => Promise<void>
}

type User = Omit<UserRow, 'disabledAt'> & {
  disabled: boolean
  disabledAt: number | null
  /** As of the last login or check. */
  groups: string[]
  /** The person at the identity provider who is this user. */
  login: Pick<LoginRow, 'issuer' | 'subject' | 'lastLoginAt' | 'checkedAt'> | null
}

/** Who makes a request, by which means, and what it may do. */
type CallerDescription = {
  /** Null for runs. */
  user: User | null
  credential: {
    kind: Principal['kind']
    id: string
    username: string
    permissions: Permission[]
    /** The names of the repositories that it is limited to; null for all. */
    repositories: string[] | null
    /** The patterns of the refs that it may push; null for all. */
    refs: string[] | null
    expiresAt: number | null
  }
}

type UserChange = {
  displayName?: string | undefined
  email?: string | undefined
  disabled?: boolean | undefined
  /** The person at the identity provider; empty for none. */
  loginSubject?: string | undefined
}

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  settings: Pick<PlainSettings, 'oidcIssuer'>
  repositories: {
    /** The names of repositories, by their ids, that a principal can see. */
    namesOf: (principal: Principal, ids: readonly string[]) => Promise<ReadonlyMap<string, string>>
    /** The names of the oldest repositories that a user owns, also of deleted ones. */
    namesOwnedBy: (tx: Db, username: string, limit: number) => Promise<string[]>
  }
  trustRules: {
    /** Deletes the trust rules of a user who is being deleted; returns the events of that, for its caller to publish. */
    removeOf: (tx: Db, actor: Actor, username: string) => Promise<Event[]>
  }
  collaborators: {
    /** Removes a user who is being deleted from all repositories; returns the events of that, for its caller to publish. */
    removeUser: (tx: Db, actor: Actor, username: string) => Promise<Event[]>
  }
}

const maxNamed = 20

export function createUsers(dependencies: Dependencies): Users {
  const { db, publish, clock, settings, repositories, collaborators, trustRules } = dependencies
  const { oidcIssuer } = settings
  const issuer = oidcIssuer === undefined ? undefined : new URL(oidcIssuer).href

  return {
    list: async (page) => describeUsers(db, await listUsers(db, page)),

    async read(principal, username) {
      if (username !== principal.username) requirePermission(principal, 'admin')
      const row = await findUser(db, username)
      if (!row) throw notFound(username)
      return describeUser(db, row)
    },

    async describeCaller(principal) {
      const { kind, id, username, permissions, refs, expiresAt = null } = principal
      const row = await findUser(db, username)
      const ids = principal.repositories
      const names = ids && (await repositories.namesOf(principal, [...ids]))
      return {
        user: row ? await describeUser(db, row) : null,
        credential: {
          ...{ kind, id, username, expiresAt, permissions: [...permissions] },
          repositories: names ? [...names.values()].sort() : null,
          refs: refs ? [...refs] : null,
        },
      }
    },

    update: (principal, username, change) =>
      db.transaction().execute(async (tx) => {
        const { disabled, loginSubject, ...texts } = change
        if (disabled) refuseSelf(principal, username, 'disabled')
        const now = clock.now()
        const before = await lockUser(tx, username)
        if (!before) throw notFound(username)
        const disabledAt = disabled ? (before.disabledAt ?? now) : null
        const ended =
          loginSubject === undefined
            ? undefined
            : await linkLogin(tx, { username, issuer, subject: loginSubject, now })
        const wanted = {
          ...texts,
          ...(disabled === undefined ? {} : { disabledAt }),
          ...(ended && { source: loginSubject === '' ? 'token' : 'login' }),
          // A person who was gone stays out: linked again until the first login, unlinked until an admin enables the user.
          ...(ended &&
            loginSubject === '' &&
            before.loginEndedAt !== null && {
              loginEndedAt: null,
              ...(disabled === undefined && { disabledAt: before.disabledAt ?? now }),
            }),
        }
        const changed = Object.entries(wanted).filter(
          ([name, value]) => value !== undefined && value !== before[name as keyof UserRow],
        )
        if (changed.length === 0 && !ended) return describeUser(tx, before)
        const row = await updateUser(tx, username, { ...Object.fromEntries(changed), username })
        if (!row) throw notFound(username)
        if (row.disabledAt !== null) await deleteConsentsOf(tx, username)
        const names = changed.map(([name]) => (name === 'disabledAt' ? 'disabled' : name))
        await publish(tx, now, [
          ...(ended?.tokenIds ?? []).map((id) => tokenDeleted(principal, id)),
          userUpdated(principal, row, names, ended && { loginSubject, ...ended }),
        ])
        return describeUser(tx, row)
      }),

    remove: (principal, username) =>
      db.transaction().execute(async (tx) => {
        refuseSelf(principal, username, 'deleted')
        // First, since it makes new tokens and keys of the user wait.
        if (!(await deleteUser(tx, username))) throw notFound(username)
        const names = await repositories.namesOwnedBy(tx, username, maxNamed + 1)
        if (names.length > 0) throw ownsRepositories(username, names)
        const keyIds = await deleteKeysOf(tx, username)
        const tokenIds = await deleteTokensOf(tx, { username })
        await deleteSessionsOf(tx, username)
        await deleteLoginsOf(tx, username)
        const others = [
          ...(await trustRules.removeOf(tx, principal, username)),
          ...(await collaborators.removeUser(tx, principal, username)),
        ]
        await publish(tx, clock.now(), [
          ...others,
          ...keyIds.map((id) => keyDeleted(principal, id, username)),
          ...tokenIds.map((id) => tokenDeleted(principal, id)),
          { kind: 'user.deleted', actor: principal, repositoryId: null, data: { username } },
        ])
      }),
  }
}

async function describeUser(db: Db, row: UserRow): Promise<User> {
  const [user] = await describeUsers(db, [row])
  // One for each row.
  return user as User
}

/** Adds what the identity provider has said of users. */
async function describeUsers(db: Db, rows: UserRow[]): Promise<User[]> {
  if (rows.length === 0) return []
  const usernames = rows.map(({ username }) => username)
  const groups = Map.groupBy(await listGroupsOf(db, usernames), ({ username }) => username)
  const logins = new Map((await listLoginsOf(db, usernames)).map((row) => [row.username, row]))
  return rows.map((row) => ({
    ...row,
    disabled: row.disabledAt !== null,
    groups: (groups.get(row.username) ?? []).map(({ name }) => name),
    login: toLogin(logins.get(row.username)),
  }))
}

function toLogin(row: LoginRow | undefined): User['login'] {
  if (!row) return null
  const { issuer, subject, lastLoginAt, checkedAt } = row
  return { issuer, subject, lastLoginAt, checkedAt }
}

function userUpdated(
  actor: Actor,
  { username, disabledAt }: UserRow,
  fields: string[],
  linked: (GroupChange & { loginSubject: string | undefined }) | undefined,
) {
  const { changed = [], ...groups } = linked ? groupsInEvent(linked) : {}
  const data = {
    username,
    changed: [...fields, ...(linked ? ['loginSubject'] : []), ...changed],
    disabled: disabledAt !== null,
    loginSubject: linked?.loginSubject,
    ...groups,
  }
  return { kind: 'user.updated', actor, repositoryId: null, data } as const
}

function refuseSelf(principal: Principal, username: string, change: string): void {
  if (principal.kind === 'local' || principal.username !== username) return
  throw new Problem('user_in_use', `You are "${username}"; another admin can have you ${change}.`)
}

function notFound(username: string): Problem {
  return new Problem('user_not_found', `No token or key has had the username "${username}".`)
}

function ownsRepositories(username: string, names: readonly string[]): Problem {
  const more = names.length > maxNamed ? ', and more' : ''
  return new Problem(
    'user_owns_repositories',
    `"${username}" owns ${names.slice(0, maxNamed).join(', ')}${more}. Transfer them to others, or delete and purge them first; or disable the user instead.`,
  )
}
