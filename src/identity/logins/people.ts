import { isUsername, usernameForm } from '#access/names.ts'
import { presets } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import { shellWord } from '#base/shell-word.ts'
import type { Database } from '#database/database.ts'
import type { Db, LoginRow, TokenRow, UserRow } from '#database/schema.ts'
import type { RecordRefusal } from '#events/audit/record-refusal.ts'
import type { Actor, Event, Publish } from '#events/events.ts'
import { newTokenRow, tokenCreated, tokenDeleted, toPrincipal } from '../tokens/token-rows.ts'
import {
  deleteTokensOf,
  demoteTokensOf,
  findLoginToken,
  insertToken,
  updateToken,
} from '../tokens/token-store.ts'
import {
  countUsersLike,
  findUser,
  insertUser,
  lockUser,
  newUser,
  updateUser,
} from '../user-store.ts'
import { deleteConsentsOf } from './cli-login-store.ts'
import { type IdentityProvider, refusedLogin } from './identity-provider.ts'
import {
  findLogin,
  type GroupChange,
  insertLogin,
  type LoginCheck,
  listForeignLogins,
  lockLogin,
  replaceGroups,
  updateLogin,
} from './login-store.ts'
import { type GroupRules, type Person, standingOf } from './person.ts'

/** Who may log in, and with which rights: what a person is at the provider becomes a user here. */
export type People = {
  /** Finds the login of a person; undefined before the first one. */
  find: (person: Person) => Promise<LoginRow | undefined>
  /**
   * Lets a person in: creates the user at the first login, and takes over names and groups. Throws `login_refused`, in
   * words for the person.
   */
  admit: (person: Person, actor: Actor, checkOf: CheckOf) => Promise<Principal>
  /** Takes over names and groups of a person who is logged in, and ends the login if they may no longer. */
  update: (login: LoginCheck, person: Person) => Promise<void>
  /** Ends a login: with its tokens and sessions, and until the next one with everything of the user. */
  end: (login: LoginCheck, reason: string) => Promise<void>
}

/** How a login is checked from now on; null without a refresh token. */
type CheckOf = (
  login: Pick<LoginRow, 'id'>,
) => Pick<LoginRow, 'refreshToken' | 'nextCheckAt'> | null

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  log: Log
  provider: Pick<IdentityProvider, 'issuer' | 'name'>
  rules: GroupRules
  recordRefusal: RecordRefusal
}

// A runner gets the runs of all repositories with their secrets, and metrics are of all: no login has these permissions.
const everything = presets.everything
  .filter((permission) => permission !== 'runner' && permission !== 'metrics:read')
  .join(' ')

/** How long sessions and tokens of a login last that cannot be checked. */
const uncheckedMs = 12 * 60 * 60_000

const shownGroups = 10

const server: Actor = { id: 'server', username: '' }

export function createPeople(dependencies: Dependencies): People {
  const { db, publish, clock, log, provider, rules, recordRefusal } = dependencies
  const { issuer } = provider

  /** Creates the user and the login of a person who was never here, unless another first login of theirs just did. */
  async function create(tx: Db, person: Person, now: number): Promise<LoginRow> {
    const username = newUsername(person)
    if (!(await insertUser(tx, newUser(username, now)))) {
      const created = await lockLogin(tx, { issuer, subject: person.subject })
      if (created) return created
      throw usernameTaken(person, username)
    }
    const login = newLogin({ username, issuer, subject: person.subject }, now)
    if (!(await insertLogin(tx, login))) throw concurrent()
    return login
  }

  /** Takes over what the provider says of a person. Returns the token of the sessions. */
  async function takeOver(
    tx: Db,
    { login, person, isAdmin }: { login: LoginRow; person: Person; isAdmin: boolean },
    actor: Actor,
  ): Promise<TokenRow> {
    const now = clock.now()
    const { id, username } = login
    const { displayName, email, groups } = person
    const before = await findUser(tx, username)
    const wanted = { displayName, email, source: 'login', loginEndedAt: null } as const
    const user = await updateUser(tx, username, wanted)
    if (!before || !user) throw concurrent()
    await updateLogin(tx, id, { isAdmin: Number(isAdmin), checkedAt: now, failingSince: null })
    const groupChange = await replaceGroups(tx, username, groups)
    const permissions = isAdmin ? `${everything} admin` : everything
    if (!isAdmin) await demoteTokensOf(tx, id, permissions)
    const known = await findLoginToken(tx, id)
    const expiresAt = login.refreshToken === null ? now + uncheckedMs : null
    const token = { ...(known ?? newLoginToken(login, now)), permissions, expiresAt }
    if (known) await updateToken(tx, token.id, { permissions, expiresAt })
    else await insertToken(tx, token)
    const admin = isAdmin === Boolean(login.isAdmin) ? undefined : isAdmin
    const change = { changed: changesOf(before, wanted), admin, ...groupChange }
    await publish(tx, now, [
      ...(known ? [] : [tokenCreated(actor, token)]),
      ...userChanged(actor, user, change),
    ])
    return token
  }

  const endIn = (tx: Db, login: LoginRow) => endLogin(tx, login, { publish, now: clock.now() })

  /** The login, locked, unless it has ended or was taken over since it was read. */
  async function lockChecked(tx: Db, { nextCheckAt, ...identity }: LoginCheck) {
    const login = await lockLogin(tx, identity)
    return login?.nextCheckAt === nextCheckAt ? login : undefined
  }

  return {
    find: ({ subject }) => findLogin(db, { issuer, subject }),

    async admit(person, { origin }, checkOf) {
      const { subject } = person
      const { isAllowed, isAdmin } = standingOf(person, rules)
      const now = clock.now()
      const admitted = db.transaction().execute(async (tx) => {
        const known = await lockLogin(tx, { issuer, subject })
        if (!isAllowed) {
          if (known) await endIn(tx, known)
          return notAllowed(provider, person)
        }
        const before = known ?? (await create(tx, person, now))
        const { username } = before
        if ((await lockUser(tx, username))?.disabledAt != null) return disabled(username)
        const actor = { id: before.id, username, origin }
        // A refresh token of an earlier login is still good.
        const login = { ...before, ...checkOf(before) }
        const token = await takeOver(tx, { login, person, isAdmin }, actor)
        // After publishing, which serializes concurrent logins: their rows are visible now.
        if (!known && (await countUsersLike(tx, username)) > 1)
          throw usernameTaken(person, username)
        const { refreshToken, nextCheckAt } = login
        await updateLogin(tx, login.id, { lastLoginAt: now, refreshToken, nextCheckAt })
        await updateUser(tx, username, { lastSeenAt: now })
        return toPrincipal(token)
      })
      const result = await admitted.catch((error) => {
        if (error instanceof Problem && error.code === 'login_refused') return error
        throw error
      })
      if (!(result instanceof Problem)) return result
      const reason = result.message
      log.info({ issuer, subject, reason }, 'login refused')
      const actor = { id: 'anonymous', username: '', origin }
      const data = { issuer, subject, reason }
      await recordRefusal(`login ${subject}`, {
        ...{ action: 'login.refused', actor, repositoryId: null, data },
      })
      throw result
    },

    update: (checked, person) =>
      db.transaction().execute(async (tx) => {
        const { isAllowed, isAdmin } = standingOf(person, rules)
        const login = await lockChecked(tx, checked)
        if (!login) return
        if (isAllowed) await takeOver(tx, { login, person, isAdmin }, server)
        else await endIn(tx, login)
      }),

    async end(checked, reason) {
      const isEnded = await db.transaction().execute(async (tx) => {
        const login = await lockChecked(tx, checked)
        if (login) await endIn(tx, login)
        return login !== undefined
      })
      if (isEnded) log.info({ issuer, subject: checked.subject, reason }, 'login ended')
    },
  }
}

/** Ends a login in a transaction that has locked it. */
async function endLogin(
  tx: Db,
  { id, username, isAdmin }: LoginRow,
  { publish, now }: { publish: Publish; now: number },
): Promise<void> {
  const user = await updateUser(tx, username, { loginEndedAt: now })
  await deleteConsentsOf(tx, username)
  await updateLogin(tx, id, { isAdmin: 0, refreshToken: null, nextCheckAt: null })
  const groupChange = await replaceGroups(tx, username, [])
  const tokenIds = await deleteTokensOf(tx, { loginId: id })
  const admin = isAdmin ? false : undefined
  await publish(tx, now, [
    ...tokenIds.map((tokenId) => tokenDeleted(server, tokenId)),
    ...(user
      ? userChanged(server, user, { changed: ['loginEndedAt'], admin, ...groupChange })
      : []),
  ])
}

const endedAtOnce = 100

/**
 * Ends all logins at another issuer than that of the settings, which is undefined for none: it would never say that their
 * people have left. Returns how many.
 */
export async function endForeignLogins(
  { db, publish, clock }: Pick<Dependencies, 'db' | 'publish' | 'clock'>,
  configured: string | undefined,
): Promise<number> {
  const issuer = configured === undefined ? undefined : new URL(configured).href
  for (let ended = 0; ; ) {
    const listed = await listForeignLogins(db, { issuer, limit: endedAtOnce })
    for (const login of listed) {
      await db.transaction().execute(async (tx) => {
        const locked = await lockLogin(tx, login)
        if (locked) await endLogin(tx, locked, { publish, now: clock.now() })
      })
    }
    ended += listed.length
    if (listed.length < endedAtOnce) return ended
  }
}

export function newLogin(
  identity: Pick<LoginRow, 'username' | 'issuer' | 'subject'>,
  now: number,
): LoginRow {
  return {
    ...{ id: newId(now), ...identity, isAdmin: 0, createdAt: now },
    ...{ lastLoginAt: null, checkedAt: null, nextCheckAt: null, refreshToken: null },
    failingSince: null,
  }
}

/** The token of the sessions of a login. It has no string: no text has this hash. */
function newLoginToken({ id, username }: LoginRow, now: number): TokenRow {
  const limits = { repositories: null, refs: null, expiresAt: null, delegatedFrom: undefined }
  const parts = { name: 'login', username, permissions: [], createdAt: now, loginId: id }
  return { ...newTokenRow({ ...parts, ...limits }).row, tokenHash: `login ${id}` }
}

function changesOf(before: UserRow, after: Partial<UserRow>): string[] {
  const shown = ['displayName', 'email', 'loginEndedAt'] as const
  return shown.filter((name) => before[name] !== after[name])
}

const maxGroupsInEvent = 100

/** A change of groups as the event of a user has it. */
export function groupsInEvent({ addedGroups, removedGroups }: GroupChange) {
  const [added, removed] = [addedGroups, removedGroups].map((names) =>
    names.length > 0 ? names.slice(0, maxGroupsInEvent) : undefined,
  )
  return {
    changed: added || removed ? ['groups'] : [],
    addedGroups: added,
    removedGroups: removed,
  }
}

/** The event of what the provider has changed of a user, if that is anything. */
function userChanged(
  actor: Actor,
  { username, disabledAt }: UserRow,
  change: GroupChange & { changed: string[]; admin: boolean | undefined },
): Extract<Event, { kind: 'user.updated' }>[] {
  const { admin } = change
  const { changed: groupsChanged, ...groups } = groupsInEvent(change)
  const changed = [...change.changed, ...(admin === undefined ? [] : ['admin']), ...groupsChanged]
  if (changed.length === 0) return []
  const data = { username, changed, disabled: disabledAt !== null, admin, ...groups }
  return [{ kind: 'user.updated', actor, repositoryId: null, data }]
}

/** The username of a new user. It is never made up or changed: it would look like another one. */
function newUsername({ username }: Person): string {
  if (username === undefined) {
    throw refusedLogin(
      'The identity provider does not say which username you have; an administrator can choose another claim with SVC_OIDC_USERNAME_CLAIM.',
    )
  }
  if (isUsername(username)) return username
  throw refusedLogin(
    `Your username at the identity provider, ${JSON.stringify(username.slice(0, 100))}, cannot be one here: usernames are ${usernameForm}. An administrator can change it there, or choose another claim with SVC_OIDC_USERNAME_CLAIM.`,
  )
}

/** With the person's own `sub`, by which an administrator can link both. */
function usernameTaken({ subject }: Person, username: string): Problem {
  return refusedLogin(
    `The username "${username}" is that of another user here, or differs from it only in upper and lower case. If that user is you, an administrator can link it with your login: svc users update NAME --login-subject ${shellWord(subject)}`,
  )
}

function disabled(username: string): Problem {
  return refusedLogin(`The user "${username}" is disabled; an administrator can enable it again.`)
}

function notAllowed({ name }: Pick<IdentityProvider, 'name'>, { groups }: Person): Problem {
  if (groups.length === 0)
    return refusedLogin(
      `${name} names no groups of yours, and only members of some may log in here. If you are in one, an administrator of this service can check that ${name} sends the claim of SVC_OIDC_GROUPS_CLAIM.`,
    )
  return refusedLogin(
    `You are in none of the groups at ${name} whose members may log in here, but in ${listed(groups)}; an administrator of ${name} can add you to one.`,
  )
}

function listed(groups: string[]): string {
  const shown = groups.slice(0, shownGroups).map((name) => `"${name}"`)
  return groups.length > shownGroups ? `${shown.join(', ')} and others` : shown.join(', ')
}

function concurrent(): Problem {
  return refusedLogin('You were logging in twice at the same time. Log in again.')
}
