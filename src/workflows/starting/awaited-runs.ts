import { requireNoRun } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import type { Notifier } from '#base/concurrency/notifier.ts'
import type { Log } from '#base/log.ts'
import { Problem, toProblem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Nodes } from '#database/nodes/nodes.ts'
import type { AwaitedRun, Db, PushRunOptions } from '#database/schema.ts'
import { openObjects } from '#git/objects/object-reader.ts'
import type { Git } from '#git/process/git-process.ts'
import type { PushedUpdate } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import { repositoryDeleted } from '#repositories/repository-errors.ts'
import { findRepositorySummary } from '#repositories/repository-summary-store.ts'
import type { LentPack } from '#repositories/store/lent-packs.ts'
import type { LentPacks } from '#repositories/store/store.ts'
import { packCommit } from '../commits/commit-pack.ts'
import { pushedObject } from '../commits/run-commits.ts'
import type { PublishRuns } from '../run-events.ts'
import { listAwaited } from '../run-store.ts'
import { cancelRun } from './cancel-run.ts'
import type { RunSpec } from './create-run.ts'
import { enqueueRun, maxQueuedRuns } from './enqueue-run.ts'
import type { FollowedRun, FollowRun } from './follow-run.ts'
import type { PlanPush } from './plan-push.ts'

/** A push whose objects are in quarantine, and that is not accepted unless its runs succeed. */
type AwaitedPush = {
  repository: Repository
  actor: Principal
  /** Sees the objects of the push. */
  git: Git
  /** The updates, each with the files to run; undefined for those that its push would start. */
  wanted: { update: PushedUpdate; files: string[] | undefined }[]
  options: PushRunOptions
  /** Shows a line to the user who pushes. */
  onProgress: (line: string) => void
  /** Aborted with a Problem when the push has ended, or has waited for too long. */
  signal: AbortSignal
}

/** Runs that pushes wait for. */
export type AwaitedRuns = {
  /**
   * Runs the workflows of a push and waits for them. As soon as one does not succeed, the others are cancelled. Throws
   * `run_required`, `workflow_invalid`, `workflow_not_found`, `too_many_runs` and, for the push of a run,
   * `token_limited`.
   */
  run: (push: AwaitedPush) => Promise<AwaitedRun[]>
  /** Returns a git that sees the commit of a run for which a push on this server waits; undefined for other runs. */
  gitFor: (runId: string) => Git | undefined
  /** Cancels the runs whose push was cut off, by the end of its server for instance. */
  sweep: () => Promise<void>
}

type Dependencies = {
  db: Database
  publishRuns: PublishRuns
  planPush: PlanPush
  followRun: FollowRun
  changes: Notifier
  nodes: Pick<Nodes, 'own' | 'isRunning'>
  lentPacks: LentPacks | undefined
  clock: Clock
  log: Log
}

export function createAwaitedRuns(dependencies: Dependencies): AwaitedRuns {
  const { db, publishRuns, planPush, followRun, changes, nodes, lentPacks } = dependencies
  const { clock, log } = dependencies
  // By the id of the run.
  const gits = new Map<string, Git>()

  async function plan(push: AwaitedPush): Promise<RunSpec[]> {
    const { repository, actor, git, options } = push
    requireNoRun(actor)
    const summary = await findRepositorySummary(db, repository.id)
    if (!summary) throw repositoryDeleted()
    await using objects = await openObjects(git, repository.path)
    const starts: RunSpec[] = []
    for (const { update, files } of push.wanted) {
      push.signal.throwIfAborted()
      if (!/^refs\/(heads|tags)\//.test(update.ref)) continue
      const pushed = { repository: summary, directory: repository.path, git, objects, update }
      const planned = await planPush({ ...pushed, actor, options, files })
      for (const one of planned?.planned ?? []) {
        if ('failed' in one) throw new Problem('workflow_invalid', one.failed.fault)
        starts.push(one.start)
      }
      // Each has the texts of its files; the queue takes no more.
      if (starts.length > maxQueuedRuns) throw tooManyRuns()
    }
    return starts
  }

  /** Lends the commits of runs, by pushed object, to the other servers, whose runners may claim them. */
  async function lend(starts: RunSpec[], push: AwaitedPush): Promise<Map<string, LentPack>> {
    const packs = new Map<string, LentPack>()
    if (!lentPacks) return packs
    const { repository, git, signal } = push
    for (const start of starts) {
      const { commit } = start
      const object = pushedObject(start) ?? commit
      if (packs.has(object)) continue
      const chunks = await packCommit(git, { directory: repository.path, commit, object, signal })
      packs.set(object, await lentPacks.lend(repository.id, chunks))
    }
    return packs
  }

  async function enqueue(
    starts: RunSpec[],
    packs: Map<string, LentPack>,
    git: Git,
  ): Promise<FollowedRun[]> {
    const ids: string[] = []
    const enqueueAll = async (tx: Db) => {
      const now = clock.now()
      const all: Awaited<ReturnType<typeof enqueueRun>>[] = []
      for (const start of starts) {
        const awaited = { by: nodes.own, pack: packs.get(pushedObject(start) ?? start.commit) }
        const one = await enqueueRun(tx, { ...start, awaited }, now)
        // A runner may claim it as soon as the transaction ends.
        gits.set(one.id, git)
        ids.push(one.id)
        all.push(one)
      }
      const transitions = all.flatMap((one) => one.transitions)
      await publishRuns(tx, now, transitions)
      return all
    }
    try {
      const made = await db.transaction().execute(enqueueAll)
      for (const name of [...made.flatMap(({ changed }) => changed), 'queue']) changes.notify(name)
      return made.map(({ id, number }) => ({ id, number }))
    } catch (error) {
      for (const id of ids) gits.delete(id)
      throw error
    }
  }

  async function followAll(runs: FollowedRun[], push: AwaitedPush): Promise<void> {
    const failed = new AbortController()
    const signal = AbortSignal.any([push.signal, failed.signal])
    const follow = (run: FollowedRun) =>
      followRun(run, { ...push, signal }).catch((error) => failed.abort(error))
    await Promise.all(runs.map(follow))
    failed.signal.throwIfAborted()
  }

  const cancel = (id: string, reason: string) =>
    cancelRun({ db, publishRuns, changes, clock }, id, reason)

  async function cancelAll(runs: FollowedRun[], reason: string): Promise<void> {
    for (const { id } of runs) {
      // The next sweep cancels it.
      await cancel(id, reason).catch((error) =>
        log.error({ err: error, runId: id }, 'run of a refused push not cancelled'),
      )
    }
  }

  async function enqueueAndFollow(
    starts: RunSpec[],
    packs: Map<string, LentPack>,
    push: AwaitedPush,
  ): Promise<void> {
    const runs = await enqueue(starts, packs, push.git)
    try {
      await followAll(runs, push)
    } catch (error) {
      const [why] = toProblem(error).message.split('\n')
      await cancelAll(runs, `The push that waited for this run was refused: ${why}`)
      throw error
    } finally {
      for (const { id } of runs) gits.delete(id)
    }
  }

  return {
    async run(push) {
      const { onProgress, options } = push
      const starts = await plan(push)
      if (starts.length === 0) {
        const isSkipped = options.isSkipped ? ' that ci.skip does not skip' : ''
        onProgress(`There is no run to wait for${isSkipped}.`)
        return []
      }
      const packs = await lend(starts, push)
      try {
        await enqueueAndFollow(starts, packs, push)
      } finally {
        // Otherwise, the collector takes them back.
        await lentPacks?.takeBack([...packs.values()]).catch(() => {})
      }
      return starts.flatMap(({ ref, sources }) =>
        sources.files.map((file) => ({ ref, file: file.path })),
      )
    },

    gitFor: (runId) => gits.get(runId),

    async sweep() {
      for (const { id, awaitedBy } of await listAwaited(db)) {
        const isAwaited =
          awaitedBy === nodes.own ? gits.has(id) : await nodes.isRunning(awaitedBy ?? '')
        if (!isAwaited) await cancel(id, 'The push that waited for this run was cut off.')
      }
    },
  }
}

function tooManyRuns(): Problem {
  const detail = `The push would wait for more than ${maxQueuedRuns} runs; push fewer refs at a time.`
  return new Problem('too_many_runs', detail)
}
