import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import type { Log } from '#base/log.ts'
import { hashSecret, isSecret, newSecret } from '#base/secret-string.ts'
import type { Database } from '#database/database.ts'
import type { LoginRow } from '#database/schema.ts'
import type { Publish } from '#events/events.ts'
import type { Session, Sessions } from '../sessions/sessions.ts'
import { type IdentityProvider, refusedLogin } from './identity-provider.ts'
import {
  deleteOldAttempts,
  insertLoginAttempt,
  leaseLogin,
  listDueLogins,
  takeAttempt,
  updateLogin,
} from './login-store.ts'
import { createPeople, type People } from './people.ts'
import type { GroupRules } from './person.ts'
import type { SealTokens } from './sealed-tokens.ts'

/** How a login goes on: to a page, with the principal of a new session, or with a session that is confirmed. */
type CompletedLogin = { next: string } & (
  | { principal: Principal; endsAt: number | undefined }
  | { confirmed: true }
)

/** Logins of people by the identity provider of the settings. */
export type Logins = {
  /** The name by which people know the provider. */
  name: string
  /**
   * Begins a login: the browser goes to the address with a cookie that has the secret. `session` is one that it confirms.
   * Throws `provider_unavailable`.
   */
  begin: (login: {
    redirectUri: string
    next: string
    browserSecret: string | undefined
    session?: Session | undefined
  }) => Promise<{ address: string; browserSecret: string }>
  /**
   * Completes the login of a browser that came back. The first one makes the user. Throws `login_refused` and
   * `provider_unavailable`.
   */
  complete: (login: {
    callback: URL
    browserSecrets: readonly string[]
    session: Session | undefined
    caller: Principal
  }) => Promise<CompletedLogin>
  /** The address at which a browser logs out of the provider, too; undefined if there is none. */
  logoutAddress: (returnTo: string) => Promise<string | undefined>
  /** Reads the groups of people whose turn it is, and ends the logins of those who have left. */
  checkDue: (signal?: AbortSignal) => Promise<void>
}

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  log: Log
  provider: IdentityProvider
  rules: GroupRules
  sessions: Pick<Sessions, 'unlock'>
  sealTokens: SealTokens
}

/** How long a person may take at the provider. */
export const attemptMs = 10 * 60_000
const checkIntervalMs = 15 * 60_000
/** Of a check that a node has begun, or that failed. */
const retryMs = 5 * 60_000
/** How long a provider may be down before logins end. */
const graceMs = 24 * 60 * 60_000
/** How long a session lasts of a login that cannot be checked. */
const uncheckedMs = 12 * 60 * 60_000
const checksAtOnce = 20

export function createLogins(dependencies: Dependencies): Logins {
  const { db, clock, log, provider, sessions, sealTokens } = dependencies
  const { issuer } = provider
  const people: People = createPeople(dependencies)

  /** Keeps a new refresh token, and says when it is used. */
  async function nextCheck(login: LoginRow, refreshToken: string | undefined) {
    const now = clock.now()
    const sealed = refreshToken && (await sealTokens.seal(login.id, refreshToken))
    return { refreshToken: sealed || null, nextCheckAt: sealed ? now + checkIntervalMs : null }
  }

  async function check(login: LoginRow): Promise<void> {
    const refreshToken = login.refreshToken && (await sealTokens.open(login.id, login.refreshToken))
    const answer = refreshToken
      ? await provider.recheck({ subject: login.subject, refreshToken })
      : undefined
    const { subject } = login
    if (answer === undefined) return people.end(subject, 'the identity provider ended the login')
    // First: a provider may accept each refresh token only once.
    await updateLogin(
      db,
      login.id,
      await nextCheck(login, answer.refreshToken ?? refreshToken ?? undefined),
    )
    await people.update(answer.person)
  }

  async function checkOne(login: LoginRow): Promise<void> {
    const now = clock.now()
    if (!(await leaseLogin(db, login, now + retryMs))) return
    try {
      await check(login)
    } catch (err) {
      const { username, checkedAt } = login
      log.warn({ err, username }, 'groups of a user not read')
      if (now - (checkedAt ?? 0) < graceMs) return
      await people.end(login.subject, 'the identity provider has not responded for a day')
    }
  }

  return {
    name: provider.name,
    logoutAddress: provider.logoutAddress,

    async begin({ redirectUri, next, browserSecret: known = '', session }) {
      const browserSecret = isSecret(known) ? known : newSecret()
      const secrets = { state: newSecret(), nonce: newSecret(), codeVerifier: newSecret() }
      const isFresh = session !== undefined
      const address = await provider.addressOf(secrets, { redirectUri, isFresh })
      const { state, ...kept } = secrets
      const hashes = { stateHash: hashSecret(state), browserHash: hashSecret(browserSecret) }
      const expiresAt = clock.now() + attemptMs
      const sessionId = session?.id ?? null
      await insertLoginAttempt(db, { ...hashes, ...kept, sessionId, next, expiresAt })
      return { address, browserSecret }
    },

    async complete({ callback, browserSecrets, session, caller }) {
      const state = callback.searchParams.get('state') ?? ''
      const attempt = isSecret(state) ? await takeAttempt(db, hashSecret(state)) : undefined
      const isOwn = browserSecrets.map(hashSecret).includes(attempt?.browserHash ?? '')
      if (!attempt || !isOwn || attempt.expiresAt <= clock.now()) throw notBegun()
      const { nonce, codeVerifier, sessionId, next } = attempt
      const isFresh = sessionId !== null
      const secrets = { state, nonce, codeVerifier }
      const { person, refreshToken } = await provider.complete(callback, secrets, { isFresh })
      if (isFresh) {
        const login = await people.find(person)
        const isSame = login !== undefined && login.id === caller.loginId
        if (session?.id !== sessionId || !isSame) throw otherPerson(caller.username)
        await sessions.unlock(session)
        return { next, confirmed: true }
      }
      const { login, principal } = await people.admit(person, caller)
      const checked = await nextCheck(login, refreshToken)
      // One of an earlier login is still good for its sessions.
      if (checked.refreshToken !== null || login.refreshToken === null)
        await updateLogin(db, login.id, checked)
      const endsAt = checked.nextCheckAt === null ? clock.now() + uncheckedMs : undefined
      return { next, principal, endsAt }
    },

    async checkDue(signal) {
      const now = clock.now()
      await deleteOldAttempts(db, now)
      // In order, and the rest with the next turn: a provider limits requests.
      for (const login of await listDueLogins(db, { issuer, now, limit: checksAtOnce })) {
        if (signal?.aborted) return
        await checkOne(login)
      }
    },
  }
}

function notBegun() {
  return refusedLogin(
    'This login was not begun in this browser, is complete already, or took longer than ten minutes. Log in again.',
  )
}

function otherPerson(username: string) {
  return refusedLogin(
    `Only the person who is logged in as "${username}", in the same session, can confirm the change.`,
  )
}
