import { hash, randomBytes } from 'node:crypto'
import type { Principal } from '../access/principal.ts'
import { type Clock, dayMs } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import { createLastUsed } from '../base/last-used.ts'
import type { Log } from '../base/log.ts'
import type { Db } from '../database/schema.ts'
import type { LoginCodeRow, SessionRow } from '../database/session-schema.ts'
import {
  deleteEndedSessions,
  deleteOtherSessions,
  deleteSession,
  findLoginCode,
  findSessionByHash,
  insertLoginCode,
  insertSession,
  listSessionsOf,
  takeLoginCode,
  updateSession,
} from './session-store.ts'

/** A session as its user sees it. */
export type Session = Omit<SessionRow, 'secretHash'>

/** A session with the current state of its token or key. */
export type OpenSession = { session: Session; principal: Principal }

/** Sessions of people who use the pages: each has the rights of a token or an SSH key, and ends with it. */
export type Sessions = {
  /** Creates a session. Its secret is only in this result; it is unlocked for changes. */
  create: (principal: Principal, userAgent: string) => Promise<{ secret: string; session: Session }>
  /** Returns the session of a secret; undefined if it is unknown or expired, or its token or key is gone. */
  open: (secret: string) => Promise<OpenSession | undefined>
  /** Allows a session to change something for an hour. */
  unlock: (session: Session) => Promise<void>
  /** Lists the sessions of the caller's username, newest first. */
  list: (principal: Principal) => Promise<Session[]>
  /** Ends a session of the caller's username; returns whether there was one. */
  end: (principal: Principal, id: string) => Promise<boolean>
  /** Ends all other sessions of the username of a session. */
  endOthers: (session: Session) => Promise<void>
  /** Creates a code with which a browser logs in as the principal: once, within a minute unless it is to last longer. */
  createCode: (
    principal: Principal,
    lifetimeMs?: number,
  ) => Promise<{ code: string; expiresAt: number }>
  /** Returns whom a code logs in, without using it up; undefined if it is unknown, used or expired. */
  peekCode: (code: string) => Promise<Principal | undefined>
  /** The same, and uses it up. */
  redeemCode: (code: string) => Promise<Principal | undefined>
  /** Deletes sessions and codes that have ended. */
  prune: () => Promise<void>
}

type Dependencies = {
  db: Db
  clock: Clock
  log: Log
  /** Reads a principal again; undefined when its token or key was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
}

const sessionLifetimeMs = 30 * dayMs
const idleTimeoutMs = 7 * dayMs
/** For how long a session can make changes after the login, or after its token was given again. */
export const unlockedMs = 60 * 60 * 1000
const codeLifetimeMs = 60_000
const userAgentMaxLength = 300
const secretShape = /^[\w-]{43}$/

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

  return {
    async create(principal, userAgent) {
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
      await insertSession(db, { ...session, secretHash: hashSecret(secret) })
      return { secret, session }
    },

    async open(secret) {
      if (!secretShape.test(secret)) return undefined
      const row = await findSessionByHash(db, hashSecret(secret))
      const now = clock.now()
      if (!row || row.expiresAt <= now || row.seenAt + idleTimeoutMs <= now) return undefined
      const principal = await principalOf(row)
      if (!principal) return undefined
      noteSeen({ id: row.id, lastUsedAt: row.seenAt })
      const { secretHash: _, ...session } = row
      return { session, principal }
    },

    async unlock({ id }) {
      await updateSession(db, id, { unlockedUntil: clock.now() + unlockedMs })
    },

    async list({ username }) {
      const now = clock.now()
      const rows = await listSessionsOf(db, { username, now, idleTimeoutMs })
      return rows.map(({ secretHash: _, ...session }) => session)
    },

    end: ({ username }, id) => deleteSession(db, id, username),

    endOthers: ({ id, username }) => deleteOtherSessions(db, id, username),

    async createCode(principal, lifetimeMs = codeLifetimeMs) {
      const code = newSecret()
      const expiresAt = clock.now() + lifetimeMs
      const holder = holderColumns(principal)
      await insertLoginCode(db, { codeHash: hashSecret(code), ...holder, expiresAt })
      return { code, expiresAt }
    },

    async peekCode(code) {
      return secretShape.test(code)
        ? holderOf(await findLoginCode(db, hashSecret(code)))
        : undefined
    },

    async redeemCode(code) {
      return secretShape.test(code)
        ? holderOf(await takeLoginCode(db, hashSecret(code)))
        : undefined
    },

    prune: () => deleteEndedSessions(db, { now: clock.now(), idleTimeoutMs }),
  }
}

function holderColumns({ kind, id }: Principal) {
  return {
    tokenId: kind === 'token' ? id : null,
    sshKeyId: kind === 'ssh-key' ? id : null,
  }
}

/** 32 random bytes in base64url. */
function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

function hashSecret(secret: string): string {
  return hash('sha256', secret)
}
