import { requireRef } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
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
import type { Protections } from '#repositories/protections.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import type { Push } from '../push/push.ts'
import { refuseProtected } from './protected-refs.ts'
import { historyOf, type PushedHistory } from './pushed-history.ts'

type Dependencies = {
  /** Reads the principal again; undefined when its token or key is no longer valid. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  repositories: Pick<Repositories, 'reopen'>
  protections: Pick<Protections, 'list'>
  git: Git
  hasSuccessfulRun: (repositoryId: string, commit: string, file: string) => Promise<boolean>
}

/** The ref that a push to a ref moves, by the ref: another one for a symbolic ref. */
export type RefTargets = ReadonlyMap<string, string>

/**
 * Checks a push by the permissions, ref names and branch protections of this moment. Returns the principal and
 * the repository as they are now, and the targets of the refs. Throws the Problem of the first update that is not allowed.
 */
export async function authorizePush(
  dependencies: Dependencies,
  push: Push,
  updates: RefUpdate[],
): Promise<{ principal: Principal; repository: Repository; targets: RefTargets }> {
  const { refresh, repositories, git } = dependencies
  const principal = await refresh(push.principal)
  if (!principal) {
    throw new Problem('token_invalid', 'The token or key was deleted or has expired.')
  }
  const repository = await repositories.reopen(principal, push.repository, 'repo:write')
  const history = historyOf(git, push)
  const targets = await authorizeUpdates(dependencies, { principal, repository, history }, updates)
  return { principal, repository, targets }
}

type Authorizing = { principal: Principal; repository: Repository; history: PushedHistory }

/** Checks updates by the limits of the principal, ref names and protections. Returns the targets of the refs. */
export async function authorizeUpdates(
  dependencies: Pick<Dependencies, 'protections' | 'hasSuccessfulRun'>,
  { principal, repository, history }: Authorizing,
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
  await refuseProtected(dependencies, history, repository, updates, targets)
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
      `PATCH /repos/${name} with {"defaultBranch": "another branch"}, as the owner or an admin.`,
  )
}

function refuseBadName(ref: string): void {
  const fault = refNameFault(ref)
  if (fault)
    throw new Problem('ref_name_refused', `The ref "${ref}" is refused: its name ${fault}.`)
}
