import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import type { Log } from '#base/log.ts'
import { hashSecret, isSecret, newSecret } from '#base/secret-string.ts'
import type { Database } from '#database/database.ts'
import type { LoginRow } from '#database/schema.ts'
import type { RecordRefusal } from '#events/audit/record-refusal.ts'
import type { Publish } from '#events/events.ts'
import type { Session, Sessions } from '../sessions/sessions.ts'
import { type IdentityProvider, refusedLogin } from './identity-provider.ts'
import {
  continueCheck,
  deleteOldAttempts,
  insertLoginAttempt,
  listDueLogins,
  takeAttempt,
} from './login-store.ts'
import { createPeople, type People } from './people.ts'
import type { GroupRules } from './person.ts'
import type { SealTokens } from './sealed-tokens.ts'

/** How a login goes on: to a page, with the principal of a new session, or with a session that is confirmed. */
type CompletedLogin = { next: string } & ({ principal: Principal } | { confirmed: true })

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
  recordRefusal: RecordRefusal
  sessions: Pick<Sessions, 'unlock'>
  sealTokens: () => Promise<SealTokens>
}

/** How long a person may take at the provider. */
export const attemptMs = 10 * 60_000
const checkIntervalMs = 15 * 60_000
/** Of a check that a node has begun, or that failed. */
const retryMs = 5 * 60_000
/** How long a provider may be down before logins end. */
const graceMs = 24 * 60 * 60_000
const checksInBatch = 100
const maxConcurrentChecks = 8

export function createLogins(dependencies: Dependencies): Logins {
  const { db, clock, log, provider, sessions, sealTokens } = dependencies
  const { issuer } = provider
  const people: People = createPeople(dependencies)

  async function check(login: LoginRow): Promise<void> {
    const { id, subject } = login
    const { seal, open } = await sealTokens()
    const refreshToken = login.refreshToken && open(id, login.refreshToken)
    const answer = refreshToken ? await provider.recheck({ subject, refreshToken }) : undefined
    if (answer === undefined) return people.end(login, 'the identity provider ended the login')
    // First: a provider may accept each refresh token only once.
    const nextCheckAt = clock.now() + checkIntervalMs
    const renewed = answer.refreshToken === undefined ? null : seal(id, answer.refreshToken)
    const next = { nextCheckAt, ...(renewed && { refreshToken: renewed }) }
    if (await continueCheck(db, login, next))
      await people.update({ ...login, nextCheckAt }, answer.person)
  }

  /** Checks a login that is due, unless another node does; returns whether the provider has responded. */
  async function checkOne(due: LoginRow): Promise<boolean> {
    const now = clock.now()
    const login = { ...due, nextCheckAt: now + retryMs }
    if (!(await continueCheck(db, due, { nextCheckAt: login.nextCheckAt }))) return true
    try {
      await check(login)
      return true
    } catch (err) {
      const { username, failingSince } = login
      log.warn({ err, username }, 'groups of a user not read')
      if (failingSince === null) await continueCheck(db, login, { failingSince: now })
      else if (now - failingSince >= graceMs)
        await people.end(login, 'the identity provider has not responded for a day')
      return false
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
      const { seal } = await sealTokens()
      const principal = await people.admit(person, caller, ({ id }) => {
        const sealed = refreshToken === undefined ? undefined : seal(id, refreshToken)
        return sealed ? { refreshToken: sealed, nextCheckAt: clock.now() + checkIntervalMs } : null
      })
      return { next, principal }
    },

    async checkDue(signal) {
      await deleteOldAttempts(db, clock.now())
      for (;;) {
        const due = await listDueLogins(db, { issuer, now: clock.now(), limit: checksInBatch })
        let responded = 0
        // A few at a time: a provider limits requests.
        await forEachConcurrently(maxConcurrentChecks, due, async (login) => {
          if (!signal?.aborted && (await checkOne(login))) responded++
        })
        // The rest with the next turn, if the provider is down.
        if (due.length < checksInBatch || responded === 0) return
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
