import { randomInt } from 'node:crypto'
import { requirePermission } from '#access/may.ts'
import type { Permission } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import { type Clock, dayMs } from '#base/clock.ts'
import { Problem } from '#base/problem.ts'
import { challengeOf, hashSecret, newSecret } from '#base/secret-string.ts'
import type { Database } from '#database/database.ts'
import type { CliLoginRow, Db } from '#database/schema.ts'
import type { Publish } from '#events/events.ts'
import { maxDelegated } from '../tokens/delegated-tokens.ts'
import { lockPrincipal } from '../tokens/lock-principal.ts'
import { newTokenRow, tokenCreated } from '../tokens/token-rows.ts'
import { countTokensOfLogin, deleteExpiredOfLogin, insertToken } from '../tokens/token-store.ts'
import type { Tokens } from '../tokens/tokens.ts'
import {
  consentToCliLogin,
  deleteOldCliLogins,
  findCliLogin,
  insertCliLogin,
  takeCliLogin,
} from './cli-login-store.ts'

/** A command line that asks for a token: its machine as it names itself, and the address from which it asked. */
export type CliRequest = { machine: string; address: string; expiresAt: number }

/** A user who consents, and the session in which: the consent ends with it. */
type Consenter = { principal: Principal; sessionId: string }

/**
 * Logins of command lines by a browser. The browser's user consents, and the command line gets a token: only the one that has
 * the secret (the verifier) of its challenge (PKCE, RFC 7636).
 */
export type CliLogins = {
  /** Creates a code that a person enters in a browser, on any machine (as RFC 8628). */
  request: (from: {
    challenge: string
    machine: string
    address: string
  }) => Promise<{ userCode: string; expiresAt: number }>
  /** The request of a code; undefined if it is unknown, expired or was consented to. */
  find: (userCode: string) => Promise<CliRequest | undefined>
  /** Consents to the request of a code; whether it was still possible. Throws `too_many_delegated_tokens`. */
  consent: (caller: Consenter, userCode: string) => Promise<boolean>
  /** Consents to a command line on the machine of the browser; returns its code (as RFC 8252). */
  authorize: (
    caller: Consenter,
    from: Omit<CliRequest, 'expiresAt'> & { challenge: string },
  ) => Promise<string>
  /**
   * The token for a code, once; `pending` before the consent, undefined for an invalid code or verifier, or after the session
   * of the consent has ended.
   */
  redeem: (code: string, verifier: string) => Promise<string | 'pending' | undefined>
  /** Deletes what has expired. */
  prune: () => Promise<void>
}

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  tokens: Pick<Tokens, 'refresh' | 'delegated'>
}

const cliTokenDays = 90
const userCodeMs = 10 * 60_000
const codeMs = 60_000
/** Consonants, so that no code is a word: RFC 8628, section 6.1. */
const letters = 'BCDFGHJKLMNPQRSTVWXZ'
const userCodeLength = 8
const nameMaxLength = 100

export function createCliLogins({ db, publish, clock, tokens }: Dependencies): CliLogins {
  async function findLive(code: string) {
    const row = await findCliLogin(db, hashOf(code))
    return row && row.expiresAt > clock.now() ? row : undefined
  }

  /** Throws `too_many_delegated_tokens` where the browser can show it. */
  async function requireFewTokens({ loginId }: Principal): Promise<void> {
    if (loginId === undefined) return
    await deleteExpiredOfLogin(db, loginId, clock.now())
    if ((await countTokensOfLogin(db, loginId)) >= maxDelegated) throw tooManyTokens()
  }

  /** A token with the rights of the one whose user consented, and that ends with it or with the same login. */
  async function createToken(
    principal: Principal,
    { codeHash, machine }: CliLoginRow,
  ): Promise<string> {
    const now = clock.now()
    const takeCode = async (tx: Db) => {
      if (!(await takeCliLogin(tx, codeHash, now))) throw new CodeUsedError()
    }
    const name = `svc login on ${machine}`.slice(0, nameMaxLength)
    const { loginId, username, isDelegated, repositories, refs, expiresAt: end } = principal
    const permissions = [...principal.permissions]
    const isLimited = isDelegated || repositories !== undefined || refs !== undefined
    if (loginId === undefined || isLimited) {
      const isLater = end != null && end < now + cliTokenDays * dayMs
      const lifetime = isLater ? {} : { expiresInDays: cliTokenDays }
      const wanted = { name, permissions, ...lifetime }
      return (await tokens.delegated.delegate(principal, wanted, takeCode)).token
    }
    const parts = { name, username, permissions, loginId, createdAt: now }
    const limits = { repositories: null, refs: null, delegatedFrom: undefined }
    const expiresAt = cliTokenEnd(principal, now)
    const { row, token } = newTokenRow({ ...parts, ...limits, expiresAt })
    await db.transaction().execute(async (tx) => {
      const current = await lockPrincipal(tx, principal, now)
      for (const permission of permissions) requirePermission(current, permission)
      await takeCode(tx)
      await deleteExpiredOfLogin(tx, loginId, now)
      await insertToken(tx, row)
      await publish(tx, now, [tokenCreated(principal, row)])
      // Counted last: publishing serializes concurrent logins, so their rows are visible now.
      if ((await countTokensOfLogin(tx, loginId)) > maxDelegated) throw tooManyTokens()
    })
    return token
  }

  return {
    async request({ challenge, machine, address }) {
      const userCode = newUserCode()
      const expiresAt = clock.now() + userCodeMs
      const from = { challenge, machine, address }
      const consent = { tokenId: null, sessionId: null }
      await insertCliLogin(db, { codeHash: hashOf(userCode), ...from, ...consent, expiresAt })
      return { userCode, expiresAt }
    },

    async find(userCode) {
      const row = await findLive(userCode)
      return row && row.tokenId === null ? row : undefined
    },

    async consent({ principal, sessionId }, userCode) {
      await requireFewTokens(principal)
      if (!(await findLive(userCode))) return false
      return consentToCliLogin(db, hashOf(userCode), { tokenId: principal.id, sessionId })
    },

    async authorize({ principal, sessionId }, from) {
      await requireFewTokens(principal)
      const code = newSecret()
      const expiresAt = clock.now() + codeMs
      await insertCliLogin(db, {
        codeHash: hashOf(code),
        ...from,
        ...{ tokenId: principal.id, sessionId, expiresAt },
      })
      return code
    },

    async redeem(code, verifier) {
      const row = await findLive(code)
      if (!row || row.challenge !== challengeOf(verifier)) return undefined
      const { tokenId, address } = row
      if (tokenId === null) return 'pending'
      const refreshed = {
        kind: 'token',
        id: tokenId,
        username: '',
        permissions: new Set<Permission>(),
      } as const
      const principal = await tokens.refresh(refreshed)
      if (!principal) return undefined
      return createToken({ ...principal, origin: { via: 'api', address } }, row).catch((error) => {
        if (error instanceof CodeUsedError) return undefined
        throw error
      })
    },

    prune: () => deleteOldCliLogins(db, clock.now()),
  }
}

/** A code that another request has used, or whose consent has ended. */
class CodeUsedError extends Error {}

/** When the token of a command line ends that gets the rights of a principal. */
export function cliTokenEnd({ expiresAt = null }: Principal, now: number): number {
  return Math.min(expiresAt ?? Number.POSITIVE_INFINITY, now + cliTokenDays * dayMs)
}

function tooManyTokens(): Problem {
  return new Problem(
    'too_many_delegated_tokens',
    `${maxDelegated} tokens end with your login, which is the maximum; delete some.`,
  )
}

function newUserCode(): string {
  const code = Array.from({ length: userCodeLength }, () => letters[randomInt(letters.length)])
  return `${code.slice(0, 4).join('')}-${code.slice(4).join('')}`
}

/** A code as it is stored. One that a person has typed may be in lower case, and without the hyphen. */
function hashOf(code: string): string {
  const plain = code.toUpperCase().replace(/[^A-Z]/g, '')
  return hashSecret(plain.length === userCodeLength ? plain : code)
}
