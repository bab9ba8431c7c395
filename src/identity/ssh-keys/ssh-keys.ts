import { holds, isAdmin, requireAllUserRights, requirePermission } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { type Clock, dayMs } from '#base/clock.ts'
import { isId, newId } from '#base/ids.ts'
import { createLastUsed } from '#base/last-used.ts'
import type { PageRequest } from '#base/list-all.ts'
import type { Log } from '#base/log.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { SshKeyRow } from '#database/schema.ts'
import type { Actor, Publish } from '#events/events.ts'
import { fingerprintOf, type PublicKey, parsePublicKey } from '#ssh/public-key.ts'
import { PublicKeyError } from '#ssh/public-key-error.ts'
import type { TokenRepositories } from '../tokens/describe-tokens.ts'
import { lockPrincipal } from '../tokens/lock-principal.ts'
import { parseLimit } from '../tokens/token-rows.ts'
import {
  countSshKeys,
  deleteExpiredSshKeys,
  deleteSshKey,
  findSshKey,
  findSshKeyByFingerprint,
  insertSshKey,
  listSshKeys,
  listUsernames,
  updateKeyLastUsed,
} from './ssh-key-store.ts'

/** Registers public keys for SSH, and authenticates them. */
export type SshKeys = {
  /**
   * Registers a key. Unless the caller is an admin, it has at most the permissions of the caller, and its lifetime, unless
   * that is a person who has logged in: such a key is valid as long as the identity provider vouches for the person.
   * Throws `token_limited`, `permission_missing`, `invalid_request`, `repository_not_found`, `ssh_key_taken` and
   * `too_many_ssh_keys`.
   */
  add: (principal: Principal, newKey: NewSshKey) => Promise<SshKey>
  /**
   * Lists the keys of a username after an id, oldest first; only admins may list those of other users. Without a
   * username, lists the caller's keys, or for a command on the server all keys.
   */
  list: (
    principal: Principal,
    options: { username?: string | undefined; page: PageRequest },
  ) => Promise<SshKey[]>
  /** Deletes a key of the caller's username; an admin may delete any. */
  remove: (principal: Principal, id: string) => Promise<void>
  /** Returns those of `usernames` for which a key exists. */
  usernamesAmong: (usernames: string[]) => Promise<string[]>
  /** Finds a public key that a client presents, without a proof of possession yet. */
  identify: (blob: Buffer) => Promise<Key | undefined>
  /**
   * Returns the principal of a key after the client has proven possession; undefined if the key was deleted or has
   * expired. Counts as a use of the key.
   */
  principalOf: (keyId: string) => Promise<{ principal: Principal; key: Key } | undefined>
  /** Returns the current state of a principal; undefined if its key was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
}

/** The permissions that a key can have. */
export const keyPermissions = ['repo:read', 'repo:write'] as const

export type KeyPermission = (typeof keyPermissions)[number]

/** A registered key. */
type SshKey = Omit<SshKeyRow, 'permissions' | 'repositories'> & {
  permissions: KeyPermission[]
  /** The names of the repositories that it is limited to, without those that no longer exist; null for all. */
  repositories: string[] | null
}

/** The fields of a registered key that authentication needs. */
export type Key = Pick<
  SshKeyRow,
  'id' | 'name' | 'username' | 'fingerprint' | 'keyType' | 'expiresAt'
>

type NewSshKey = {
  /** The line of a .pub file. */
  publicKey: string
  /** Defaults to the comment of the key, or `command line`. */
  name?: string | undefined
  /** Defaults to the caller's; another one requires admin. */
  username?: string | undefined
  /** Defaults to those of the caller. */
  permissions?: KeyPermission[] | undefined
  /** Null for a key that never expires; defaults to the expiry of the caller, and to null for a login. */
  expiresInDays?: number | null | undefined
  /** The names of the repositories that it is limited to: such a key is a deploy key. */
  repositories?: string[] | undefined
}

const maxKeys = 100
const nameMaxLength = 100

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  log: Log
  repositories: TokenRepositories
}

export function createSshKeys(dependencies: Dependencies): SshKeys {
  const { db, publish, clock, log, repositories } = dependencies
  const noteUse = createLastUsed({
    clock,
    write: (id, at) => updateKeyLastUsed(db, id, at),
    onError: (err, keyId) => log.warn({ err, keyId }, 'last use of an SSH key not recorded'),
  })

  function live(row: SshKeyRow | undefined): SshKeyRow | undefined {
    return row && (row.expiresAt === null || row.expiresAt > clock.now()) ? row : undefined
  }

  async function describe(viewer: Principal, rows: SshKeyRow[]): Promise<SshKey[]> {
    const ids = rows.flatMap((row) => parseLimit(row.repositories) ?? [])
    const names = await repositories.namesOf(viewer, [...new Set(ids)])
    return rows.map((row) => toSshKey(row, names))
  }

  return {
    async add(principal, newKey) {
      requireAllUserRights(principal)
      if (newKey.username !== undefined) requirePermission(principal, 'admin')
      for (const permission of newKey.permissions ?? []) requirePermission(principal, permission)
      const ids = newKey.repositories && (await repositories.idsOf(principal, newKey.repositories))
      const row = toRow(principal, { ...newKey, repositories: ids }, clock.now())
      const isOfAdmin = newKey.username !== undefined || endsLater(row, principal)
      if (isOfAdmin) requirePermission(principal, 'admin')
      await db.transaction().execute(async (tx) => {
        const now = clock.now()
        const current = await lockPrincipal(tx, principal, now)
        for (const permission of permissionsOf(row)) requirePermission(current, permission)
        if (isOfAdmin) requirePermission(current, 'admin')
        const toEvent = ({ id, username }: Pick<SshKeyRow, 'id' | 'username'>) =>
          keyDeleted(principal, id, username)
        // An expired key can be registered again, by any user.
        const former = await deleteExpiredSshKeys(tx, { fingerprint: row.fingerprint }, now)
        if (!(await insertSshKey(tx, row))) throw taken()
        await publish(tx, now, [...former.map(toEvent), keyAdded(principal, row)])
        // Counted last: publishing serializes concurrent additions, so their rows are visible now.
        const { username } = row
        if ((await countSshKeys(tx, username)) <= maxKeys) return
        const expired = await deleteExpiredSshKeys(tx, { username }, now)
        if ((await countSshKeys(tx, username)) > maxKeys) throw tooMany(username)
        await publish(tx, now, expired.map(toEvent))
      })
      const [added] = await describe(principal, [row])
      if (!added) throw new Error('a key has no description')
      return added
    },

    async list(principal, { username, page }) {
      if (username !== undefined) requirePermission(principal, 'admin')
      const isOfAll = username === undefined && principal.kind === 'local'
      const whose = isOfAll ? 'all' : { username: username ?? principal.username }
      return describe(principal, await listSshKeys(db, whose, page))
    },

    async remove(principal, id) {
      requireAllUserRights(principal)
      const whose = isAdmin(principal) ? 'all' : { username: principal.username }
      await db.transaction().execute(async (tx) => {
        const username = isId(id) ? await deleteSshKey(tx, whose, id) : undefined
        // The response does not reveal whether the id is unknown or belongs to another user.
        if (username === undefined) throw notFound(id)
        await publish(tx, clock.now(), [keyDeleted(principal, id, username)])
      })
    },

    usernamesAmong: (usernames) => listUsernames(db, usernames),

    async identify(blob) {
      const row = live(await findSshKeyByFingerprint(db, fingerprintOf(blob)))
      return row && toKey(row)
    },

    async principalOf(keyId) {
      const row = live(await findSshKey(db, keyId))
      if (!row) return undefined
      noteUse(row)
      return { principal: toPrincipal(row), key: toKey(row) }
    },

    async refresh(principal) {
      const row = live(await findSshKey(db, principal.id))
      return row && toPrincipal(row)
    },
  }
}

/** The row of a new key, whose `repositories` are ids. */
function toRow(principal: Principal, newKey: NewSshKey, now: number): SshKeyRow {
  const { type, line, comment, fingerprint } = parse(newKey.publicKey)
  const granted = keyPermissions.filter((permission) =>
    newKey.permissions ? newKey.permissions.includes(permission) : holds(principal, permission),
  )
  return {
    id: newId(),
    username: newKey.username ?? principal.username,
    name: newKey.name ?? ([...comment].slice(0, nameMaxLength).join('') || 'command line'),
    publicKey: line,
    keyType: type,
    fingerprint,
    permissions: granted.join(' '),
    createdAt: now,
    expiresAt: expiryOf(principal, newKey, now),
    lastUsedAt: null,
    repositories: newKey.repositories ? JSON.stringify([...new Set(newKey.repositories)]) : null,
  }
}

function expiryOf(
  principal: Principal,
  { expiresInDays: days }: NewSshKey,
  now: number,
): number | null {
  if (days === undefined) return endOf(principal)
  return days === null ? null : now + days * dayMs
}

function endsLater({ expiresAt }: SshKeyRow, principal: Principal): boolean {
  const end = endOf(principal)
  return end !== null && (expiresAt === null || expiresAt > end)
}

/** The latest end of the keys of a caller. */
function endOf({ loginId, expiresAt = null }: Principal): number | null {
  return loginId === undefined ? expiresAt : null
}

function parse(text: string): PublicKey {
  try {
    return parsePublicKey(text)
  } catch (error) {
    if (!(error instanceof PublicKeyError)) throw error
    const errors = [{ pointer: '/publicKey', detail: error.message }]
    throw new Problem('invalid_request', error.message, { errors, cause: error })
  }
}

function toSshKey(row: SshKeyRow, names: ReadonlyMap<string, string>): SshKey {
  const repositories = parseLimit(row.repositories)?.flatMap((id) => names.get(id) ?? []) ?? null
  return { ...row, permissions: permissionsOf(row), repositories }
}

function toKey({ id, name, username, fingerprint, keyType, expiresAt }: SshKeyRow): Key {
  return { id, name, username, fingerprint, keyType, expiresAt }
}

function toPrincipal(row: SshKeyRow): Principal {
  const { id, username, expiresAt } = row
  const ids = parseLimit(row.repositories)
  return {
    ...{ kind: 'ssh-key', id, username, expiresAt },
    permissions: new Set(permissionsOf(row)),
    repositories: ids ? new Set(ids) : undefined,
  }
}

function permissionsOf({ permissions }: SshKeyRow): KeyPermission[] {
  const words = permissions.split(' ')
  return keyPermissions.filter((permission) => words.includes(permission))
}

function keyAdded(actor: Actor, row: SshKeyRow) {
  const { id, name, username, fingerprint, expiresAt } = row
  const data = {
    keyId: id,
    name,
    username,
    fingerprint,
    permissions: permissionsOf(row),
    repositoryIds: parseLimit(row.repositories),
    expiresAt,
  }
  return { kind: 'ssh_key.added', actor, repositoryId: null, data } as const
}

export function keyDeleted(actor: Actor, keyId: string, username: string) {
  return { kind: 'ssh_key.deleted', actor, repositoryId: null, data: { keyId, username } } as const
}

function taken(): Problem {
  return new Problem(
    'ssh_key_taken',
    'This key is already registered; use another one, or delete it first.',
  )
}

function tooMany(username: string): Problem {
  return new Problem(
    'too_many_ssh_keys',
    `"${username}" has ${maxKeys} SSH keys, which is the maximum; delete one first.`,
  )
}

function notFound(id: string): Problem {
  return new Problem(
    'ssh_key_not_found',
    `There is no SSH key with the id "${id}", or it is not yours.`,
  )
}
