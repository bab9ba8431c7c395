import { isUsername, usernameForm } from '#access/names.ts'
import { presets } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import type { Log } from '#base/log.ts'
import type { Problem } from '#base/problem.ts'
import { shellWord } from '#base/shell-word.ts'
import type { Database } from '#database/database.ts'
import type { Db, LoginRow, TokenRow, UserRow } from '#database/schema.ts'
import type { Actor, Event, Publish } from '#events/events.ts'
import { newTokenRow, tokenCreated, tokenDeleted, toPrincipal } from '../tokens/token-rows.ts'
import {
  deleteTokensOf,
  demoteTokensOf,
  findLoginToken,
  insertToken,
  updatePermissions,
} from '../tokens/token-store.ts'
import {
  countUsersLike,
  findUser,
  insertUser,
  lockUser,
  newUser,
  updateUser,
} from '../user-store.ts'
import { type IdentityProvider, refusedLogin } from './identity-provider.ts'
import { findLogin, insertLogin, lockLogin, replaceGroups, updateLogin } from './login-store.ts'
import { type GroupRules, type Person, standingOf } from './person.ts'

/** Who may log in, and with which rights: what a person is at the provider becomes a user here. */
export type People = {
  /** Finds the login of a person; undefined before the first one. */
  find: (person: Person) => Promise<LoginRow | undefined>
  /**
   * Lets a person in: creates the user at the first login, and takes over names and groups. Throws `login_refused`, in
   * words for the person.
   */
  admit: (person: Person, actor: Actor) => Promise<{ login: LoginRow; principal: Principal }>
  /** Takes over names and groups of a person who is logged in, and ends the login if they may no longer. */
  update: (person: Person) => Promise<void>
  /** Ends the login of a person: with its tokens and sessions, and until the next one with everything of the user. */
  end: (subject: string, reason: string) => Promise<void>
}

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  log: Log
  provider: Pick<IdentityProvider, 'issuer' | 'name'>
  rules: GroupRules
}

// A runner gets the runs of all repositories with their secrets, and metrics are of all: no login has these permissions.
const everything = presets.everything
  .filter((permission) => permission !== 'runner' && permission !== 'metrics:read')
  .join(' ')

export function createPeople(dependencies: Dependencies): People {
  const { db, publish, clock, log, provider, rules } = dependencies
  const { issuer } = provider
  const server: Actor = { id: 'server', username: '' }

  /** Creates the user and the login of a person who was never here. */
  async function create(tx: Db, person: Person, now: number): Promise<LoginRow> {
    const username = newUsername(person)
    if (!(await insertUser(tx, newUser(username, now)))) throw usernameTaken(person, username)
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
    const user = await updateUser(tx, username, { ...wanted, lastSeenAt: now })
    if (!before || !user) throw concurrent()
    await updateLogin(tx, id, { isAdmin: Number(isAdmin), checkedAt: now })
    await replaceGroups(tx, username, groups)
    const permissions = isAdmin ? `${everything} admin` : everything
    if (!isAdmin) await demoteTokensOf(tx, id, permissions)
    const known = await findLoginToken(tx, id)
    const token = known ?? newLoginToken(login, now)
    if (known) await updatePermissions(tx, token.id, permissions)
    else await insertToken(tx, { ...token, permissions })
    const changed = changesOf(before, wanted)
    await publish(tx, now, [
      ...(known ? [] : [tokenCreated(actor, { ...token, permissions })]),
      ...(changed.length > 0 ? [userChanged(actor, user, changed)] : []),
    ])
    return { ...token, permissions }
  }

  async function endIn(tx: Db, login: LoginRow): Promise<void> {
    const now = clock.now()
    const { id, username } = login
    const user = await updateUser(tx, username, { loginEndedAt: now })
    await updateLogin(tx, id, { isAdmin: 0, refreshToken: null, nextCheckAt: null })
    await replaceGroups(tx, username, [])
    const tokenIds = await deleteTokensOf(tx, { loginId: id })
    await publish(tx, now, [
      ...tokenIds.map((tokenId) => tokenDeleted(server, tokenId)),
      ...(user ? [userChanged(server, user, ['loginEndedAt'])] : []),
    ])
  }

  return {
    find: ({ subject }) => findLogin(db, { issuer, subject }),

    async admit(person, { origin }) {
      const { subject } = person
      const { isAllowed, isAdmin } = standingOf(person, rules)
      const now = clock.now()
      const result = await db.transaction().execute(async (tx) => {
        const known = await lockLogin(tx, { issuer, subject })
        if (!isAllowed) {
          if (known) await endIn(tx, known)
          return notAllowed(provider)
        }
        const login = known ?? (await create(tx, person, now))
        const { username } = login
        if ((await lockUser(tx, username))?.disabledAt != null) return disabled(username)
        const actor = { id: login.id, username, origin }
        const token = await takeOver(tx, { login, person, isAdmin }, actor)
        // After publishing, which serializes concurrent logins: their rows are visible now.
        if (!known && (await countUsersLike(tx, username)) > 1)
          throw usernameTaken(person, username)
        await updateLogin(tx, login.id, { lastLoginAt: now })
        return { login, principal: toPrincipal(token) }
      })
      if (result instanceof Error) {
        log.info({ issuer, subject, reason: result.message }, 'login refused')
        throw result
      }
      return result
    },

    update: (person) =>
      db.transaction().execute(async (tx) => {
        const { isAllowed, isAdmin } = standingOf(person, rules)
        const login = await lockLogin(tx, { issuer, subject: person.subject })
        // It ended since it was read.
        if (!login || login.nextCheckAt === null) return
        if (isAllowed) await takeOver(tx, { login, person, isAdmin }, server)
        else await endIn(tx, login)
      }),

    async end(subject, reason) {
      await db.transaction().execute(async (tx) => {
        const login = await lockLogin(tx, { issuer, subject })
        if (login) await endIn(tx, login)
      })
      log.info({ issuer, subject, reason }, 'login ended')
    },
  }
}

export function newLogin(
  identity: Pick<LoginRow, 'username' | 'issuer' | 'subject'>,
  now: number,
): LoginRow {
  return {
    ...{ id: newId(now), ...identity, isAdmin: 0, createdAt: now },
    ...{ lastLoginAt: null, checkedAt: null, nextCheckAt: null, refreshToken: null },
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

function userChanged(
  actor: Actor,
  { username, disabledAt }: UserRow,
  changed: string[],
): Extract<Event, { kind: 'user.updated' }> {
  const data = { username, changed, disabled: disabledAt !== null }
  return { kind: 'user.updated', actor, repositoryId: null, data }
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

function notAllowed({ name }: Pick<IdentityProvider, 'name'>): Problem {
  return refusedLogin(
    `You are in none of the groups at ${name} whose members may log in here; an administrator of ${name} can add you to one.`,
  )
}

function concurrent(): Problem {
  return refusedLogin('You were logging in twice at the same time. Log in again.')
}
