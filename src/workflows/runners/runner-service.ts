import type {
  Claim,
  ClaimBody,
  Orders,
  ReleaseBody,
  Reported,
} from '#actions/runner-api/runner-api.ts'
import type { JobIdentity, Plan, PlanLimits, RunEntry } from '#actions/workflow-engine/plan.ts'
import type { SourceRequest } from '#actions/workflow-engine/run-state.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import { Problem } from '#base/problem.ts'
import { namespaceIn } from '#base/repository-name.ts'
import type { Database } from '#database/database.ts'
import type { Git } from '#git/process/git-process.ts'
import { readDefaultBranch, tagPrefix } from '#git/refs/refs.ts'
import { findRepositorySummary } from '#repositories/repository-summary-store.ts'
import type { LentPacks } from '#repositories/store/store.ts'
import type { OpenSecrets } from '#secrets/secrets.ts'
import { pushedObject, streamCommits, withCommitHeader } from '../commits/run-commits.ts'
import type { IsCauseLive } from '../credentials/run-rights.ts'
import { findWholeRun, type ListedRun, listRunAttempts } from '../run-store.ts'
import type { AwaitedRuns } from '../starting/awaited-runs.ts'
import type { Claimant } from './claim-run.ts'
import type { Reports } from './reports.ts'
import { leaseSeconds, type Queue } from './run-queue.ts'

/** The service behind the runner API. */
export type RunnerService = {
  /** Waits for a run for a runner; undefined when none came in time. A run that cannot be prepared fails. */
  claim: (body: ClaimBody, signal: AbortSignal) => Promise<Claim | undefined>
  /** Streams commits of the repository of a run, as `sourceContentType` says. Throws `ref_not_found`. */
  source: (
    by: Claimant,
    request: SourceRequest,
    signal: AbortSignal,
  ) => Promise<AsyncIterable<Buffer>>
  report: (by: Claimant, body: { first: number; entries: RunEntry[] }) => Promise<Reported>
  /** Renews the lease, and waits up to `waitMs` for a cancellation. */
  orders: (by: Claimant, waitMs: number, signal: AbortSignal) => Promise<Orders>
  release: (by: Claimant, body: ReleaseBody) => Promise<void>
}

type Dependencies = {
  db: Database
  git: Git
  queue: Queue
  reports: Reports
  changes: Notifier
  openSecrets: OpenSecrets
  isCauseLive: IsCauseLive
  directoryOf: (repositoryId: string) => Promise<string>
  awaitedRuns: Pick<AwaitedRuns, 'gitFor'>
  /** In a shared store: the commits of pushes that wait on other servers. */
  lentPacks: Pick<LentPacks, 'open'> | undefined
  baseUrl: () => string
  limits: PlanLimits
}

export function createRunnerService(dependencies: Dependencies): RunnerService {
  const { db, git, queue, reports, changes, openSecrets, isCauseLive, directoryOf } = dependencies
  const { awaitedRuns, lentPacks, baseUrl, limits } = dependencies

  async function toPlan(run: ListedRun, identities: JobIdentity[]): Promise<Plan> {
    const [repository, whole] = [
      await findRepositorySummary(db, run.repositoryId),
      await findWholeRun(db, run.id),
    ]
    if (!repository || !whole)
      throw new Problem('repository_not_found', 'The repository has been deleted.')
    const [first] = await listRunAttempts(db, run.id)
    const names: string[] | undefined =
      run.secretNames === null ? undefined : JSON.parse(run.secretNames)
    // A run of a former collaborator must not get what a namespace shares since.
    const isOwnOnly = namespaceIn(repository.name) === undefined || !(await isCauseLive(whole))
    // Runs of earlier versions have no called workflows.
    const sources: Partial<Plan> & Pick<Plan, 'files' | 'actions'> = JSON.parse(whole.sources)
    const { files, actions, called = [] } = sources
    return {
      runId: run.id,
      attempt: run.attempt,
      number: run.number,
      repository: {
        name: repository.name,
        owner: repository.ownerUsername,
        defaultBranch: await readDefaultBranch(await directoryOf(run.repositoryId)),
      },
      serverUrl: baseUrl(),
      event: run.event,
      ref: run.ref,
      commit: run.commitId,
      actor: first?.actorUsername ?? run.actorUsername,
      triggeringActor: run.actorUsername,
      inputs: JSON.parse(run.inputs),
      payload: JSON.parse(whole.payload),
      files,
      actions,
      called,
      secrets: run.isRestricted ? {} : await openSecrets(run.repositoryId, { names, isOwnOnly }),
      identities,
      kept: JSON.parse(run.kept),
      limits,
    }
  }

  /** The object to which a push moved the tag of a run; undefined for other runs, whose payloads need not be read. */
  async function pushedBy({ id, ref }: Pick<ListedRun, 'id' | 'ref'>): Promise<string | undefined> {
    const whole = ref.startsWith(tagPrefix) ? await findWholeRun(db, id) : undefined
    return whole && pushedObject({ payload: JSON.parse(whole.payload) })
  }

  return {
    async claim(body, signal) {
      const deadline = performance.now() + body.waitSeconds * 1000
      for (;;) {
        const left = Math.max(0, deadline - performance.now())
        const claimed = await queue.claim(body, left, signal)
        if (!claimed) return undefined
        try {
          const plan = await toPlan(claimed.run, claimed.identities)
          if (!signal.aborted) return { claimToken: claimed.token, leaseSeconds, plan }
          await queue.release(claimed.by, { isLoss: false, reason: 'The runner disconnected.' })
          return undefined
        } catch (error) {
          if (!(error instanceof Problem)) throw error
          await queue.complete(claimed.run, 'failure', `The run could not start: ${error.message}`)
        }
      }
    },

    async source(by, request, signal) {
      const { repositoryId, commitId: commit, ref, awaitedPack } = await queue.held(by)
      const ofPush = awaitedRuns.gitFor(by.id)
      if (!ofPush && awaitedPack !== null && lentPacks && request.ref === undefined) {
        if (request.depth !== 1 || request.tags) throw oneCommitOnly()
        const object = (await pushedBy({ id: by.id, ref })) ?? commit
        const pack = await lentPacks.open(JSON.parse(awaitedPack))
        return withCommitHeader({ commit, ref, object }, pack)
      }
      const directory = await directoryOf(repositoryId)
      const run = { commit, ref, pushed: await pushedBy({ id: by.id, ref }) }
      return streamCommits({ git: ofPush ?? git, directory, run, request, signal })
    },

    report: (by, body) => reports.take(by, body),

    async orders(by, waitMs, signal) {
      await queue.renew(by)
      const deadline = performance.now() + waitMs
      await changes.until(by.id, { deadline, signal }, async () => {
        const { cancelReason } = await queue.held(by)
        return cancelReason === null ? undefined : true
      })
      const { cancelReason, cancelledAt } = await queue.renew(by)
      return { cancel: cancelReason, kill: cancelledAt === 0 }
    },

    release: (by, body) => queue.release(by, body),
  }
}

function oneCommitOnly(): Problem {
  return new Problem(
    'ref_not_found',
    'The push that waits for this run is on another server, which lends this one commit: fetch-depth and fetch-tags have no history to fetch until the push is accepted.',
  )
}
