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
  /** What is missing for landing a change, by the code that refuses it, and what that was found from. */
  async function readNeeds(principal: Principal, repository: Repository, change: ChangeRow) {
    const { path } = repository
    const { target, commitId, number, version } = change
    const missing: Problem[] = []
    const isForQueue = await hasQueue(repository, target)
    if (change.state !== 'open') return { missing: [changeClosed(change)], isForQueue }
    if (!holds(principal, 'repo:write'))
      missing.push(new Problem('permission_missing', 'Landing requires the permission repo:write.'))
    if (repository.role === 'read') missing.push(roleInsufficient(repository))
    const tip = (await readRefs(path, [target])).get(target) ?? zeroId
    if (tip === zeroId) {
      missing.push(new Problem('ref_not_found', `There is no branch "${branchOf(change)}".`))
      return { missing, isForQueue }
    }
    const isForward = await isAncestor(git, path, tip, commitId)
    const landing = { changes: [{ number, version }] }
    const made = { ref: target, change: 'update', landing, isForQueue } as const
    // A merge makes a commit that does not exist yet.
    const commit = isForward && !isForQueue ? commitId : undefined
    const [refusal] = await checkPush(principal, repository, [{ ...made, commit }])
    if (refusal) missing.push(refusal)
    return { missing, isForQueue, at: { tip, isForward, made, commit, refusal } }
  }

  return {
    async missingFor(principal: Principal, repository: Repository, change: ChangeRow) {
      return (await readNeeds(principal, repository, change)).missing
    },

    /** What is missing for landing a change, and the methods by which it can land. */
    async landingOf(
      principal: Principal,
      repository: Repository,
      change: ChangeRow,
    ): Promise<Pick<ChangeDetails, 'missing' | 'methods' | 'hasQueue'>> {
      const { missing, isForQueue, at } = await readNeeds(principal, repository, change)
      const answer = (methods: ChangeDetails['methods'], more?: Problem) => {
        const all = more ? [...missing, more] : missing
        return { missing: all.map(toMissing), methods, hasQueue: isForQueue }
      }
      if (!at) return answer([])
      const { tip, isForward, made, commit } = at
      const [ofNew] = commit ? await checkPush(principal, repository, [made]) : [at.refusal]
      // Only a commit that exists can have runs and statuses.
      const isOfCommit = problemsOf(ofNew).some(({ code }) => requiredOfCommits.has(code))
      const forward = isForward && !isForQueue ? (['fast-forward'] as const) : []
      if (isOfCommit) return answer([...forward], isForward ? undefined : rebaseRequired(change))
      const conflict = isForward
        ? undefined
        : await findConflict(repository, { ours: tip, theirs: change.commitId })
      return answer(['merge', 'squash', 'rebase', ...forward], conflict)
    },
  }
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
