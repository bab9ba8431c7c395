import { createHash, randomBytes } from 'node:crypto'
import type { Principal } from '#access/principal.ts'
import { createChecker } from '#actions/workflow-parser/checker.ts'
import type { Clock } from '#base/clock.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import type { Log } from '#base/log.ts'
import { apiPathOf } from '#base/repository-name.ts'
import { Sensitive } from '#base/sensitive.ts'
import { hashToken } from '#base/token-string.ts'
import type { FreeSpace } from '#config/free-space.ts'
import type { Settings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Nodes } from '#database/nodes/nodes.ts'
import { createSharedNotifier } from '#database/nodes/shared-notifier.ts'
import type { EventNotifier } from '#events/event-notifier.ts'
import type { Publish } from '#events/events.ts'
import type { RunSummary } from '#events/github-payloads/reported-run.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import type { Git } from '#git/process/git-process.ts'
import type { JsonRoute } from '#http/route.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { FindMissing } from '#repositories/requirements.ts'
import type { FindRuleWarnings } from '#repositories/rights/protection-routes.ts'
import type { Store } from '#repositories/store/store.ts'
import type { OpenSecrets } from '#secrets/secrets.ts'
import type { Vault } from '#secrets/vault/vault.ts'
import { createIssueIdToken, idTokenRoutes } from './credentials/id-token-claims.ts'
import { createJobPrincipals, isRunToken } from './credentials/job-tokens.ts'
import { createRunRights } from './credentials/run-rights.ts'
import type { IdTokens } from './id-tokens/id-tokens.ts'
import { createPublishRuns } from './run-events.ts'
import type { UrlOfRun } from './run-files/held-run.ts'
import { createRunFiles } from './run-files/run-files.ts'
import { createRunShells } from './run-shells/run-shells.ts'
import { countUnfinished, findRunByToken } from './run-store.ts'
import { createReports } from './runners/reports.ts'
import { createQueue } from './runners/run-queue.ts'
import type { RunnerProcess } from './runners/runner-process.ts'
import { ownClaim, runnerRoutes, stepNetworkRoutes } from './runners/runner-routes.ts'
import { createRunnerService } from './runners/runner-service.ts'
import { runRoutes } from './runs/run-routes.ts'
import { createRuns } from './runs/runs.ts'
import { type AwaitedRuns, createAwaitedRuns } from './starting/awaited-runs.ts'
import { type CandidateRuns, createCandidateRuns } from './starting/candidate-runs.ts'
import { createFollowRun } from './starting/follow-run.ts'
import { createPlanCandidate } from './starting/plan-candidate.ts'
import { createPlanPush } from './starting/plan-push.ts'
import { createQueueRuns } from './starting/planned-runs.ts'
import { createTriggers } from './starting/triggers.ts'
import { createFindMissing } from './statuses/missing-requirement.ts'
import { createFindRuleWarnings } from './statuses/rule-warnings.ts'
import { statusRoutes } from './statuses/status-routes.ts'
import { createStatuses } from './statuses/statuses.ts'
import { createDescribeFailure } from './views/describe-failure.ts'
import { createLogReader } from './views/run-logs.ts'
import { createRunViews, type RunAtEvent } from './views/run-view.ts'
import { startWorkflowLoop } from './workflow-loop.ts'

const runnerPrefix = 'svcrunner_'

/** Workflows: their routes, their triggers, and the queue for runners. */
export type Workflows = {
  routes: JsonRoute[]
  /** Prepares the files of artifacts and caches for a server that starts. */
  prepareFiles: () => Promise<void>
  /** Deletes artifacts and caches that are over, unused, or beyond the limits. */
  sweepFiles: () => Promise<void>
  /** The token of the server's own runner. */
  runnerToken: Sensitive<string>
  /** Returns the principal of the server's own runner, a run or its jobs; undefined for any other token. */
  authenticate: (token: string) => Promise<Principal | undefined>
  /** Whether the token of a run's principal is still valid. */
  isRunTokenValid: (principal: Principal) => Promise<boolean>
  /** Returns the current state of the principal of a job; undefined when its run has ended. */
  refreshJob: (principal: Principal) => Promise<Principal | undefined>
  /** Describes a run in the state at the time of an event. */
  describeRun: (run: RunAtEvent) => Promise<RunSummary>
  findMissing: FindMissing
  findRuleWarnings: FindRuleWarnings
  /** Runs workflows at commits of a push that is not accepted unless the runs succeed. */
  runAwaited: AwaitedRuns['run']
  /** The runs of commits that may become a branch's. */
  candidateRuns: CandidateRuns
  /** Ends the runs of a repository that is about to be deleted. */
  endRuns: (repositoryId: string) => Promise<void>
  /** Whether a run is queued. */
  hasWork: () => Promise<boolean>
  /** Counts queued and running runs. */
  countUnfinished: () => ReturnType<typeof countUnfinished>
  /** Queues the runs of the server's own runner again and ends its shells, after it or the server has exited. */
  recover: () => Promise<void>
  /** Starts handling pushes and schedules; wakes the runner whenever a run is queued. */
  start: (runner: Pick<RunnerProcess, 'wake'>, pool: Pick<ObjectPool, 'of'>) => AsyncDisposable
}

type Dependencies = {
  db: Database
  publish: Publish
  git: Git
  notifier: EventNotifier
  repositories: Repositories
  openSecrets: OpenSecrets
  store: Pick<Store, 'open' | 'bucket' | 'shared'>
  freeSpace: FreeSpace
  idTokens: Pick<IdTokens, 'issue'>
  /** Returns a principal as of now; undefined when its token was deleted or has expired. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  baseUrl: () => string
  settings: Settings
  vault: () => Promise<Vault>
  clock: Clock
  faultPoint: FaultPoint
  log: Log
  nodes: Nodes
}

export function createWorkflows(dependencies: Dependencies): Workflows {
  const { db, publish, git, notifier, repositories, store, baseUrl } = dependencies
  const { settings, clock, nodes, idTokens } = dependencies
  const directoryOf = store.open
  const lentPacks = store.shared?.lentPacks
  const changes = createSharedNotifier(nodes, 'workflows')
  const checker = createChecker()
  const { runSeconds } = settings
  const publishRuns = createPublishRuns(publish)
  const parts = { ...dependencies, publishRuns, changes, checker, directoryOf, lentPacks }
  const queue = createQueue({ ...parts, runSeconds })
  const reports = createReports({ ...parts, queue })
  const runs = createRuns({ ...parts, queue })
  const planPush = createPlanPush(parts)
  const planCandidate = createPlanCandidate(parts)
  const queueRuns = createQueueRuns(parts)
  const views = createRunViews({ db, git })
  const urlOfRun: UrlOfRun = ({ name }, { id, number }) =>
    settings.pages
      ? `${baseUrl()}/r/${name}/runs/${number}`
      : `${baseUrl()}${apiPathOf(name)}/workflows/${id}`
  const describeFailure = createDescribeFailure({ views, urlOf: urlOfRun })
  const followRun = createFollowRun({ db, changes, describeFailure, urlOf: urlOfRun })
  const findMissing = createFindMissing(db)
  const candidateRuns = createCandidateRuns({
    ...{ ...parts, planCandidate, queueRuns, findMissing, describeFailure },
  })
  const awaitedRuns = createAwaitedRuns({ ...parts, planPush, followRun })
  const rights = createRunRights(dependencies)
  const runnerService = createRunnerService({
    ...parts,
    isCauseLive: rights.isCauseLive,
    queue,
    reports,
    awaitedRuns,
    limits: {
      runTimeoutMs: runSeconds * 1000,
      stepTimeoutMs: settings.stepSeconds * 1000,
      outputMaxBytes: settings.stepOutputMaxBytes,
    },
  })
  const logs = createLogReader({ db, changes })
  const principalOfJob = createJobPrincipals({ db, findRunRights: rights.find })
  const heldRun = async (principal: Principal, id: string) => {
    const claim = ownClaim(principal, id)
    return { ...(await queue.held(claim)), tokenHash: claim.tokenHash }
  }
  const shells = createRunShells({ ...dependencies, findRun: runs.find, heldRun })
  const runFiles = createRunFiles({
    ...dependencies,
    node: nodes.own,
    findRun: runs.find,
    heldRun,
    urlOfRun,
    isHeld: async (tx, { tokenHash }) => (await findRunByToken(tx, tokenHash)) !== undefined,
  })
  const runnerToken = new Sensitive(`${runnerPrefix}${randomBytes(24).toString('base64url')}`)
  // Each server has its own runner, and may take back only the runs of that one.
  const ownRunner = `local-${createHash('sha256').update(nodes.own).digest('hex').slice(0, 8)}`
  const runnerTokenHash = hashToken(runnerToken.reveal())

  return {
    routes: [
      ...runRoutes({ repositories, runs, views, logs }),
      ...statusRoutes({ repositories, statuses: createStatuses({ ...dependencies, urlOfRun }) }),
      ...runFiles.routes,
      ...shells.routes,
      ...runnerRoutes(runnerService, ownRunner),
      ...stepNetworkRoutes({ settings }),
      ...idTokenRoutes(
        createIssueIdToken({ db, idTokens, isCauseLive: rights.isCauseLive, clock }),
      ),
    ],

    prepareFiles: runFiles.prepare,
    sweepFiles: runFiles.sweep,

    runnerToken,

    async authenticate(token) {
      if (isRunToken(token)) {
        const tokenHash = hashToken(token)
        const run = await findRunByToken(db, tokenHash)
        if (!run) return principalOfJob(tokenHash)
        return { kind: 'run', id: run.id, tokenHash, username: '', permissions: new Set() }
      }
      if (!token.startsWith(runnerPrefix) || hashToken(token) !== runnerTokenHash) return undefined
      return { kind: 'runner', id: 'runner', username: '', permissions: new Set(['runner']) }
    },

    isRunTokenValid: async ({ tokenHash = '' }) =>
      (await findRunByToken(db, tokenHash)) !== undefined,

    refreshJob: ({ tokenHash = '' }) => principalOfJob(tokenHash),

    describeRun: views.atEvent,
    findMissing,
    findRuleWarnings: createFindRuleWarnings(parts),

    runAwaited: awaitedRuns.run,

    candidateRuns,

    async endRuns(repositoryId) {
      await shells.endOf(repositoryId)
      await runs.endAll(repositoryId)
    },

    hasWork: async () => (await countUnfinished(db)).some(({ status }) => status === 'queued'),

    countUnfinished: () => countUnfinished(db),

    async recover() {
      await awaitedRuns.sweep()
      await queue.sweep(ownRunner)
      await shells.onRunnerLost(ownRunner)
    },

    start(runner, pool) {
      const triggers = createTriggers({
        ...{ ...parts, queueRuns, pool, planPush, planCandidate },
        findPushRight: rights.findPushRight,
      })
      const keptDays = settings.runsKeptDays
      const loop = { ...parts, triggers, queue, awaitedRuns, shells, keptDays }
      const started = startWorkflowLoop(loop)
      const eventSubscription = notifier.onEvents(started.wake)
      const queueSubscription = changes.onChange('queue', runner.wake)
      return {
        async [Symbol.asyncDispose]() {
          eventSubscription[Symbol.dispose]()
          queueSubscription[Symbol.dispose]()
          await started[Symbol.asyncDispose]()
          await checker[Symbol.asyncDispose]()
        },
      }
    },
  }
}
