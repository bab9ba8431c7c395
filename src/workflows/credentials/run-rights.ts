import { mayUse, roleOf } from '#access/may.ts'
import type { Permission } from '#access/permissions.ts'
import type { Principal } from '#access/principal.ts'
import { coversPattern } from '#base/text-pattern.ts'
import type { Database } from '#database/database.ts'
import type { RunRow } from '#database/schema.ts'
import { branchPrefix, tagPrefix } from '#git/refs/refs.ts'
import { findRepository } from '#repositories/repository-store.ts'

/** A run with what caused it. */
type CausedRun = Pick<RunRow, 'repositoryId' | 'causeId' | 'actorId'>

/** The rights of a job: its permissions, and the patterns of the refs that it may push. */
type RunRights = { permissions: Permission[]; refs: readonly string[] }

/**
 * Reduces the permissions that a job requests to those that the repository allows and that every token or key behind its run
 * has there now: the one that started the first attempt, and the one that started the current attempt.
 */
export type FindRunRights = (run: CausedRun, wanted: readonly Permission[]) => Promise<RunRights>

/** Whether every token and key behind a run is valid, and of a user who may still change its repository. */
export type IsCauseLive = (run: CausedRun) => Promise<boolean>

/**
 * Whether a token or key may push branches or tags of a repository at this moment, or only its user may, with another one;
 * undefined when neither may.
 */
export type FindPushRight = (
  cause: Pick<CausedRun, 'repositoryId' | 'actorId'>,
) => Promise<'push' | 'of-user' | undefined>

type Dependencies = {
  db: Database
  /** Returns a principal as of now; undefined when its token or key was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
}

// A token with patterns of refs changes no setting of a repository.
const refsOfJobs: readonly string[] = ['refs/*']

export function createRunRights({ db, refresh }: Dependencies): {
  find: FindRunRights
  isCauseLive: IsCauseLive
  findPushRight: FindPushRight
} {
  const read = (kind: 'token' | 'ssh-key' | 'workload', id: string) =>
    refresh({ kind, id, username: '', permissions: new Set() })

  /** The tokens and keys that caused a run, each with its view of the repository; undefined if it has lost its rights. */
  function causesOf({ repositoryId, causeId, actorId }: CausedRun) {
    return Promise.all(
      [...new Set([causeId, actorId])].map(async (id) => {
        // Ids are unique: a token and a key never share one.
        const principal =
          (await read('token', id)) ?? (await read('ssh-key', id)) ?? (await read('workload', id))
        if (!principal) return undefined
        const repository = await findRepository(db, { id: repositoryId }, principal.username)
        if (repository?.state !== 'ready' || !roleOf(principal, repository)) return undefined
        return { principal, repository }
      }),
    )
  }

  return {
    async find(run, wanted) {
      const causes = await causesOf(run)
      const permissions = wanted.filter((permission) =>
        causes.every(
          (cause) =>
            cause &&
            mayUse(cause.principal, cause.repository, permission) &&
            (cause.repository.runTokens === 'write' || permission.endsWith(':read')),
        ),
      )
      const refs = causes.reduce(
        (common, cause) => commonPatterns(common, cause?.principal.refs ?? refsOfJobs),
        refsOfJobs,
      )
      return { permissions, refs }
    },

    async findPushRight({ repositoryId, actorId }) {
      const [cause] = await causesOf({ repositoryId, actorId, causeId: actorId })
      if (!cause || roleOf(cause.principal, cause.repository) === 'read') return undefined
      const { principal, repository } = cause
      const mayPush = mayUse(principal, repository, 'repo:write') && mayPushSome(principal)
      return mayPush ? 'push' : 'of-user'
    },

    isCauseLive: async (run) =>
      (await causesOf(run)).every(
        (cause) => cause && roleOf(cause.principal, cause.repository) !== 'read',
      ),
  }
}

/** Whether a principal is not limited to refs whose pushes start no runs. */
function mayPushSome({ refs }: Principal): boolean {
  if (refs === undefined) return true
  return refs.some((pattern) => {
    const [start = ''] = pattern.split('*')
    return [branchPrefix, tagPrefix].some(
      (prefix) => start.startsWith(prefix) || (pattern.includes('*') && prefix.startsWith(start)),
    )
  })
}

/** The patterns of each list that a pattern of the other list covers. Patterns that overlap only in part are left out. */
function commonPatterns(some: readonly string[], others: readonly string[]): readonly string[] {
  const within = (narrow: readonly string[], wide: readonly string[]) =>
    narrow.filter((one) => wide.some((other) => coversPattern(other, one)))
  return [...new Set([...within(some, others), ...within(others, some)])]
}
