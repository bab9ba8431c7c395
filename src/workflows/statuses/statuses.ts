import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import { isObjectId } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { CommitStatusRow, RunRow } from '#database/schema.ts'
import type { Publish } from '#events/events.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import type { Git } from '#git/process/git-process.ts'
import type { Repository } from '#repositories/repositories.ts'
import { repositoryGone } from '#repositories/repository-errors.ts'
import { lockRepositorySummary } from '#repositories/repository-summary-store.ts'
import {
  countNewestStatuses,
  countStatuses,
  listRunsOfCommit,
  listStatuses,
  saveStatus,
} from './status-store.ts'

/** What checks say of commits: those from outside, and the runs of workflows. */
export type Statuses = {
  /** Reports on a commit, given by its whole id. Throws `revision_not_found` and `too_many_statuses`. */
  report: (
    principal: Principal,
    repository: Repository,
    commitId: string,
    reported: ReportedStatus,
  ) => Promise<CommitStatus>
  /**
   * Lists the statuses of a commit, the newest first: the last one of each context and user, and for each workflow file that
   * of its newest run. The first one of a context counts. Throws `revision_not_found` for what is no whole id.
   */
  list: (repository: Repository, commitId: string) => Promise<CommitStatus[]>
  /** Combines what checks from outside say of some commits; those of which they say nothing are left out. */
  combine: (repositoryId: string, commitIds: readonly string[]) => Promise<CombinedStatus[]>
}

/** The newest statuses of the contexts of a commit. */
type CombinedStatus = {
  commit: string
  state: 'pending' | 'success' | 'failure'
  contexts: number
  succeeded: number
}

type ReportedStatus = Pick<CommitStatusRow, 'context' | 'state'> & {
  description?: string | undefined
  targetUrl?: string | undefined
}

/** Null is for what is unknown, and `run` for what no run of a workflow has reported. */
type CommitStatus = Pick<
  CommitStatusRow,
  'context' | 'state' | 'description' | 'username' | 'createdAt'
> & { targetUrl: string | null; run: Pick<RunRow, 'id' | 'number' | 'name'> | null }

type Dependencies = {
  db: Database
  git: Git
  publish: Publish
  clock: Clock
  /** The address of a run, for people. */
  urlOfRun: (repository: Repository, run: Pick<RunRow, 'id' | 'number'>) => string
}

/** Statuses per commit. */
export const maxStatuses = 1000
const shownRuns = 100

export function createStatuses(dependencies: Dependencies): Statuses {
  const { db, git, publish, clock, urlOfRun } = dependencies

  async function requireCommit({ path }: Repository, id: string): Promise<void> {
    const found = isObjectId(id) ? await findObjects(git, path, [`${id}^{commit}`]) : undefined
    if (!found?.size) throw noCommit(id)
  }

  return {
    async report({ username, ...actor }, repository, commitId, reported) {
      await requireCommit(repository, commitId)
      const now = clock.now()
      const { context, state, description = '', targetUrl = '' } = reported
      const of = { repositoryId: repository.id, commitId }
      const about = { context, state, description, targetUrl, username }
      await db.transaction().execute(async (tx) => {
        if (!(await lockRepositorySummary(tx, repository.id))) throw repositoryGone(repository)
        await saveStatus(tx, { id: newId(now), ...of, ...about, createdAt: now })
        const data = { commit: commitId, context, state, description, targetUrl }
        await publish(tx, now, [
          {
            kind: 'status.reported',
            actor: { ...actor, username },
            repositoryId: repository.id,
            data,
          },
        ])
        // Counted last: publishing serializes concurrent reports, so their rows are visible now.
        if ((await countStatuses(tx, of)) > maxStatuses) throw tooMany()
      })
      return { ...about, targetUrl: targetUrl || null, createdAt: now, run: null }
    },

    async combine(repositoryId, commitIds) {
      const counted = await countNewestStatuses(db, repositoryId, commitIds)
      return counted.map(({ commitId: commit, contexts, succeeded, pending }) => {
        const state = succeeded === contexts ? 'success' : 'pending'
        const hasFailed = succeeded + pending < contexts
        return { commit, state: hasFailed ? 'failure' : state, contexts, succeeded }
      })
    },

    async list(repository, commitId) {
      if (!isObjectId(commitId)) throw noCommit(commitId)
      const of = { repositoryId: repository.id, commitId }
      const [reported, runs] = await Promise.all([
        listStatuses(db, of),
        listRunsOfCommit(db, of, shownRuns),
      ])
      const files = new Set<string>()
      const ofRuns = runs.flatMap((run) =>
        (JSON.parse(run.files) as string[]).flatMap((file) => {
          if (files.has(file)) return []
          files.add(file)
          const { id, number, name, actorUsername: username, queuedAt: createdAt } = run
          return {
            ...{ context: file, state: toState(run), description: run.fault, username, createdAt },
            targetUrl: urlOfRun(repository, run),
            run: { id, number, name },
          }
        }),
      )
      const ofOthers = reported.map(({ id: _, repositoryId, commitId, targetUrl, ...status }) => ({
        ...status,
        targetUrl: targetUrl || null,
        run: null,
      }))
      return [...ofOthers, ...ofRuns].sort((one, other) => other.createdAt - one.createdAt)
    },
  }
}

function toState({
  status,
  conclusion,
}: Pick<RunRow, 'status' | 'conclusion'>): CommitStatusRow['state'] {
  if (status !== 'completed') return 'pending'
  if (conclusion === 'success') return 'success'
  return conclusion === 'cancelled' ? 'error' : 'failure'
}

function noCommit(id: string): Problem {
  return new Problem('revision_not_found', `There is no commit with the whole id "${id}".`)
}

function tooMany(): Problem {
  const detail = `The commit has ${maxStatuses} statuses, which is the maximum.`
  return new Problem('too_many_statuses', detail)
}
