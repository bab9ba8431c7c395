import type { Principal } from '#access/principal.ts'
import { includesRole } from '#access/roles.ts'
import type { Clock } from '#base/clock.ts'
import { printable } from '#base/format.ts'
import { isId, newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db, LfsLockRow } from '#database/schema.ts'
import type { Publish } from '#events/events.ts'
import {
  addToLfsLocks,
  deleteLfsLock,
  insertLfsLock,
  type LfsLockFilter,
  listLfsLocks,
  listOthersLfsLocks,
} from './lfs-lock-store.ts'
import type { Repository } from './repositories.ts'
import { repositoryDeleted } from './repository-errors.ts'

/** The locks of Git LFS: https://github.com/git-lfs/git-lfs/blob/main/docs/api/locking.md */
export type LfsLocks = {
  /** Locks a path for the caller, unless it is locked. Returns its lock. Throws `too_many_lfs_locks`. */
  create: (
    caller: Principal,
    repository: Repository,
    path: string,
  ) => Promise<{ lock: LfsLock; isNew: boolean }>
  /** A page of locks, oldest first. */
  list: (repository: Repository, filter: LfsLockFilter, page: LockPage) => Promise<LfsLock[]>
  /**
   * Deletes a lock: the caller's own, or with `force`, another user's if the caller has the role `maintain`. Throws
   * `lfs_lock_not_found` and `lfs_lock_owned`.
   */
  remove: (
    caller: Principal,
    repository: Repository,
    lock: { id: string; force: boolean },
  ) => Promise<LfsLock>
  /** The locks of a repository that the caller may not ignore. `db` may be a transaction. */
  listOthers: (caller: Principal, repositoryId: string, db?: Db) => Promise<LfsLock[]>
  /** How many locks this process has created. While it is the same, it has created none. */
  created: () => number
}

export type LfsLock = Omit<LfsLockRow, 'repositoryId'>

/** `after` is the id of the last lock of the page before, or empty. */
type LockPage = { after: string; limit: number }

// A push compares its files with all of them.
const maxLocks = 10_000

type Dependencies = { db: Database; publish: Publish; clock: Clock }

export function createLfsLocks({ db, publish, clock }: Dependencies): LfsLocks {
  let created = 0

  function publishChange(
    tx: Db,
    kind: 'lfs_lock.created' | 'lfs_lock.deleted',
    actor: Principal,
    { repositoryId, id: lockId, path, username }: LfsLockRow,
  ): Promise<void> {
    return publish(tx, clock.now(), [
      { kind, actor, repositoryId, data: { lockId, path, username } },
    ])
  }

  async function findOne(repositoryId: string, filter: LfsLockFilter, tx: Db = db) {
    return (await listLfsLocks(tx, repositoryId, filter, { after: '', limit: 1 }))[0]
  }

  return {
    async create(caller, { id: repositoryId }, path) {
      const now = clock.now()
      const username = ownerOf(caller)
      const row = { id: newId(now), repositoryId, path, username, lockedAt: now }
      const existing = await db.transaction().execute(async (tx) => {
        // First, so that the lock and a push of the repository are in an order.
        const count = await addToLfsLocks(tx, repositoryId, 1)
        if (count === undefined) throw repositoryDeleted()
        if (count > maxLocks) throw tooMany()
        if (await insertLfsLock(tx, row)) {
          await publishChange(tx, 'lfs_lock.created', caller, row)
          return undefined
        }
        await addToLfsLocks(tx, repositoryId, -1)
        return findOne(repositoryId, { path }, tx)
      })
      if (existing) return { lock: existing, isNew: false }
      created++
      return { lock: row, isNew: true }
    },

    list: ({ id }, filter, page) => listLfsLocks(db, id, filter, page),

    async remove(caller, { id: repositoryId, role }, { id, force }) {
      if (!isId(id)) throw notFound(id)
      const isAllowed = force && includesRole(role, 'maintain')
      const owner = isAllowed ? undefined : ownerOf(caller)
      const removed = await db.transaction().execute(async (tx) => {
        if ((await addToLfsLocks(tx, repositoryId, -1)) === undefined) throw repositoryDeleted()
        const row = await deleteLfsLock(tx, { repositoryId, id }, owner)
        if (row) await publishChange(tx, 'lfs_lock.deleted', caller, row)
        else await addToLfsLocks(tx, repositoryId, 1)
        return row
      })
      if (removed) return removed
      const existing = await findOne(repositoryId, { id })
      throw existing ? owned(existing, force) : notFound(id)
    },

    listOthers: (caller, repositoryId, tx = db) =>
      listOthersLfsLocks(tx, repositoryId, ownerOf(caller)),

    created: () => created,
  }
}

/** The username that owns the locks of a caller: that of a job is the user who caused its run. */
export function ownerOf({ username, causedBy }: Principal): string {
  return causedBy ?? username
}

function owned({ path, username }: LfsLockRow, force: boolean): Problem {
  const how = force
    ? 'only this user, maintainers, the owner of the repository and admins can unlock it.'
    : 'maintainers, the owner of the repository and admins can unlock it with `force`.'
  return new Problem('lfs_lock_owned', `"${printable(path)}" is locked by ${username}; ${how}`)
}

function notFound(id: string): Problem {
  return new Problem(
    'lfs_lock_not_found',
    `The repository has no lock with the id "${printable(id)}".`,
  )
}

function tooMany(): Problem {
  const detail = `A repository can have at most ${maxLocks} locks; unlock files that no one changes.`
  return new Problem('too_many_lfs_locks', detail)
}
