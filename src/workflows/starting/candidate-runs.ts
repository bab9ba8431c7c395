import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import type { Database } from '#database/database.ts'
import type { Actor } from '#events/events.ts'
import { openObjects } from '#git/objects/object-reader.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import type { Git } from '#git/process/git-process.ts'
import { listRequirements } from '#repositories/list-requirements.ts'
import { findRepositorySummary } from '#repositories/repository-summary-store.ts'
import type { FindMissing, Missing } from '#repositories/requirements.ts'
import type { PublishRuns } from '../run-events.ts'
import { countQueued, findRunById } from '../run-store.ts'
import type { DescribeFailure } from '../views/describe-failure.ts'
import { cancelRun } from './cancel-run.ts'
import { maxQueuedRuns } from './enqueue-run.ts'
import type { PlanCandidate } from './plan-candidate.ts'
import type { PlannedRun, QueueRuns } from './planned-runs.ts'

/** A commit of the queue of a branch. */
type Candidate = {
  repositoryId: string
  /** The full name of the branch. */
  target: string
  commit: string
  /** The commit of the branch at present. */
  base: string
  /** The name by which the commit is fetched. */
  ref: string
  actor: Actor
}

/**
 * How far the runs of a commit are: `gone` if some were deleted, which says nothing of it. `detail` says in lines what has
 * failed, and is empty otherwise.
 */
type Judgement =
  | { state: 'running' }
  | { state: 'gone' }
  | { state: 'success' | 'failure'; detail: string }

/** The runs of commits that may become a branch's. */
export type CandidateRuns = {
  plan: (candidate: Candidate) => Promise<PlannedRun[]>
  create: QueueRuns
  /** Whether further runs of a repository may be queued. */
  mayQueue: (repositoryId: string) => Promise<boolean>
  /** Whether all runs of a commit have succeeded, and it has everything else that the rules of the branch require. */
  judge: (
    trial: Pick<Candidate, 'repositoryId' | 'target' | 'commit'> & {
      runIds: readonly string[]
      startedAt: number
    },
  ) => Promise<Judgement>
  cancel: (runIds: readonly string[], reason: string) => Promise<void>
}

type Dependencies = {
  db: Database
  git: Git
  clock: Clock
  changes: Notifier
  publishRuns: PublishRuns
  planCandidate: PlanCandidate
  queueRuns: QueueRuns
  findMissing: FindMissing
  describeFailure: DescribeFailure
  directoryOf: (repositoryId: string) => Promise<string>
}

/** How long the queue waits for a status. */
const statusPatienceMs = 60 * 60_000
const shownLines = 10

export function createCandidateRuns(dependencies: Dependencies): CandidateRuns {
  const { db, git, clock, changes, publishRuns, planCandidate, findMissing } = dependencies
  const { describeFailure, directoryOf, queueRuns } = dependencies

  async function readRuns(repositoryId: string, ids: readonly string[]) {
    const rows = await Promise.all(ids.map((id) => findRunById(db, id)))
    return rows.flatMap((run) => (run?.repositoryId === repositoryId ? [run] : []))
  }

  /** What the rules of a branch require, and a commit does not have. */
  async function listMissing(
    repository: { id: string; name: string },
    { target, commit }: Pick<Candidate, 'target' | 'commit'>,
  ): Promise<Missing[]> {
    const requires = await listRequirements(db, repository.id, target)
    const directory = await directoryOf(repository.id)
    const find = (names: string[]) => findObjects(git, directory, names)
    const missing: Missing[] = []
    for (const requirement of requires)
      missing.push(...[(await findMissing({ repository, commit, find }, requirement)) ?? []].flat())
    return missing
  }

  return {
    async plan({ repositoryId, ...candidate }) {
      const repository = await findRepositorySummary(db, repositoryId)
      if (!repository) return []
      const directory = await directoryOf(repositoryId)
      await using objects = await openObjects(git, directory)
      const about = { repository, directory, git, objects, event: 'merge_group' as const }
      return await planCandidate({ ...candidate, ...about })
    },

    create: queueRuns,

    mayQueue: async (repositoryId) => (await countQueued(db, repositoryId)) < maxQueuedRuns / 2,

    async judge({ repositoryId, runIds, startedAt, ...candidate }) {
      const repository = await findRepositorySummary(db, repositoryId)
      if (!repository) return { state: 'gone' }
      const rows = await readRuns(repositoryId, runIds)
      if (rows.some(({ status }) => status !== 'completed')) return { state: 'running' }
      if (rows.length < runIds.length) return { state: 'gone' }
      const failed = rows.find(({ conclusion }) => conclusion !== 'success')
      if (failed) {
        const path = await directoryOf(repositoryId)
        const of = { consequence: 'the commit does not land', shownLines }
        return {
          state: 'failure',
          detail: await describeFailure(failed, { ...repository, path }, of),
        }
      }
      const missing = await listMissing(repository, candidate)
      const isLate = startedAt + statusPatienceMs < clock.now()
      // One that was reported for an earlier trial of the same commit is awaited again.
      const lacks = missing.find(
        ({ kind, failedAt = 0 }) => kind !== 'status' || failedAt >= startedAt || isLate,
      )
      if (lacks) return { state: 'failure', detail: `It needs ${lacks.what}.` }
      if (missing.length > 0) return { state: 'running' }
      return { state: 'success', detail: '' }
    },

    async cancel(runIds, reason) {
      for (const id of runIds) await cancelRun({ db, publishRuns, changes, clock }, id, reason)
    },
  }
}
