import type { Principal } from '#access/principal.ts'
import type { Checker } from '#actions/workflow-parser/checker.ts'
import { readInputs } from '#actions/workflow-parser/reading/given-inputs.ts'
import type { SourceFile } from '#actions/workflow-parser/workflow.ts'
import { workflowsFolder } from '#actions/workflow-parser/workflow-folders.ts'
import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import type { FaultPoint } from '#base/fault-points.ts'
import { isId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import { shortRef } from '#base/short-ref.ts'
import type { Database } from '#database/database.ts'
import { recordActions } from '#events/audit/record.ts'
import { hasUnreadOf } from '#events/cursors.ts'
import { dispatchPayload } from '#events/github-payloads/started-payloads.ts'
import { openObjects } from '#git/objects/object-reader.ts'
import type { Git } from '#git/process/git-process.ts'
import { isRefName, zeroId } from '#git/refs/ref-name.ts'
import { readDefaultBranch, readRefs } from '#git/refs/refs.ts'
import { readPayloadContext } from '#repositories/payload-context.ts'
import type { Repository } from '#repositories/repositories.ts'
import { type CommitFiles, openCommit } from '../commits/commit-files.ts'
import {
  checkedFolders,
  toCheckedPaths,
  toGivenFiles,
  toWorkflowPaths,
} from '../commits/workflow-paths.ts'
import {
  checkSources,
  invalidWorkflows,
  readSources,
  type Sources,
  withoutCallees,
} from '../commits/workflow-sources.ts'
import type { PublishRuns } from '../run-events.ts'
import {
  findRun,
  findRunByNumber,
  type ListedRun,
  listRuns,
  listUnfinished,
  lockRuns,
  type RunFilter,
  updateRun,
} from '../run-store.ts'
import type { Queue } from '../runners/run-queue.ts'
import { inputsFault, type RunSpec } from '../starting/create-run.ts'
import { completeQueued, enqueueRun, requireQueueSpace } from '../starting/enqueue-run.ts'
import { createNameMask } from '../starting/planned-runs.ts'
import { createRerun } from '../starting/rerun.ts'
import { reactedKinds } from '../starting/triggers.ts'

/** Starts, lists, cancels and reruns workflow runs. */
export type Runs = {
  /** Queues a run of workflow files at the latest commit of a branch. Throws a Problem if they cannot run. */
  start: (
    actor: Principal,
    repository: Repository,
    request: RunRequest,
  ) => Promise<{ id: string; number: number; status: 'queued' }>
  /** Finds a run by its id or its number. Throws `run_not_found`. */
  find: (repository: Repository, idOrNumber: string) => Promise<ListedRun>
  /** Lists the runs of a repository, newest first, including those of every push and version acknowledged before the call. */
  list: (
    repository: Repository,
    options: RunFilter & { before: string; limit: number; signal: AbortSignal },
  ) => Promise<ListedRun[]>
  /** Waits until a run has completed or `waitMs` have passed, and returns it. */
  wait: (
    repository: Repository,
    id: string,
    options: { waitMs: number; signal: AbortSignal },
  ) => Promise<ListedRun>
  /** Cancels a run: at once when it is queued, else as soon as its runner has stopped it. */
  cancel: (actor: Principal, repository: Repository, id: string) => Promise<ListedRun>
  /** Lets a run be executed that waits for an approval. Throws `run_completed` and `too_many_runs`. */
  approve: (actor: Principal, repository: Repository, id: string) => Promise<ListedRun>
  /** Queues a completed run as its next attempt, with all jobs or only those that did not succeed. */
  rerun: (
    actor: Principal,
    repository: Repository,
    id: string,
    jobs: 'all' | 'failed',
  ) => Promise<ListedRun>
  /** Checks workflow files from the request, or else from a branch. Actions are always read from the branch. */
  validate: (
    repository: Repository,
    request: {
      branch?: string | undefined
      files?: string[] | undefined
      contents?: SourceFile[] | undefined
    },
  ) => Promise<Pick<Sources, 'faults' | 'notes' | 'workflows'>>
  /** Ends all runs of a repository before its deletion, and waits until their processes have exited. */
  endAll: (repositoryId: string) => Promise<void>
}

type Dependencies = {
  db: Database
  publishRuns: PublishRuns
  git: Git
  checker: Checker
  queue: Queue
  changes: Notifier
  clock: Clock
  faultPoint: FaultPoint
  /** Opens the secrets of a repository. */
  openSecrets: (repositoryId: string) => Promise<Record<string, string>>
  baseUrl: () => string
}

/** A request to run workflows; all workflow files of the default branch unless it says otherwise. */
type RunRequest = {
  branch?: string | undefined
  files?: string[] | undefined
  inputs?: Record<string, string | number | boolean> | undefined
}

/** The name that is notified when pushes have been handled. */
export const reactedName = 'reacted'

const deletionWaitMs = 5_000
// Checking a push with very many workflow files can take longer.
const reactionWaitMs = 10_000

export function createRuns(dependencies: Dependencies): Runs {
  const { db, publishRuns, git, checker, queue, changes } = dependencies
  const { clock, openSecrets, faultPoint, baseUrl } = dependencies

  const rerun = createRerun({ db, publishRuns, git, changes, clock })

  async function find(repository: Repository, idOrNumber: string): Promise<ListedRun> {
    const isNumber = /^[1-9]\d{0,8}$/.test(idOrNumber)
    const run = isNumber
      ? await findRunByNumber(db, repository.id, Number(idOrNumber))
      : isId(idOrNumber)
        ? await findRun(db, repository.id, idOrNumber)
        : undefined
    if (run) return run
    throw new Problem('run_not_found', `There is no run with the number or id "${idOrNumber}".`)
  }

  return {
    async start(actor, repository, request) {
      const named = request.files && toWorkflowPaths(request.files)
      const { ref, target } = await resolve(repository, request.branch)
      await using objects = await openObjects(git, repository.path)
      const commit = await openCommit(objects, target)
      // An annotated tag may point to something other than a commit.
      if (!commit.commit) throw new Problem('ref_not_found', `${ref} does not point to a commit.`)
      const commitId = commit.commit.id
      const paths = named ?? (await commit.listWorkflows())
      const read = await readSources(checker, commit, paths)
      const sources = withoutCallees(read, named !== undefined)
      if (sources.faults.length > 0) throw invalidWorkflows(sources.faults)
      if (sources.files.length === 0) {
        const where = `The commit ${commitId} of ${shortRef(ref)}`
        throw new Problem('workflow_not_found', `${where} has no workflow in ${workflowsFolder}/.`)
      }
      const declared = Object.assign({}, ...sources.workflows.map(({ on }) => on.dispatch?.inputs))
      const inputs = valuesOf(readInputs(declared, request.inputs ?? {}))
      const detail = inputsFault(inputs)
      if (detail)
        throw new Problem('invalid_request', detail, { errors: [{ pointer: '/inputs', detail }] })
      const mask = await createNameMask(openSecrets, repository.id, sources)
      const { id: repositoryId, name, ownerUsername: owner, path: directory } = repository
      const from = { directory, sender: actor.username, baseUrl: baseUrl() }
      const about = await readPayloadContext(repository, from)
      const start: RunSpec = {
        repository: { id: repositoryId, name, owner },
        actor,
        event: 'workflow_dispatch',
        ref,
        commit: commitId,
        inputs,
        payload: dispatchPayload(ref, inputs, about),
        sources,
        mask,
      }
      const queued = await db.transaction().execute(async (tx) => {
        const now = clock.now()
        const { transitions, ...made } = await enqueueRun(tx, start, now)
        await publishRuns(tx, now, transitions)
        await recordActions(tx, now, [
          {
            action: 'run.started',
            actor,
            repositoryId,
            data: { runId: made.id, number: made.number, files: paths, ref, commit: commitId },
          },
        ])
        return made
      })
      faultPoint('run.queued')
      for (const name of [...queued.changed, 'queue']) changes.notify(name)
      return { id: queued.id, number: queued.number, status: 'queued' as const }
    },

    find,

    async list(repository, { signal, ...page }) {
      const unread = { repositoryId: repository.id, kinds: reactedKinds }
      const deadline = performance.now() + reactionWaitMs
      await changes.until(reactedName, { deadline, signal }, async () =>
        (await hasUnreadOf(db, 'workflows', unread)) ? undefined : true,
      )
      return listRuns(db, repository.id, page)
    },

    async wait(repository, idOrNumber, { waitMs, signal }) {
      const { id } = await find(repository, idOrNumber)
      const deadline = performance.now() + waitMs
      await changes.until(id, { deadline, signal }, async () => {
        const { status } = await find(repository, id)
        return status === 'completed' ? status : undefined
      })
      return find(repository, id)
    },

    async cancel(actor, repository, id) {
      const now = clock.now()
      const reason = `Cancelled by ${actor.username}.`
      const action = { action: 'run.cancelled', data: { runId: id } } as const
      const entry = { ...action, actor, repositoryId: repository.id }
      await db.transaction().execute(async (tx) => {
        if (await completeQueued(tx, publishRuns, { id, reason, now }))
          return recordActions(tx, now, [entry])
        const order = { cancelReason: reason, cancelledAt: now }
        const { status, cancelReason } = (await findRun(tx, repository.id, id)) ?? {}
        // Cancelled before.
        if (status === 'running' && typeof cancelReason === 'string') return
        if (!(await updateRun(tx, { id, status: 'running' }, order))) {
          throw new Problem('run_completed', 'The run has completed; there is nothing to cancel.')
        }
        await recordActions(tx, now, [entry])
      })
      for (const name of [id, 'queue']) changes.notify(name)
      return find(repository, id)
    },

    async approve(actor, repository, id) {
      await db.transaction().execute(async (tx) => {
        const now = clock.now()
        await lockRuns(tx, repository.id)
        const run = await findRun(tx, repository.id, id)
        if (run?.status === 'completed')
          throw new Problem('run_completed', 'The run has completed; there is nothing to approve.')
        if (run?.needsApproval !== 1) return
        await requireQueueSpace(tx, repository.id)
        const approval = { needsApproval: 0, queuedAt: now }
        const approved = await updateRun(tx, { id, status: 'queued' }, approval)
        if (approved) await publishRuns(tx, now, [{ action: 'queued', run: approved }])
        const action = { action: 'run.approved', data: { runId: id } } as const
        await recordActions(tx, now, [{ ...action, actor, repositoryId: repository.id }])
      })
      for (const name of [id, 'queue']) changes.notify(name)
      return find(repository, id)
    },

    async rerun(actor, repository, id, jobs) {
      await rerun(actor, repository, id, jobs)
      return find(repository, id)
    },

    async validate(repository, request) {
      const paths = toCheckedPaths(request.files ?? [])
      const given = toGivenFiles(request.contents ?? [])
      const at = await resolve(repository, request.branch).catch((error) => {
        // Contents can be checked even when the repository has no commit.
        if (given.length > 0 && request.branch === undefined) return undefined
        throw error
      })
      if (!at) return checkSources(checker, given, async () => undefined)
      await using objects = await openObjects(git, repository.path)
      const commit = await openCommit(objects, at.target)
      if (given.length > 0) return await checkSources(checker, given, commit.read)
      return await readSources(checker, commit, await pathsToCheck(commit, paths))
    },

    async endAll(repositoryId) {
      const now = clock.now()
      const reason = 'The repository was deleted.'
      for (const { id } of await listUnfinished(db, repositoryId)) {
        await db.transaction().execute(async (tx) => {
          if (await completeQueued(tx, publishRuns, { id, reason, now })) return
          // The time 0 makes the runner kill the steps instead of asking them to stop.
          await updateRun(tx, { id, status: 'running' }, { cancelReason: reason, cancelledAt: 0 })
        })
        changes.notify(id)
      }
      const deadline = performance.now() + deletionWaitMs
      for (const { id } of await listUnfinished(db, repositoryId)) {
        await changes.until(id, { deadline, signal: new AbortController().signal }, async () => {
          const rest = await listUnfinished(db, repositoryId)
          return rest.some((run) => run.id === id) ? undefined : true
        })
      }
      // A runner that does not respond loses its lease, and ends the run when it notices.
      for (const run of await listUnfinished(db, repositoryId)) {
        const whole = await findRun(db, repositoryId, run.id)
        if (whole) await queue.complete(whole, 'cancelled', reason)
      }
    },
  }
}

/** Resolves a branch name or a full ref name to the ref and the object it points to. */
async function resolve({ path }: Repository, branch: string | undefined) {
  const name = branch ?? (await readDefaultBranch(path))
  const ref = /^refs\/(heads|tags)\//.test(name) ? name : `refs/heads/${name}`
  const tag = `refs/tags/${name}`
  const refs = await readRefs(path, [ref, tag].filter(isRefName))
  const isThere = (one: string) => (refs.get(one) ?? zeroId) !== zeroId
  const target = refs.get(ref)
  if (target !== undefined && isThere(ref)) return { ref, target }
  const what = name === ref ? name : `branch "${name}"`
  const advice = isThere(tag) ? ` There is a tag of this name, which is written as ${tag}.` : ''
  throw new Problem('ref_not_found', `There is no ${what} in this repository.${advice}`)
}

function valuesOf(read: ReturnType<typeof readInputs>) {
  if ('values' in read) return read.values
  const errors = read.faults.map(({ input, message }) => ({
    pointer: `/inputs/${input}`,
    detail: message,
  }))
  throw new Problem('invalid_request', 'The inputs do not match those of the workflow.', { errors })
}

/** The named files, or else those of the first folder that has any. */
async function pathsToCheck(commit: CommitFiles, named: string[]): Promise<string[]> {
  if (named.length > 0) return named
  for (const folder of checkedFolders) {
    const paths = await commit.listWorkflows(folder)
    if (paths.length > 0) return paths
  }
  return []
}
