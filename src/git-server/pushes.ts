import { setTimeout as sleep } from 'node:timers/promises'
import type { Principal } from '../access/principal.ts'
import { type Clock, increasing } from '../base/clock.ts'
import type { FaultPoint } from '../base/fault-points.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { createOneByOne } from '../base/one-by-one.ts'
import { Problem } from '../base/problem.ts'
import type { Database } from '../database/database.ts'
import type { Door } from '../database/schema.ts'
import type { Git } from '../git/git-process.ts'
import { isRefName, refNameFault, zeroId } from '../git/ref-name.ts'
import { type RefUpdate, readRefs, resolveSymbolicRefs } from '../git/refs.ts'
import type { Directories } from '../repositories/directories.ts'
import type { Protections } from '../repositories/protections.ts'
import type { Repositories, Repository } from '../repositories/repositories.ts'
import type { Tidying } from '../repositories/tidying.ts'
import type { IntendedUpdate } from './applied-updates.ts'
import type { KeptTips } from './kept-tips.ts'
import { deleteUnfinished, insertPush, listUnfinished, listWithUnfinished } from './push-store.ts'
import { createSettlePush } from './settle-push.ts'
import { createTryAgain } from './try-again.ts'

export type Pushes = ReturnType<typeof createPushes>

const drainPauseMs = 5

/** One push from the moment its git process starts. */
export type Push = {
  principal: Principal
  repository: Repository
  door: Door
  /** The push that it undoes. */
  undoes?: string
  /** Whether it is known to be one fast-forward. */
  isFastForward?: boolean | undefined
  id?: string
}

type Dependencies = {
  db: Database
  git: Git
  /** The same principal as it is now, or undefined when it is none any more. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  repositories: Repositories
  protections: Protections
  directories: Directories
  keptTips: Pick<KeptTips, 'keep'>
  tidying: Pick<Tidying, 'enter'>
  clock: Clock
  faultPoint: FaultPoint
  log: Log
}

/**
 * The life of a push: judged when its hook asks, recorded as an intent, finished with its events. What
 * lies between moved refs and their events is closed by the sweep, which compares intents with refs.
 */
export function createPushes(dependencies: Dependencies) {
  const { db, refresh, repositories, protections, faultPoint, log } = dependencies
  // When pushes are judged and finished tells which of them may have built on which.
  const clock = increasing(dependencies.clock)
  const settle = createSettlePush({ ...dependencies, clock })
  const oneByOne = createOneByOne()
  const tryAgain = createTryAgain((repositoryId) => sweep(repositoryId), log)
  // Pushes whose git process this server is waiting for: not for the sweep.
  const underWay = new Set<string>()
  // The same, and those that are being finished.
  const open = new Set<string>()
  // Of those, the ones that are fast-forwards.
  const fastForwards = new Set<string>()

  /** Decides about a push as the principal's rights and the protections are now, and records its intent. */
  async function judge(push: Push, updates: RefUpdate[]): Promise<void> {
    const principal = await refresh(push.principal)
    if (!principal) {
      throw new Problem('token_invalid', 'The token or key was deleted or has expired.')
    }
    const repository = await repositories.reopen(principal, push.repository, 'repo:write')
    const ruleFor = await protections.ruleFor(repository)
    const names = updates.map(({ ref }) => ref)
    for (const name of names) {
      if (!isRefName(name)) throw new Problem('ref_name_refused', `"${name}" is not a ref name.`)
    }
    // A push to a symbolic ref moves the ref that it points to.
    const targets = await resolveSymbolicRefs(repository.path, names)
    for (const ref of names) {
      for (const name of new Set([ref, targets.get(ref) ?? ref])) {
        refuseBadName(name)
        if (!repository.asOwner) refuseProtected(name, ruleFor)
      }
    }
    await oneByOne(repository.id, async () => {
      // Intents that were never finished are compared with the refs before those can move again.
      await settleEnded(repository.id)
      await recordIntent(push, { principal, updates })
    })
  }

  async function recordIntent(
    push: Push,
    { principal, updates }: { principal: Principal; updates: RefUpdate[] },
  ): Promise<void> {
    const { repository } = push
    const names = updates.map(({ ref }) => ref)
    const values = await readRefs(repository.path, names)
    refuseAbsent(updates, values)
    const intended = updates.map(
      (update): IntendedUpdate =>
        values.get(update.ref) === update.before ? update : { ...update, isStale: true },
    )
    const judgedAt = clock.now()
    push.id = newId(judgedAt)
    underWay.add(push.id)
    open.add(push.id)
    if (push.isFastForward) fastForwards.add(push.id)
    await insertPush(db, {
      id: push.id,
      repositoryId: repository.id,
      actorId: principal.id,
      actorUsername: principal.username,
      updates: JSON.stringify(intended),
      judgedAt,
      finishedAt: null,
      door: push.door,
      keptUntil: null,
      undoes: push.undoes ?? null,
    })
  }

  /**
   * Marks a push done and publishes what it changed, once git has moved its refs or has ended. False when that was not
   * possible: it is tried again until it is.
   */
  async function finish(push: Push): Promise<boolean> {
    if (push.id === undefined) return true // It never came to a verdict, or was refused.
    underWay.delete(push.id)
    faultPoint('push.moved')
    const isFinished = await sweep(push.repository.id).then(
      () => true,
      (error) => {
        // The refs have moved and the intent is recorded, so this can be done as soon as it is possible again.
        log.error({ err: error, pushId: push.id }, 'a push will be finished later')
        tryAgain.later(push.repository.id)
        return false
      },
    )
    open.delete(push.id)
    fastForwards.delete(push.id)
    return isFinished
  }

  /** Finishes or drops every push that has ended unfinished, of all repositories or of one. */
  async function sweep(repositoryId?: string): Promise<void> {
    if (repositoryId !== undefined) return oneByOne(repositoryId, () => settleEnded(repositoryId))
    for (const id of await listWithUnfinished(db)) {
      await sweep(id).catch((error) =>
        // One repository that is damaged must keep no other waiting.
        log.error({ err: error, repositoryId: id }, 'pushes could not be finished'),
      )
    }
  }

  async function settleEnded(repositoryId: string): Promise<void> {
    for (const push of await listUnfinished(db, repositoryId)) {
      if (!underWay.has(push.id)) await settle(push, fastForwards.has(push.id))
    }
  }

  /** Forgets a push that git has refused as a whole: a ref may have come to the same value another way. */
  async function withdraw({ id }: Push): Promise<void> {
    if (id === undefined) return
    try {
      await deleteUnfinished(db, id)
    } finally {
      underWay.delete(id)
      open.delete(id)
      fastForwards.delete(id)
    }
  }

  return {
    judge,
    withdraw,

    /** Waits until pushes whose answers have been given are finished, too; one that could not be is left to the next start. */
    async drain(): Promise<void> {
      while (open.size > 0) await sleep(drainPauseMs)
      await tryAgain.stop()
    },

    finish,
    sweep,
  }
}

// Git calls the deletion of what is not there a success, and it would look like one in the journal.
function refuseAbsent(updates: RefUpdate[], values: Map<string, string>): void {
  for (const { ref, after } of updates) {
    if (after === zeroId && values.get(ref) === zeroId)
      throw new Problem('ref_not_found', `There is no ref "${ref}" to delete.`)
  }
}

function refuseBadName(ref: string): void {
  const fault = refNameFault(ref)
  if (fault)
    throw new Problem('ref_name_refused', `The ref "${ref}" is refused: its name ${fault}.`)
}

function refuseProtected(ref: string, ruleFor: (branch: string) => string | undefined): void {
  const [, branch] = /^refs\/heads\/(.+)$/s.exec(ref) ?? []
  const rule = branch === undefined ? undefined : ruleFor(branch)
  if (rule === undefined) return
  throw new Problem(
    'branch_protected',
    `The branch "${branch}" is protected by the rule "${rule}": only the owner of the repository or an admin may change it.`,
  )
}
