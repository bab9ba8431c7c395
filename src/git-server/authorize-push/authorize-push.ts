import { credentialEnded, requireRef } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import { apiPathOf } from '#base/repository-name.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { readSmallPack } from '#git/objects/pack.ts'
import type { Git } from '#git/process/git-process.ts'
import { isRefName, refNameFault, zeroId } from '#git/refs/ref-name.ts'
import {
  branchesOf,
  branchPrefix,
  hasBranch,
  type RefUpdate,
  readDefaultBranch,
  resolveSymbolicRefs,
  successorAmong,
} from '#git/refs/refs.ts'
import type { LfsLocks } from '#repositories/lfs-locks.ts'
import type { LfsObjects } from '#repositories/lfs-objects.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import type { GuardResult, LeakGuard } from '../leak-guard/leak-guard.ts'
import type { Push } from '../push/push.ts'
import { isolateQuarantine, openQuarantine, withPushLimits } from '../push/pushed-objects.ts'
import { createLockedPaths } from './locked-paths.ts'
import { refuseMissingLfsObjects } from './missing-lfs-objects.ts'
import { type GuardedPush, type RefRules, refuseProtected } from './protected-refs.ts'
import { historyOf, type PushedHistory } from './pushed-history.ts'

/** What the authorization of pushes depends on. */
export type PushAuthorization = RefRules & {
  /** Reads the principal again; undefined when its token or key is no longer valid. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  repositories: Pick<Repositories, 'reopen' | 'recheck'>
  db: Database
  git: Git
  leakGuard: LeakGuard
  lfsLocks: Pick<LfsLocks, 'listOthers' | 'created'>
  lfsObjects: Pick<LfsObjects, 'renewedSizesOf'>
  settings: Pick<PlainSettings, 'pushMemoryMaxBytes'>
}

/** The ref that a push to a ref moves, by the ref: another one for a symbolic ref. */
export type RefTargets = ReadonlyMap<string, string>

/**
 * Checks a push by the permissions, ref names and branch protections of this moment. Returns the principal and
 * the repository as they are now, and the targets of the refs. Throws the Problem of the first update that is not allowed.
 */
export async function authorizePush(
  dependencies: Pick<PushAuthorization, 'refresh' | 'git'> &
    RefRules & { repositories: Pick<Repositories, 'reopen'> },
  push: Push,
  updates: RefUpdate[],
): Promise<{ principal: Principal; repository: Repository; targets: RefTargets }> {
  const { refresh, repositories, git } = dependencies
  const principal = await refresh(push.principal)
  if (!principal) throw credentialEnded('token or key')
  const need = push.proposal ? 'proposer' : 'member'
  const repository = await repositories.reopen(principal, push.repository, 'repo:write', need)
  // It updates no ref of its repository.
  if (push.proposal) {
    for (const { ref } of updates) requireRef(principal, ref)
    return { principal, repository, targets: new Map() }
  }
  const history = historyOf(git, push)
  const about = { principal, repository, history, push }
  const targets = await authorizeUpdates(dependencies, about, updates)
  return { principal, repository, targets }
}

type Authorizing = {
  principal: Principal
  repository: Repository
  history: PushedHistory
  push: GuardedPush
}

/** Checks updates by the limits of the principal, ref names and protections. Returns the targets of the refs. */
export async function authorizeUpdates(
  rules: RefRules,
  { principal, repository, history, push }: Authorizing,
  updates: RefUpdate[],
): Promise<RefTargets> {
  const names = updates.map(({ ref }) => ref)
  for (const name of names) {
    if (!isRefName(name)) throw new Problem('ref_name_refused', `"${name}" is not a ref name.`)
  }
  const targets = await resolveSymbolicRefs(repository.path, names)
  for (const ref of names) {
    for (const name of new Set([ref, targets.get(ref) ?? ref])) {
      refuseBadName(name)
      requireRef(principal, name)
    }
  }
  await refuseProtected(rules, { history, repository, push }, updates, targets)
  return targets
}

/** Throws `default_branch_deletion` when one of the updates deletes the default branch, and none puts another in its place. */
export async function refuseDefaultDeletion(
  repository: Repository,
  updates: RefUpdate[],
  targets: RefTargets,
): Promise<void> {
  const deleted = updates.filter(({ after }) => after === zeroId)
  if (deleted.length === 0 || successorAmong(branchesOf(updates)) !== undefined) return
  const { path } = repository
  const branch = await readDefaultBranch(path)
  const isDefault = ({ ref }: RefUpdate) => (targets.get(ref) ?? ref) === branchPrefix + branch
  if (!deleted.some(isDefault) || !(await hasBranch(path, branch))) return
  throw defaultBranchDeletion(repository, branch)
}

export function defaultBranchDeletion({ name }: Repository, branch: string): Problem {
  return new Problem(
    'default_branch_deletion',
    `"${branch}" is the default branch, which cannot be deleted unless the same push has main, master, trunk or only one other branch in its place. Otherwise push the other branch, and make it the default one: ` +
      `PATCH ${apiPathOf(name)} with {"defaultBranch": "another branch"}, as the owner or an admin.`,
  )
}

function refuseBadName(ref: string): void {
  const fault = refNameFault(ref)
  if (fault)
    throw new Problem('ref_name_refused', `The ref "${ref}" is refused: its name ${fault}.`)
}

type GuardedAuthorization = Awaited<ReturnType<typeof authorizePush>> &
  Pick<GuardResult, 'allowed' | 'warnings'> & {
    /** Authorizes the push again unless that was done a moment ago; called right before it is recorded. */
    recheck: () => Promise<void>
    /** Throws `path_locked` when the push changes a file that another user has locked by now. */
    refuseLocked: (db: Db) => Promise<void>
  }

// Most pushes are recorded within this time, without asking for the same rows twice.
const authorizedForMs = 1000

/**
 * Authorizes a push, compares its files with locks, looks for the Git LFS objects that they name, and has the leak guard
 * scan them. Throws the Problems of all.
 */
export async function authorizeGuarded(
  dependencies: PushAuthorization,
  push: Push,
  updates: RefUpdate[],
): Promise<GuardedAuthorization> {
  let authorizedAt = performance.now()
  const first = await authorizePush(dependencies, push, updates)
  const lockedPaths = createLockedPaths(dependencies, push, { updates, targets: first.targets })
  const refuseLocked = (db?: Db) => lockedPaths.refuse(first.principal, db)
  if (first.repository.hasLfsLocks && !push.proposal) await refuseLocked()
  const { allowed, warnings, wasSlow } = await checkFiles(
    dependencies,
    push,
    first.repository,
    updates,
  )
  // Rights may have been revoked during a long scan.
  if (wasSlow) authorizedAt = performance.now()
  const authorized = wasSlow ? await authorizePush(dependencies, push, updates) : first

  async function recheck(): Promise<void> {
    // What lands is approved at the moment when the branch moves.
    if (!push.landing && performance.now() - authorizedAt < authorizedForMs) return
    authorizedAt = performance.now()
    // It may hold locks, so it does not wait for files of the store.
    const { recheck: reopen } = dependencies.repositories
    await authorizePush({ ...dependencies, repositories: { reopen } }, push, updates)
  }

  return { ...authorized, allowed, warnings, recheck, refuseLocked }
}

/** Throws the Problems of missing LFS objects and of credentials in the files of a push. */
async function checkFiles(
  dependencies: PushAuthorization,
  push: Push,
  repository: Repository,
  updates: RefUpdate[],
): Promise<GuardResult> {
  const { leakGuard, settings } = dependencies
  const { quarantine, allowedLeaks: allow = [] } = push
  if (quarantine === undefined) return { allowed: [], warnings: [], wasSlow: false }
  const objects = push.objects ?? (await readSmallPack(quarantine))
  const git = withPushLimits(dependencies.git, settings)
  const scopedGit = await openQuarantine(git, push)
  const quarantinedGit = isolateQuarantine(git, quarantine)
  const pushed = { repository, updates, objects, git, scopedGit, quarantinedGit }
  await refuseMissingLfsObjects(dependencies, pushed)
  if (repository.leakGuard === 'off')
    return { allowed: [], warnings: [], wasSlow: objects === undefined }
  return leakGuard.check({ ...pushed, allow })
}
