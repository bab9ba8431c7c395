import { isRunUsername } from '#access/names.ts'
import { createPushBudget, matchesPush } from '#actions/workflow-parser/match-triggers.ts'
import type { Workflow, WorkflowTriggers } from '#actions/workflow-parser/workflow.ts'
import { once } from '#base/once.ts'
import type { Database } from '#database/database.ts'
import { mergeGroupPayload, pullRequestPayload } from '#events/github-payloads/proposal-payloads.ts'
import type { CommitSummary } from '#git/objects/commit-object.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import type { Git } from '#git/process/git-process.ts'
import { listRequirements } from '#repositories/list-requirements.ts'
import { readPayloadContext } from '#repositories/payload-context.ts'
import type { RepositorySummary } from '#repositories/repository-summary-store.ts'
import { type CommitFiles, openCommit } from '../commits/commit-files.ts'
import { hasOwnRun } from '../run-store.ts'
import type { RunSpec } from './create-run.ts'
import { changedPaths, type PlanDependencies, planFiles, skipsRuns } from './plan-files.ts'
import { type PlannedRun, toStartFields } from './planned-runs.ts'

/** A commit that may land on a branch: of a version of a change, or of the queue. */
type LandingCandidate = {
  repository: RepositorySummary
  directory: string
  /** Sees the objects of the commit, as `objects` does. */
  git: Git
  objects: ObjectReader
  /** `github.ref`: the name by which the commit can be fetched. */
  ref: string
  /** The full name of the branch. */
  target: string
  commit: string
  /** The commit that its changed paths are compared with. */
  base: string
  actor: RunSpec['actor']
  restriction?: RunSpec['restriction']
} & (
  | { event: 'pull_request'; action: PullRequestAction; change: ProposedChange }
  | { event: 'merge_group' }
)

type PullRequestAction = 'opened' | 'synchronize' | 'reopened'

/** A change as the payload of its runs describes it. */
type ProposedChange = {
  number: number
  title: string
  description: string
  /** Who has proposed it. */
  username: string
  /** The full name of the branch that it follows; empty for none. */
  source: string
  createdAt: number
}

/**
 * Plans the runs of a candidate: of the files that its event starts, and of those that rules of the branch require, whose
 * `on` does not matter.
 */
export type PlanCandidate = (candidate: LandingCandidate) => Promise<PlannedRun[]>

export function createPlanCandidate({
  db,
  baseUrl,
  ...parts
}: PlanDependencies & { db: Database }): PlanCandidate {
  /** The workflow files that a commit needs before it may be pushed to a branch. */
  async function requiredFiles({ repository, target }: LandingCandidate): Promise<Set<string>> {
    const requires = await listRequirements(db, repository.id, target)
    return new Set(requires.flatMap((one) => ('workflow' in one ? [one.workflow] : [])))
  }

  return async (candidate) => {
    const { repository, directory, git, objects, ref, target, base, actor, event } = candidate
    const commit = await openCommit(objects, candidate.commit)
    const head = commit.commit
    if (!head) return []
    // As for pushes. The queue waits for its runs.
    if (event === 'pull_request' && (isRunUsername(actor.username) || skipsRuns(head.message)))
      return []
    const about = { directory, sender: actor.username, baseUrl: baseUrl() }
    const context = await readPayloadContext(repository, about)
    const required = await requiredFiles(candidate)
    const changed = once(() => changedPaths(git, directory, { before: base, after: head.id }))
    const budget = createPushBudget()

    async function isStarted({ path, on }: Workflow): Promise<boolean> {
      if (await matches(on)) return true
      if (!required.has(path)) return false
      // The push of the branch that a change follows has run it.
      const run = { repositoryId: repository.id, commit: candidate.commit, file: path }
      return event === 'merge_group' || !(await hasOwnRun(db, run))
    }

    async function matches(on: WorkflowTriggers): Promise<boolean> {
      const filter = event === 'pull_request' ? on.pullRequest : on.mergeGroup
      const type = event === 'pull_request' ? candidate.action : 'checks_requested'
      if (!filter || filter.types?.includes(type) === false) return false
      const paths = (filter.paths ?? filter.pathsIgnore) ? await changed() : 'unknown'
      return matchesPush(filter, { ref: target, changedPaths: paths, isNew: false }, budget)
    }

    const { planned } = await planFiles(parts, {
      commit,
      paths: await startable(commit, required),
      fields: {
        ...toStartFields(repository, ref, head.id, actor),
        restriction: candidate.restriction,
        event,
        payload: payloadOf(candidate, head, context),
      },
      // An invalid file might have been for it.
      isReported: (path) => event === 'pull_request' || required.has(path),
      isStarted,
    })
    return planned
  }
}

/** The workflow files of a commit, and those of the required ones that it has elsewhere. */
async function startable(commit: CommitFiles, required: Set<string>): Promise<string[]> {
  const listed = await commit.listWorkflows()
  const others = [...required].filter((path) => !listed.includes(path))
  const found = await Promise.all(others.map((path) => commit.read(path)))
  return [...listed, ...found.flatMap((file) => file?.path ?? [])]
}

function payloadOf(
  candidate: LandingCandidate,
  head: CommitSummary,
  about: Awaited<ReturnType<typeof readPayloadContext>>,
): RunSpec['payload'] {
  const { ref, target, base } = candidate
  if (candidate.event === 'merge_group')
    return mergeGroupPayload({ head, headRef: ref, base, baseRef: target }, about)
  const { action, change } = candidate
  const source = change.source === '' ? ref : change.source
  return pullRequestPayload({ ...change, action, source, target, commit: head.id, base }, about)
}
