import type { Static } from 'typebox'
import { holds, roleInsufficient } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { Problem, type ProblemCode } from '#base/problem.ts'
import type { ChangeRow } from '#database/schema.ts'
import type { Git } from '#git/process/git-process.ts'
import { isAncestor } from '#git/refs/ancestry.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { readRefs } from '#git/refs/refs.ts'
import type { FindConflict } from '#git-server/api-writes/find-conflict.ts'
import type { CheckPush } from '#git-server/authorize-push/check-push.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { ChangeDetailsSchema } from './change-schemas.ts'
import { branchOf } from './change-view.ts'
import { changeClosed } from './locked-change.ts'

type ChangeDetails = Static<typeof ChangeDetailsSchema>

type Dependencies = {
  git: Git
  checkPush: CheckPush
  findConflict: FindConflict
  /** Whether changes land on a branch through its queue. */
  hasQueue: (repository: Repository, target: string) => Promise<boolean>
}

/** What changes need for landing, for a caller at this moment. */
export function createLandingNeeds({ git, checkPush, findConflict, hasQueue }: Dependencies) {
  /** What is missing for landing a change, and the methods by which it can land. */
  async function landingOf(
    principal: Principal,
    repository: Repository,
    change: ChangeRow,
  ): Promise<Pick<ChangeDetails, 'missing' | 'methods'>> {
    const missing = await missingFor(principal, repository, change)
    const { state, target, commitId, number, version } = change
    const { path } = repository
    const tip = (await readRefs(path, [target])).get(target) ?? zeroId
    if (state !== 'open' || tip === zeroId) return { missing, methods: [] }
    const isForQueue = await hasQueue(repository, target)
    const isForward = await isAncestor(git, path, tip, commitId)
    const landing = { changes: [{ number, version }] }
    const made = { ref: target, change: 'update', landing, isForQueue } as const
    const [ofNew] = await checkPush(principal, repository, [made])
    // Only a commit that exists can have runs and statuses.
    const isOfCommit = problemsOf(ofNew).some(({ code }) => requiredOfCommits.has(code))
    const forward = isForward && !isForQueue ? (['fast-forward'] as const) : []
    if (isOfCommit) {
      if (!isForward) missing.push(toMissing(rebaseRequired(change)))
      return { missing, methods: [...forward] }
    }
    const conflict = isForward
      ? undefined
      : await findConflict(repository, { ours: tip, theirs: commitId })
    if (conflict) missing.push(toMissing(conflict))
    return { missing, methods: ['merge', 'squash', 'rebase', ...forward] }
  }

  /** What keeps a caller from landing a change, by the code that refuses it. */
  async function missingFor(
    principal: Principal,
    repository: Repository,
    change: ChangeRow,
  ): Promise<{ code: ProblemCode; detail: string }[]> {
    if (change.state !== 'open') return [changeClosed(change)].map(toMissing)
    const { number, version, target, commitId } = change
    const missing: Problem[] = []
    if (!holds(principal, 'repo:write'))
      missing.push(new Problem('permission_missing', 'Landing requires the permission repo:write.'))
    if (repository.role === 'read') missing.push(roleInsufficient(repository))
    const tip = (await readRefs(repository.path, [target])).get(target) ?? zeroId
    if (tip === zeroId)
      missing.push(new Problem('ref_not_found', `There is no branch "${branchOf(change)}".`))
    else {
      // A merge makes a commit that does not exist yet.
      const isForward = await isAncestor(git, repository.path, tip, commitId)
      const landing = { changes: [{ number, version }] }
      const isForQueue = await hasQueue(repository, target)
      const commit = isForward && !isForQueue ? commitId : undefined
      const intended = { ref: target, change: 'update', commit, landing, isForQueue } as const
      const [refusal] = await checkPush(principal, repository, [intended])
      if (refusal) missing.push(refusal)
    }
    return missing.map(toMissing)
  }

  return { missingFor, landingOf }
}

/** The problems that one has in its sentence. */
function problemsOf(problem: Problem | undefined): Problem[] {
  if (!problem) return []
  const causes = Array.isArray(problem.cause) ? problem.cause : [problem]
  return causes.filter((one) => one instanceof Problem)
}

const requiredOfCommits = new Set<ProblemCode>(['run_required', 'status_required'])

function rebaseRequired(change: ChangeRow): Problem {
  const detail = `Runs and statuses are required of the very commit that lands, so it lands only by fast-forward: rebase it on "${branchOf(change)}", and push it again.`
  return new Problem('not_fast_forward', detail)
}

const toMissing = ({ code, message }: Problem) => ({ code, detail: message })
