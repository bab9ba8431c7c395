import { holds, isWithin } from '#access/may.ts'
import { type Authenticate, anonymousFrom, type Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { hashToken, isTokenString, newTokenString } from '#base/token-string.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { LfsTokenRow } from '#database/schema.ts'
import type { SshKeys } from '#identity/ssh-keys/ssh-keys.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { LfsOperation } from './lfs-operations.ts'
import { findLfsToken, insertLfsToken } from './lfs-token-store.ts'

/** Tokens by which users of SSH transfer LFS objects over HTTP. */
export type LfsTokens = {
  /** Creates a token for an operation in a repository. Throws what opening the repository for it does. */
  create: (principal: Principal, name: string, operation: LfsOperation) => Promise<LfsAccess>
  /** The principal of a token: its key with the rights that the token has. Undefined for any other token. */
  authenticate: Authenticate
}

/** The response to `git-lfs-authenticate`: https://github.com/git-lfs/git-lfs/blob/main/docs/api/authentication.md */
type LfsAccess = { href: string; header: Record<string, string>; expires_in: number }

type Dependencies = {
  db: Database
  repositories: Pick<Repositories, 'openForGit'>
  sshKeys: Pick<SshKeys, 'principalOf'>
  baseUrl: () => string
  settings: Pick<PlainSettings, 'sshAnonymousRead'>
  clock: Clock
}

const lifetimeMs = 10 * 60_000
// An upload to a bucket may take longer than its token is valid; only its verification accepts an expired one.
const verificationMs = 24 * 60 * 60_000

export function createLfsTokens({
  db,
  repositories,
  sshKeys,
  baseUrl,
  settings,
  clock,
}: Dependencies): LfsTokens {
  /** The principal of the key of a token; that of an anonymous reader has none. */
  async function ownerOf({ keyId, address }: LfsTokenRow): Promise<Principal | undefined> {
    return keyId === null
      ? anonymousFrom(address, settings.sshAnonymousRead)
      : (await sshKeys.principalOf(keyId))?.principal
  }

  return {
    async create(principal, name, operation) {
      const permission = operation === 'upload' ? 'repo:write' : 'repo:read'
      const repository = await repositories.openForGit(principal, name, permission)
      const token = newTokenString()
      const now = clock.now()
      const row = {
        tokenHash: hashToken(token),
        repositoryId: repository.id,
        permission,
        keyId: principal.kind === 'ssh-key' ? principal.id : null,
        address: principal.origin?.address ?? '',
        expiresAt: now + lifetimeMs,
      } as const
      await db.transaction().execute((tx) => insertLfsToken(tx, row, now - verificationMs))
      const credentials = Buffer.from(`lfs:${token}`).toString('base64')
      return {
        href: `${baseUrl()}/repos/${repository.name}.git/info/lfs`,
        header: { Authorization: `Basic ${credentials}` },
        expires_in: lifetimeMs / 1000,
      }
    },

    async authenticate(token, { allowsExpiredKeys = false } = {}) {
      const row = isTokenString(token) ? await findLfsToken(db, hashToken(token)) : undefined
      if (!row) return undefined
      const { permission, repositoryId, expiresAt } = row
      if (expiresAt + (allowsExpiredKeys ? verificationMs : 0) <= clock.now()) return undefined
      const owner = await ownerOf(row)
      if (!owner) return undefined
      const permissions = new Set(holds(owner, permission) ? [permission] : [])
      const repositories = new Set(
        isWithin(owner, { id: repositoryId, namespaceId: null }) ? [repositoryId] : [],
      )
      return { ...owner, permissions, repositories, expiresAt }
    },
  }
}
