import { Problem } from '#base/problem.ts'
import type { BranchQueueRow } from '#database/schema.ts'
import { UpdatesRefusedError } from '#git-server/pushes/push-lifecycle.ts'
import {
  type BranchQueue,
  createQueueSteps,
  type Opened,
  type QueueParts,
  removeQueued,
  superseded,
  type WaitingChanges,
} from './branch-queue.ts'
import { deleteBranchQueue, updateQueued } from './queued-store.ts'
import { createStartTrial } from './start-trial.ts'
import {
  chooseLanding,
  chooseProbes,
  type Doubt,
  isUntroubled,
  judgeChanges,
  maxSize,
  type Trial,
} from './trial.ts'

/** What a step has led to: the queue, undefined when its queue is empty, and whether it can go on at once. */
type Advanced = { queue: BranchQueue | undefined; goesOn: boolean }

/** Returns a function that takes all steps of a queue that are possible now. */
export function createAdvance(
  dependencies: QueueParts,
): (row: BranchQueueRow, signal: AbortSignal) => Promise<void> {
  const { db, nodes, runs, faultPoint, applyUpdates, finalizePushes } = dependencies
  const steps = createQueueSteps(dependencies)
  const { save, drop, remove } = steps
  const startTrial = createStartTrial({ ...dependencies, steps })

  /** Ends a trial that has become pointless, by what has happened to its branch and changes; undefined if none has. */
  async function reconcile(queue: BranchQueue, { entries, changes, tip }: WaitingChanges) {
    const queued = new Map(entries.map((entry) => [entry.number, entry]))
    const isThere = ({ number, version, queuedAt }: Trial['changes'][number]) =>
      queued.get(number)?.version === version &&
      queued.get(number)?.queuedAt === queuedAt &&
      changes.get(number)?.version === version &&
      changes.get(number)?.state === 'open'
    const isUrgent = entries.some((entry) => entry.urgent !== 0 && isUntroubled(entry))
    for (const trial of queue.work.trials) {
      const { kind, base, commit, changes: tried } = trial
      // The node has ended that was about to begin it.
      if (commit === '') return drop(queue, trial)
      if (!tried.every(isThere)) return drop(queue, trial)
      if (kind === 'probe') continue
      if (base !== tip) return drop(queue, trial)
      if (isUrgent && !tried.some(({ number }) => queued.get(number)?.urgent))
        return drop(queue, trial)
    }
    for (const entry of entries) {
      const change = changes.get(entry.number)
      if (change?.state === 'open' && change.version === entry.version) continue
      return remove(queue, entry, change, superseded)
    }
    return undefined
  }

  /** Finds a trial that has ended, and does what follows from it; undefined if none has. */
  async function judge(
    queue: BranchQueue,
    waiting: WaitingChanges,
  ): Promise<BranchQueue | undefined> {
    const { repositoryId, target, work } = queue
    for (const trial of work.trials) {
      const result = await runs.judge({ ...trial, repositoryId, target })
      if (result.state === 'running') continue
      if (result.state === 'gone') return drop(queue, trial)
      const hasSucceeded = result.state === 'success'
      // No other commit is tried to become that of the branch.
      const isFree = !work.trials.some(({ kind, id }) => kind === 'land' && id !== trial.id)
      if (hasSucceeded && trial.base === waiting.tip && isFree) return land(queue, trial, waiting)
      return learn(queue, { trial, detail: result.detail, hasSucceeded }, waiting)
    }
    return undefined
  }

  /** Records what a trial says of its changes, and ends it. */
  async function learn(
    found: BranchQueue,
    { trial, detail, hasSucceeded }: { trial: Trial; detail: string; hasSucceeded: boolean },
    { entries, changes }: WaitingChanges,
  ): Promise<BranchQueue> {
    const numbers = trial.changes.map(({ number }) => number)
    const tried = entries.filter(({ number }) => numbers.includes(number))
    const { verdicts, isDivided } = judgeChanges(trial, tried, hasSucceeded)
    const size = isDivided ? Math.max(1, Math.floor(tried.length / 2)) : found.size
    const isFirst = trial.kind === 'land' || tried.some(({ standing }) => standing === 'new')
    const isDoubt = !hasSucceeded && tried.length > 1 && isFirst
    const blamed = !hasSucceeded && tried.length === 1 ? numbers[0] : undefined
    const unexplained = found.work.doubts.filter(
      (doubt) => blamed === undefined || !doubt.numbers.includes(blamed),
    )
    const doubts = [...unexplained, ...(isDoubt ? [{ numbers, detail }] : [])]
    const learned = await save(found, { size, work: { ...found.work, doubts } }, async (tx) => {
      for (const [entry, verdict] of verdicts)
        if (verdict !== 'out')
          await updateQueued(tx, entry, {
            ...verdict,
            ...(!hasSucceeded && tried.length === 1 && { detail }),
          })
      for (const [entry, verdict] of verdicts) {
        const title = changes.get(entry.number)?.title ?? ''
        if (verdict === 'out')
          await removeQueued(dependencies, tx, entry, { reason: 'failed', detail, title })
      }
      return undefined
    })
    faultPoint('queue.learned')
    return drop(learned, trial)
  }

  /** Opens the changes of a trial; or removes the first one that cannot land any more. */
  async function openAll(queue: BranchQueue, trial: Trial, { entries, changes }: WaitingChanges) {
    const opened: Opened[] = []
    for (const { number } of trial.changes) {
      const entry = entries.find((one) => one.number === number)
      const change = changes.get(number)
      // It was withdrawn a moment ago.
      if (!entry) return drop(queue, trial)
      const one = await steps.open(queue, entry, change)
      if (!('entry' in one)) return one
      opened.push(one)
    }
    return opened
  }

  /** Moves the branch to the commit of a trial that has succeeded, as a push of the last user. */
  async function land(
    found: BranchQueue,
    trial: Trial,
    waiting: WaitingChanges,
  ): Promise<BranchQueue> {
    const queue = await save(found, {})
    const opened = await openAll(queue, trial, waiting)
    if (!Array.isArray(opened)) return opened
    const last = opened.at(-1)
    if (!last) return drop(queue, trial)
    const { principal, repository } = last
    const landing = new Set(trial.changes.map(({ number }) => number))
    const left = new Set(waiting.entries.map(({ number }) => number)).difference(landing)
    const isOpen = ({ numbers }: Doubt) => numbers.some((number) => left.has(number))
    const doubts = queue.work.doubts.filter(isOpen)
    const cleared = queue.work.doubts.filter((doubt) => !isOpen(doubt))
    const notes = new Map(opened.map(({ entry }) => [entry.number, entry.detail]))
    const changes = trial.changes.map((one) => ({
      ...one,
      note: noteOf(
        notes.get(one.number) ||
          cleared.find(({ numbers }) => numbers.includes(one.number))?.detail ||
          '',
      ),
    }))
    try {
      await applyUpdates(
        { principal, repository, via: 'queue', landing: { changes }, isAtomic: true },
        [{ ref: queue.target, before: trial.base, after: trial.commit }],
      )
    } catch (error) {
      // The next step compares it with the branch.
      if (error instanceof UpdatesRefusedError) return drop(queue, trial)
      if (!(error instanceof Problem)) throw error
      return refuse(queue, trial, opened, error)
    }
    await finalizePushes(queue.repositoryId)
    faultPoint('queue.landed')
    const size = trial.kind === 'land' ? Math.min(queue.size * 2, maxSize) : queue.size
    const work = { ...queue.work, doubts }
    return drop(await save(queue, { size, work }), trial)
  }

  /** Removes a change whose landing was refused, once it is alone. If runs are missing, the rules have changed, and it is tried again. */
  async function refuse(
    queue: BranchQueue,
    trial: Trial,
    opened: Opened[],
    error: Problem,
  ): Promise<BranchQueue> {
    const [first] = opened
    const isMissing = error.code === 'run_required' || error.code === 'status_required'
    if (!first || isMissing) return drop(queue, trial)
    // Each is tried alone then.
    if (opened.length > 1) return drop(await save(queue, { size: 1 }), trial)
    const why = { reason: 'refused', detail: error.message } as const
    return remove(queue, first.entry, first.change, why)
  }

  async function startNext(
    queue: BranchQueue,
    waiting: WaitingChanges,
    signal: AbortSignal,
  ): Promise<BranchQueue | undefined> {
    const { trials } = queue.work
    const landing = chooseLanding(waiting.entries, trials, queue.size)
    const [probe] = chooseProbes(waiting.entries, trials)
    const wanted = landing
      ? { kind: 'land' as const, entries: landing }
      : probe && { kind: 'probe' as const, entries: probe }
    if (!wanted || !(await runs.mayQueue(queue.repositoryId))) return undefined
    return startTrial(queue, wanted, waiting, signal)
  }

  async function step(queue: BranchQueue, signal: AbortSignal): Promise<Advanced> {
    // The git of a push may have ended a moment ago.
    await finalizePushes(queue.repositoryId)
    const waiting = await steps.readWaiting(queue)
    const next =
      (await reconcile(queue, waiting)) ??
      (await judge(queue, waiting)) ??
      (await startNext(queue, waiting, signal))
    if (next) return { queue: next, goesOn: true }
    if (waiting.entries.length > 0 || queue.work.trials.length > 0) return { queue, goesOn: false }
    // Unless a change has arrived since the row was read, which was before the changes.
    return { queue: (await deleteBranchQueue(db, queue)) ? undefined : queue, goesOn: false }
  }

  return async (row, signal) => {
    let queue: BranchQueue | undefined = { ...row, work: JSON.parse(row.work) }
    try {
      for (let goesOn = true; goesOn && queue && !signal.aborted; ) {
        const advanced: Advanced = await step(queue, signal)
        queue = advanced.queue
        goesOn = advanced.goesOn
      }
    } finally {
      // Others may work on it, unless one does already.
      if (queue?.worker === nodes.own) await save(queue, { worker: '' }).catch(() => {})
    }
  }
}

function noteOf(detail: string): string {
  return detail === '' ? '' : `It has failed by chance, and succeeded later:\n${detail}`
}
