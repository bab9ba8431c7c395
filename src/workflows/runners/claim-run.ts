import type { JobIdentity } from '#actions/workflow-engine/plan.ts'
import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { hashToken } from '#base/token-string.ts'
import type { Database } from '#database/database.ts'
import type { RunRow } from '#database/schema.ts'
import { lockRepositorySummary } from '#repositories/repository-summary-store.ts'
import { issueJobTokens, newRunToken } from '../credentials/job-tokens.ts'
import type { PublishRuns } from '../run-events.ts'
import {
  type ListedRun,
  listGroups,
  listInGroups,
  listUnfinished,
  lockRuns,
  type Unfinished,
  updateRun,
} from '../run-store.ts'

type Dependencies = {
  db: Database
  publishRuns: PublishRuns
  changes: Notifier
  clock: Clock
  faultPoint: FaultPoint
  baseUrl: () => string
}

// The first lease is short: the response to a claim may be lost when its runner has disconnected.
export const firstLeaseMs = 15_000

/** A runner that claims a run. */
export type QueueRunner = { name: string; labels: string[] }

/** The runner that holds a run, identified by the run's token. Each claim creates a new token. */
export type Claimant = { id: string; tokenHash: string }

/** A claimed run with its token, and the credentials of its jobs. */
export type Claimed = { run: ListedRun; token: string; by: Claimant; identities: JobIdentity[] }

/** Claims the next run for a runner; undefined when there is none for it. */
export type ClaimRun = (runner: QueueRunner) => Promise<Claimed | undefined>

export function createClaimRun(dependencies: Dependencies): ClaimRun {
  const { db, publishRuns, changes, clock, faultPoint, baseUrl } = dependencies

  // Fair share: users with the fewest running runs come first, then repositories with the fewest, then the oldest run.
  async function candidates({ labels }: QueueRunner): Promise<Unfinished[]> {
    const unfinished = await listUnfinished(db)
    const has = new Set(labels)
    const busyUsers = countRunning(unfinished, 'actorUsername')
    const busyRepositories = countRunning(unfinished, 'repositoryId')
    const waiting = unfinished.filter((run) => run.status === 'queued' && !run.needsApproval)
    const eligible = waiting.filter((run) => labelsOf(run).every((label) => has.has(label)))
    const ofUser = ({ actorUsername }: Unfinished) => busyUsers.get(actorUsername) ?? 0
    const ofRepository = ({ repositoryId }: Unfinished) => busyRepositories.get(repositoryId) ?? 0
    return eligible.sort(
      (a, b) =>
        ofUser(a) - ofUser(b) || ofRepository(a) - ofRepository(b) || (a.id < b.id ? -1 : 1),
    )
  }

  async function take(
    { id, repositoryId }: Unfinished,
    runner: QueueRunner,
  ): Promise<Claimed | undefined> {
    const token = newRunToken()
    const tokenHash = hashToken(token)
    const taken = await db.transaction().execute(async (tx) => {
      const now = clock.now()
      // A crash between its deletion and the end of its runs leaves some.
      if (!(await lockRepositorySummary(tx, repositoryId))) return undefined
      const groups = await listGroups(tx, id)
      // Of two concurrent claims in one concurrency group, the second must see the first.
      if (groups.length > 0) await lockRuns(tx, repositoryId)
      const claimed = await updateRun(
        tx,
        { id, status: 'queued', needsApproval: 0 },
        {
          status: 'running',
          runner: runner.name,
          leaseUntil: now + firstLeaseMs,
          tokenHash,
          startedAt: now,
        },
      )
      if (!claimed) return undefined
      const others = await listInGroups(tx, { repositoryId, groups, status: 'running' })
      if (others.some((other) => other !== id)) {
        const again = { status: 'queued', tokenHash: null, startedAt: null, runner: '' } as const
        await updateRun(tx, { id, status: 'running' }, again)
        return undefined
      }
      const issued = { claim: tokenHash, serverUrl: baseUrl() }
      const identities = await issueJobTokens(tx, claimed, issued)
      await publishRuns(tx, now, [{ action: 'running', run: claimed }])
      return { run: claimed, identities }
    })
    if (!taken) return undefined
    faultPoint('run.claimed')
    changes.notify(id)
    return { ...taken, token, by: { id, tokenHash } }
  }

  return async (runner) => {
    for (const candidate of await candidates(runner)) {
      const claimed = await take(candidate, runner)
      if (claimed) return claimed
    }
    return undefined
  }
}

function countRunning(
  runs: readonly Unfinished[],
  by: 'actorUsername' | 'repositoryId',
): Map<string, number> {
  const counts = new Map<string, number>()
  for (const run of runs)
    if (run.status === 'running') counts.set(run[by], (counts.get(run[by]) ?? 0) + 1)
  return counts
}

function labelsOf({ labels }: Pick<RunRow, 'labels'>): string[] {
  return JSON.parse(labels)
}
