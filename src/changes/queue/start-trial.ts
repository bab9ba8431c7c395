import { newId } from '#base/ids.ts'
import type { QueuedChangeRow } from '#database/schema.ts'
import { hiddenNameOf, trialName, versionName, zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix } from '#git/refs/refs.ts'
import type { ChainResult } from '#git-server/api-writes/merge-chain.ts'
import type { BranchQueue, Opened, QueueParts, QueueSteps, WaitingChanges } from './branch-queue.ts'
import type { Trial } from './trial.ts'

type Dependencies = QueueParts & { steps: QueueSteps }

/** Changes to try, and what the trial is for. */
type Wanted = { kind: Trial['kind']; entries: QueuedChangeRow[] }

/**
 * Returns a function that merges changes into their branch beside it, and starts the runs of the result. Changes that cannot land
 * are removed; one that conflicts with another of the trial waits for a later one.
 */
export function createStartTrial(dependencies: Dependencies) {
  const { steps, mergeChain, commits, publish, clock, proposals, runs, faultPoint } = dependencies

  /** Opens those of the changes that may land; removes the others. */
  async function openAll(found: BranchQueue, { entries }: Wanted, { changes }: WaitingChanges) {
    let queue = found
    const opened: Opened[] = []
    for (const entry of entries) {
      // A lock is of one user, and a push has one pusher.
      if (opened[0]?.repository.hasLfsLocks) break
      const one = await steps.open(queue, entry, changes.get(entry.number))
      if ('entry' in one) opened.push(one)
      else queue = one
    }
    return { queue, opened }
  }

  /** Merges changes, and keeps the last commit by the hidden ref of the trial. */
  async function merge(
    opened: Opened[],
    { id, base, target }: { id: string; base: string; target: string },
    signal: AbortSignal,
  ): Promise<ChainResult[]> {
    const [{ repository } = {}] = opened
    if (!repository) return []
    const steps = opened.map(({ entry, change, principal }) => ({
      ...{ method: entry.method, head: change.commitId, message: entry.message },
      ...{ by: principal, name: versionName(change) },
    }))
    const branch = target.slice(branchPrefix.length)
    return mergeChain(
      { repository, branch, tip: base, steps, now: timeOf(opened, clock.now()) },
      async ({ results, pack }) => {
        const tip = lastOf(results, base)
        if (tip === base) return
        const refs = new Map([[hiddenNameOf(trialName(id)), tip]])
        await commits.keep({ repository, tip, refs, pack })
      },
      signal,
    )
  }

  /** Records changes as landed whose commits the branch has already. */
  function landEmpty(queue: BranchQueue, opened: Opened[], commit: string): Promise<BranchQueue> {
    const { repositoryId } = queue
    return steps.save(queue, {}, async (tx) => {
      const now = clock.now()
      for (const { change, principal: actor } of opened) {
        const landed = { actor, repositoryId, changes: [change], pushId: null, commit, now }
        await publish(tx, now, await proposals.land(tx, landed))
      }
      return undefined
    })
  }

  /** Starts the runs of a commit, with the trial that waits for them. */
  async function begin(queue: BranchQueue, trial: Trial): Promise<BranchQueue> {
    const { repositoryId, target, work } = queue
    const { base, commit, changes } = trial
    const ref = trialName(trial.id)
    const [actor] = changes.map(({ by }) => by).slice(-1)
    if (!actor) throw new Error('A trial has a change.')
    const planned = await runs.plan({ repositoryId, target, commit, base, ref, actor })
    const notifiers: (() => void)[] = []
    const saved = await steps.save(queue, {}, async (tx) => {
      const created = await runs.create(tx, planned)
      notifiers.push(created.notify)
      const data = { target, ref, commit, changes: changes.map(({ number }) => number) }
      await publish(tx, clock.now(), [{ kind: 'queue.trial_started', actor, repositoryId, data }])
      const trials = work.trials.map((one) =>
        one.id === trial.id ? { ...trial, runIds: created.ids } : one,
      )
      return { work: { ...work, trials } }
    })
    for (const notify of notifiers) notify()
    faultPoint('queue.started')
    return saved
  }

  return async (
    found: BranchQueue,
    wanted: Wanted,
    waiting: WaitingChanges,
    signal: AbortSignal,
  ): Promise<BranchQueue> => {
    let { queue, opened } = await openAll(await steps.save(found, {}), wanted, waiting)
    if (opened.length === 0) return queue
    const { tip: base } = waiting
    if (base === zeroId) {
      const why = { reason: 'refused', detail: 'Its branch was deleted.' } as const
      for (const { entry, change } of opened) queue = await steps.remove(queue, entry, change, why)
      return queue
    }
    const id = newId()
    const { kind } = wanted
    const empty: Trial = {
      ...{ id, kind, base, commit: '', changes: [], runIds: [], startedAt: clock.now() },
    }
    const { work } = queue
    // If this node ends now, the next one finds what to remove.
    queue = await steps.save(queue, { work: { ...work, trials: [...work.trials, empty] } })
    const results = await merge(opened, { id, base, target: queue.target }, signal)
    faultPoint('queue.kept')
    const [first] = results
    const [{ entry, change } = {}] = opened
    if (first && 'fault' in first && entry && change) {
      const detail = `It cannot be merged: ${first.fault.message}`
      const dropped = await steps.drop(queue, empty)
      return steps.remove(dropped, entry, change, { reason: 'conflict', detail })
    }
    const commit = lastOf(results, base)
    const isMerged = (_: Opened, index: number) => 'commitId' in (results[index] ?? {})
    const merged = opened.filter(isMerged)
    if (commit === base) return landEmpty(await steps.drop(queue, empty), merged, base)
    const changes = merged.map(
      ({ entry: { queuedAt }, change: { number, version }, principal }) => ({
        ...{ number, version, queuedAt },
        by: { id: principal.id, username: principal.username },
      }),
    )
    return begin(queue, { ...empty, commit, changes })
  }
}

/** A time for commits, by which those of a repeated trial differ from the earlier ones even within a second. */
function timeOf(opened: readonly Opened[], now: number): number {
  const failures = opened.reduce((sum, { entry }) => sum + entry.failures, 0)
  const isProven = opened.some(({ entry }) => entry.standing === 'proven')
  return now + 1000 * (failures + Number(isProven))
}

/** The commit that a chain has led to. */
function lastOf(results: ChainResult[], base: string): string {
  const last = results.findLast((result) => 'commitId' in result)
  return last && 'commitId' in last ? last.commitId : base
}
