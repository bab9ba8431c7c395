import type { Principal } from '#access/principal.ts'
import type { ReusedJob } from '#actions/workflow-engine/plan.ts'
import { parseWorkflow } from '#actions/workflow-parser/reading/parse.ts'
import type { SourceFile } from '#actions/workflow-parser/workflow.ts'
import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db, RunJobRow } from '#database/schema.ts'
import { recordActions } from '#events/audit/record.ts'
import type { Git } from '#git/process/git-process.ts'
import { isAncestor } from '#git/refs/ancestry.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { readRefs } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { PublishRuns } from '../run-events.ts'
import { listJobs } from '../run-job-store.ts'
import {
  findRun,
  findWholeRun,
  insertAttempt,
  type ListedRun,
  listGroups,
  lockRuns,
  updateRun,
} from '../run-store.ts'
import { requireQueueSpace, supersede } from './enqueue-run.ts'

type Dependencies = {
  db: Database
  publishRuns: PublishRuns
  git: Git
  changes: Notifier
  clock: Clock
}

const unstarted = {
  conclusion: null,
  fault: '',
  startedAt: null,
  completedAt: null,
  isolation: '',
  cancelReason: null,
  cancelledAt: null,
  runner: '',
  tokenHash: null,
  losses: 0,
  entries: 0,
  logBytes: 0,
  awaitedPack: null,
} as const

/** Returns a function that queues a completed run as its next attempt, with all jobs or only those that did not succeed. */
export function createRerun({ db, publishRuns, git, changes, clock }: Dependencies) {
  return async (
    actor: Principal,
    repository: Repository,
    id: string,
    jobs: 'all' | 'failed',
  ): Promise<void> => {
    const isUnaccepted = await isOfUnacceptedPush(
      git,
      repository,
      await findRun(db, repository.id, id),
    )
    const changed = await db.transaction().execute(async (tx) => {
      await lockRuns(tx, repository.id)
      const run = await findRun(tx, repository.id, id)
      if (run?.status !== 'completed') {
        throw new Problem(
          'run_not_completed',
          'The run has not completed; wait for it, or cancel it first.',
        )
      }
      const files = await requireSources(tx, run)
      await requireQueueSpace(tx, repository.id)
      const ofFailed = { runId: id, attempt: run.attempt }
      const kept = jobs === 'failed' ? reusedJobs(files, await listJobs(tx, ofFailed)) : []
      const now = clock.now()
      const { attempt, actorUsername, conclusion, fault, isolation, startedAt, logBytes } = run
      await insertAttempt(tx, {
        runId: id,
        attempt,
        actorUsername,
        conclusion: conclusion ?? 'failure',
        fault,
        isolation,
        startedAt,
        completedAt: run.completedAt ?? now,
        logBytes,
      })
      const newer = { repositoryId: repository.id, groups: await listGroups(tx, id) }
      const { changed, transitions } = await supersede(
        tx,
        { ...newer, cancels: [], name: run.name },
        now,
      )
      const queued = await updateRun(
        tx,
        { id, status: 'completed', attempt },
        {
          ...unstarted,
          needsApproval: 0,
          ...(!isUnaccepted && { awaitedBy: null }),
          status: 'queued',
          attempt: attempt + 1,
          queuedAt: now,
          actorId: actor.id,
          actorUsername: actor.username,
          kept: JSON.stringify(kept),
        },
      )
      if (queued) transitions.push({ action: 'queued', run: queued })
      await publishRuns(tx, now, transitions)
      await recordActions(tx, now, [
        {
          action: 'run.rerun',
          actor,
          repositoryId: repository.id,
          data: { runId: id, jobs },
        },
      ])
      return changed
    })
    for (const name of [...changed, id, 'queue']) changes.notify(name)
  }
}

// Its jobs must not get more rights by a repetition: a push that waits, or was refused, has not put the commit on the ref.
async function isOfUnacceptedPush(
  git: Git,
  { path }: Repository,
  run: ListedRun | undefined,
): Promise<boolean> {
  if (!run || run.awaitedBy === null) return false
  const tip = (await readRefs(path, [run.ref])).get(run.ref) ?? zeroId
  return tip === zeroId || !(await isAncestor(git, path, run.commitId, tip))
}

// A run that failed before it started has no files.
async function requireSources(tx: Db, { id, fault }: ListedRun): Promise<SourceFile[]> {
  const { sources = '' } = (await findWholeRun(tx, id)) ?? {}
  const { files }: { files: SourceFile[] } = JSON.parse(sources)
  if (files.length > 0) return files
  throw new Problem(
    'workflow_invalid',
    `The run cannot be started: ${fault} Fix this and start a new run.`,
  )
}

/**
 * Selects the jobs of an attempt that are reused when failed jobs are run again: those that succeeded, unless one of
 * the jobs that they need, directly or not, failed, because their result may depend on that failure.
 */
export function reusedJobs(files: SourceFile[], jobs: RunJobRow[]): ReusedJob[] {
  if (!jobs.some(({ conclusion }) => conclusion === 'success')) return []
  const needs = readNeeds(files)
  const keyOf = (file: string, id: string) => JSON.stringify([file, id])
  const failed = new Set(
    jobs
      .filter(({ conclusion }) => conclusion !== 'success' && conclusion !== 'skipped')
      .map(({ file, jobId }) => keyOf(file, topOf(jobId))),
  )

  function isBehindFailure({ file, jobId }: RunJobRow): boolean {
    const top = topOf(jobId)
    // A call is run again as a whole.
    if (top !== jobId && failed.has(keyOf(file, top))) return true
    const seen = new Set<string>()
    const open = [...(needs.get(file)?.get(top) ?? [])]
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      if (failed.has(keyOf(file, id))) return true
      if (seen.has(id)) continue
      seen.add(id)
      open.push(...(needs.get(file)?.get(id) ?? []))
    }
    return false
  }

  return jobs
    .filter((job) => job.conclusion === 'success' && !isBehindFailure(job))
    .map(({ file, jobId, name, matrix, outputs }) => ({
      file,
      id: jobId,
      name,
      matrix,
      conclusion: 'success' as const,
      outputs: JSON.parse(outputs),
    }))
}

/** The job of the file: of `caller/job`, which a called workflow has, the caller. */
function topOf(jobId: string): string {
  return jobId.split('/', 1)[0] ?? jobId
}

/** The `needs` of each job, by file. */
function readNeeds(files: SourceFile[]): Map<string, Map<string, string[]>> {
  return new Map(
    files.map((file) => {
      const jobs = parseWorkflow(file).workflow?.jobs ?? []
      return [file.path, new Map(jobs.map(({ id, needs }) => [id, needs]))]
    }),
  )
}
