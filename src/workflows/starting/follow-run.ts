import { maskAndShorten } from '#actions/secret-masking/mask-and-shorten.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import { printableLine } from '#base/format.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Repository } from '#repositories/repositories.ts'
import { repositoryDeleted } from '#repositories/repository-errors.ts'
import type { UrlOfRun } from '../run-files/held-run.ts'
import { findRun, type ListedRun } from '../run-store.ts'
import type { createRunViews } from '../views/run-view.ts'

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
  views: Pick<ReturnType<typeof createRunViews>, 'one'>
  urlOf: UrlOfRun
}

const heartbeatMs = 15_000
const shownLines = 30
const lineMaxLength = 400

export function createFollowRun({ db, changes, views, urlOf }: Dependencies): FollowRun {
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
          throw new Problem('run_required', await digest(changed, repository))
        return say(`(${nameOf(changed)}) succeeded after ${seconds} s.`)
      }
      if (!changed) say(`is still ${shown} after ${seconds} s.`)
      else if (changed.status === 'running') say(`is running.`)
      else say(`(${nameOf(changed)}) is queued: ${urlOf(repository, run)}`)
      shown = changed?.status ?? shown
    }
  }

  /** Describes the failure for a terminal; all texts are masked. */
  async function digest(run: ListedRun, repository: Repository): Promise<string> {
    const { failure } = await views.one(run, repository)
    const { job, step, exitCode, reason, lastLines = [] } = failure ?? {}
    const where = [job && `job ${job}`, step && `step "${step}"`].filter(Boolean).join(', ')
    const why =
      reason || (exitCode === null || exitCode === undefined ? '' : `exit code ${exitCode}`)
    const lines = [
      `Run ${run.number} (${nameOf(run)}) ended with ${run.conclusion}; nothing was pushed.`,
      [where, why || (failure ? '' : run.fault)].filter(Boolean).join(': '),
      ...lastLines.slice(-shownLines).map((line) => `  ${line}`),
      urlOf(repository, run),
    ]
    return lines.filter(Boolean).flatMap(toShown).join('\n')
  }
}

function nameOf({ name }: ListedRun): string {
  return printableLine(name)
}

function toShown(text: string): string[] {
  return text
    .split('\n')
    .map((line) =>
      maskAndShorten(printableLine(line), { mask: (same) => same, maxLength: lineMaxLength }),
    )
}
