import type { Notifier } from '#base/concurrency/notifier.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Repository } from '#repositories/repositories.ts'
import { repositoryDeleted } from '#repositories/repository-errors.ts'
import type { UrlOfRun } from '../run-files/held-run.ts'
import { findRun, type ListedRun } from '../run-store.ts'
import { type DescribeFailure, runNameOf } from '../views/describe-failure.ts'

export type FollowedRun = { id: string; number: number }

type Follower = {
  repository: Repository
  /** Shows a line to the user who waits. */
  onProgress: (line: string) => void
  /** Aborted with a Problem to end the wait. */
  signal: AbortSignal
}

/** Shows the progress of a run until it has succeeded. Throws `run_required` with what failed. */
export type FollowRun = (run: FollowedRun, follower: Follower) => Promise<void>

type Dependencies = {
  db: Database
  changes: Notifier
  describeFailure: DescribeFailure
  urlOf: UrlOfRun
}

const heartbeatMs = 15_000
const shownLines = 30

const of = { consequence: 'nothing was pushed', shownLines }

export function createFollowRun({ db, changes, describeFailure, urlOf }: Dependencies): FollowRun {
  return async (run, follower) => {
    const { repository, onProgress, signal } = follower
    const startedAt = performance.now()
    const say = (line: string) => onProgress(`Run ${run.number} ${line}`)
    let shown: ListedRun['status'] | undefined
    for (;;) {
      const deadline = performance.now() + heartbeatMs
      const changed = await changes.until(run.id, { deadline, signal }, async () => {
        const row = await findRun(db, repository.id, run.id)
        if (!row) throw repositoryDeleted()
        return row.status === shown ? undefined : row
      })
      signal.throwIfAborted()
      const seconds = Math.round((performance.now() - startedAt) / 1000)
      if (changed?.status === 'completed') {
        if (changed.conclusion !== 'success')
          throw new Problem('run_required', await describeFailure(changed, repository, of))
        return say(`(${runNameOf(changed)}) succeeded after ${seconds} s.`)
      }
      if (!changed) say(`is still ${shown} after ${seconds} s.`)
      else if (changed.status === 'running') say(`is running.`)
      else say(`(${runNameOf(changed)}) is queued: ${urlOf(repository, run)}`)
      shown = changed?.status ?? shown
    }
  }
}
