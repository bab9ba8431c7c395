import { credentialEnded, hasAllUserRights } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { type Clock, dayMs } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import { createLastUsed } from '#base/last-used.ts'
import type { Log } from '#base/log.ts'
import { hashSecret, isSecret, newSecret } from '#base/secret-string.ts'
import type { Database } from '#database/database.ts'
import type { Db, LoginCodeRow, SessionRow } from '#database/schema.ts'
import { type LoginMeans, recordActions } from '#events/audit/record.ts'
import { lockSshKey } from '../ssh-keys/ssh-key-store.ts'
import { lockPrincipal } from '../tokens/lock-principal.ts'
import {
  deleteEndedSessions,
  deleteOtherSessions,
  deleteSession,
  findLoginCode,
  findSessionByHash,
  insertLoginCode,
  insertSession,
  listSessionsOf,
  type SessionHolder,
  takeLoginCode,
  updateSession,
} from './session-store.ts'

/** A session as its user sees it. */
export type Session = Omit<SessionRow, 'secretHash'> & {
  /** Of an open session: the login at the identity provider by which it is confirmed. */
  loginId?: string | undefined
}

/** A session with the current state of its token or key. */
export type OpenSession = { session: Session; principal: Principal }

type NewSession = {
  /** How the person logged in, for the audit log. */
  means: LoginMeans
}

/** Sessions of people who use the pages: each has the rights of a token or an SSH key, and ends with it. */
export type Sessions = {
  /** Creates a session. Its secret is only in this result; it is unlocked for changes. */
  create: (
    principal: Principal,
    userAgent: string,
    options: NewSession,
  ) => Promise<{ secret: string; session: Session }>
  /** Returns the session of a secret; undefined if it is unknown or expired, or its token or key is gone. */
  open: (secret: string) => Promise<OpenSession | undefined>
  /** Allows a session to change something for an hour. */
  unlock: (session: Session) => Promise<void>
  /**
   * Lists the sessions of the caller's username, newest first. An SSH key, or a token that is limited or was delegated,
   * gets only its own sessions.
   */
  list: (principal: Principal) => Promise<Session[]>
  /** Ends a session that `list` returns to the caller; returns whether it existed. */
  end: (principal: Principal, id: string) => Promise<boolean>
  /** Ends all sessions that `list` returns to the caller, except `id`. */
  endOthers: (principal: Principal, id: string) => Promise<void>
  /** Creates a code with which a browser logs in as the principal, once, within `lifetimeMs` (a minute by default). */
  createCode: (
    principal: Principal,
    lifetimeMs?: number,
  ) => Promise<{ code: string; expiresAt: number }>
  /** Returns the principal of a code without using it up; undefined if it is unknown, used or expired. */
  peekCode: (code: string) => Promise<Principal | undefined>
  /** Returns the principal of a code and uses it up; undefined if it is unknown, used or expired. */
  redeemCode: (code: string) => Promise<Principal | undefined>
  /** Deletes sessions and codes that have ended. */
  prune: () => Promise<void>
}

type Dependencies = {
  db: Database
  clock: Clock
  log: Log
  /** Reads a principal again; undefined when its token or key was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
}

const sessionLifetimeMs = 30 * dayMs
const idleTimeoutMs = 7 * dayMs
/** How long a session can make changes after the login, or after its user has entered the token again. */
export const unlockedMs = 60 * 60 * 1000
const codeLifetimeMs = 60_000
const userAgentMaxLength = 300

/** Creates the sessions of a database. Only hashes of secrets and codes are stored. */
export function createSessions({ db, clock, log, refresh }: Dependencies): Sessions {
  const noteSeen = createLastUsed({
    clock,
    write: (id, at) => updateSession(db, id, { seenAt: at }),
    onError: (err, sessionId) => log.warn({ err, sessionId }, 'last use of a session not recorded'),
  })

  /** The current principal of a token or key. */
  function principalOf({
    tokenId,
    sshKeyId,
  }: Pick<LoginCodeRow, 'tokenId' | 'sshKeyId'>): Promise<Principal | undefined> {
    const kind = tokenId === null ? 'ssh-key' : 'token'
    const id = tokenId ?? sshKeyId ?? ''
    return refresh({ kind, id, username: '', permissions: new Set() })
  }

  async function holderOf(code: LoginCodeRow | undefined): Promise<Principal | undefined> {
    return code && code.expiresAt > clock.now() ? principalOf(code) : undefined
  }

  /** Prevents the end of a token or key until the transaction ends. Throws `token_invalid` if it is over. */
  async function lockHolder(tx: Db, principal: Principal): Promise<void> {
    if (principal.kind !== 'ssh-key') await lockPrincipal(tx, principal, clock.now())
    else if (!(await lockSshKey(tx, principal, clock.now()))) throw credentialEnded('SSH key')
  }

  function recordEnd(tx: Db, actor: Principal, data: { sessionId: string | null; count: number }) {
    const action = { action: 'session.ended', actor, repositoryId: null, data } as const
    return recordActions(tx, clock.now(), [action])
  }

  return {
    async create(principal, userAgent, { means }) {
      const secret = newSecret()
      const now = clock.now()
      const session = {
        id: newId(),
        ...holderColumns(principal),
        username: principal.username,
        userAgent: userAgent.slice(0, userAgentMaxLength),
        createdAt: now,
        seenAt: now,
        expiresAt: Math.min(
          now + sessionLifetimeMs,
          principal.expiresAt ?? Number.POSITIVE_INFINITY,
        ),
        unlockedUntil: now + unlockedMs,
      }
      const { id: sessionId, expiresAt } = session
      const data = { sessionId, userAgent: session.userAgent, expiresAt, means }
      await db.transaction().execute(async (tx) => {
        await lockHolder(tx, principal)
        await insertSession(tx, { ...session, secretHash: hashSecret(secret) })
        const action = { action: 'session.created', actor: principal, repositoryId: null } as const
        await recordActions(tx, now, [{ ...action, data }])
      })
      return { secret, session }
    },

    async open(secret) {
      if (!isSecret(secret)) return undefined
      const row = await findSessionByHash(db, hashSecret(secret))
      const now = clock.now()
      if (!row || row.expiresAt <= now || row.seenAt + idleTimeoutMs <= now) return undefined
      const principal = await principalOf(row)
      if (!principal) return undefined
      noteSeen({ id: row.id, lastUsedAt: row.seenAt })
      const { secretHash: _, ...session } = row
      return { session: { ...session, loginId: principal.loginId }, principal }
    },

    async unlock({ id }) {
      await updateSession(db, id, { unlockedUntil: clock.now() + unlockedMs })
    },

    async list(principal) {
      const rows = await listSessionsOf(db, reachOf(principal), { now: clock.now(), idleTimeoutMs })
      return rows.map(({ secretHash: _, ...session }) => session)
    },

    end: (principal, id) =>
      db.transaction().execute(async (tx) => {
        const isEnded = await deleteSession(tx, reachOf(principal), id)
        if (isEnded) await recordEnd(tx, principal, { sessionId: id, count: 1 })
        return isEnded
      }),

    endOthers: (principal, id) =>
      db.transaction().execute(async (tx) => {
        const count = await deleteOtherSessions(tx, reachOf(principal), id)
        if (count > 0) await recordEnd(tx, principal, { sessionId: null, count })
      }),

    async createCode(principal, lifetimeMs = codeLifetimeMs) {
      const code = newSecret()
      const expiresAt = clock.now() + lifetimeMs
      const holder = holderColumns(principal)
      await insertLoginCode(db, { codeHash: hashSecret(code), ...holder, expiresAt })
      return { code, expiresAt }
    },

    async peekCode(code) {
      return isSecret(code) ? holderOf(await findLoginCode(db, hashSecret(code))) : undefined
    },

    async redeemCode(code) {
      return isSecret(code) ? holderOf(await takeLoginCode(db, hashSecret(code))) : undefined
    },

    prune: () => deleteEndedSessions(db, { now: clock.now(), idleTimeoutMs }),
  }
}

/** An SSH key or a limited token must not see or end sessions of the user's other keys and tokens. */
function reachOf(principal: Principal): SessionHolder {
  const { username } = principal
  return hasAllUserRights(principal) ? { username } : { username, ...holderColumns(principal) }
}

function holderColumns({ kind, id }: Principal) {
  return {
    tokenId: kind === 'token' ? id : null,
    sshKeyId: kind === 'ssh-key' ? id : null,
  }
}
