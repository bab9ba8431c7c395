import { requireRef } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import type { Git } from '#git/process/git-process.ts'
import { findForced } from '#git/refs/forced-updates.ts'
import { proposalRefs, zeroId } from '#git/refs/ref-name.ts'
import { readRefs } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import { type Landing, readProposalTarget, undeletableProposal } from '../push/proposal.ts'
import { authorizeUpdates, refuseDefaultDeletion } from './authorize-push.ts'
import type { RefRules } from './protected-refs.ts'
import { findCommits, type PushedHistory } from './pushed-history.ts'

/** A change of a ref, given by its full name, to a commit; without one, to a new commit. */
type IntendedChange = {
  ref: string
  change: 'update' | 'force' | 'delete'
  commit?: string | undefined
  /** The changes that it lands, if any. */
  landing?: Landing | undefined
  /** Whether they are to enter the queue of the branch. */
  isForQueue?: boolean | undefined
}

/** Returns the problem of each change; undefined for one that is allowed. Nothing is changed. */
export type CheckPush = (
  principal: Principal,
  repository: Repository,
  changes: IntendedChange[],
) => Promise<(Problem | undefined)[]>

type Dependencies = RefRules & { git: Git }

// No object has this id.
const newCommit = 'f'.repeat(40)

/** Checks changes one by one with the code that authorizes pushes. */
export function createCheckPush(dependencies: Dependencies): CheckPush {
  const { git } = dependencies

  function historyOf(repository: Repository, { change }: IntendedChange): PushedHistory {
    return {
      async findForced(updates) {
        const ids = updates.map(({ after }) => after).filter((id) => id !== newCommit)
        const known = ids.length > 0 ? await findCommits(git, repository.path, ids) : new Map()
        const found = updates.filter(({ after }) => known.has(after))
        const compared = await findForced(git, repository.path, found)
        const forced = new Set(compared.filter((one) => one.forced).map(({ ref }) => ref))
        // A forced push of a descendant is a fast-forward.
        return updates.map(({ ref, after }) =>
          known.has(after) ? forced.has(ref) : change === 'force',
        )
      },
      async commitsOf(ids) {
        const known = ids.filter((id) => id !== newCommit)
        const found = known.length > 0 ? await findCommits(git, repository.path, known) : new Map()
        // Completes the detail of `run_required` and `status_required`.
        return found.set(newCommit, 'that is pushed')
      },
      find: (names) => findObjects(git, repository.path, names),
    }
  }

  return async (principal, repository, changes) => {
    const values = await readRefs(
      repository.path,
      changes.map(({ ref }) => ref),
    )
    const decisions: (Problem | undefined)[] = []
    for (const intended of changes) {
      const { ref, change, commit = newCommit } = intended
      if (ref.startsWith(proposalRefs)) {
        decisions.push(await checkProposal(principal, repository, intended))
        continue
      }
      const after = change === 'delete' ? zeroId : commit
      const updates = [{ ref, before: values.get(ref) ?? zeroId, after }]
      const push = { landing: intended.landing, isForQueue: intended.isForQueue ?? false }
      const about = { principal, repository, history: historyOf(repository, intended), push }
      const decision = await authorizeUpdates(dependencies, about, updates)
        .then((targets) => refuseDefaultDeletion(repository, updates, targets))
        .then(() => undefined, toRefusal)
      decisions.push(decision)
    }
    return decisions
  }
}

/** The problem of a proposal, as far as it does not depend on its commit. */
async function checkProposal(
  principal: Principal,
  { path }: Repository,
  { ref, change }: IntendedChange,
): Promise<Problem | undefined> {
  try {
    requireRef(principal, ref)
    if (change === 'delete') throw undeletableProposal(ref)
    await readProposalTarget(path, ref)
    return undefined
  } catch (error) {
    return toRefusal(error)
  }
}

function toRefusal(error: unknown): Problem {
  if (error instanceof Problem) return error
  throw error
}
