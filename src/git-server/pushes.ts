import { setTimeout as sleep } from 'node:timers/promises'
import type { Principal } from '../access/principal.ts'
import type { Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { Problem } from '../base/problem.ts'
import type { Database } from '../database/database.ts'
import type { PushRow } from '../database/schema.ts'
import { publish } from '../events/events.ts'
import { isRefName, refNameFault, zeroId } from '../git/ref-name.ts'
import { type RefUpdate, readRefs, resolveSymbolicRef } from '../git/refs.ts'
import type { Directories } from '../repositories/directories.ts'
import type { Protections } from '../repositories/protections.ts'
import type { Repositories, Repository } from '../repositories/repositories.ts'
import { insertPush, listSince, listUnfinished, markFinished, nameOf } from './push-store.ts'

export type Pushes = ReturnType<typeof createPushes>

const drainPauseMs = 5

/** One push from the moment its git process starts. */
export type Push = { principal: Principal; repository: Repository; id?: string }

type Dependencies = {
  db: Database
  /** The same principal as it is now, or undefined when it is none any more. */
  refresh: (principal: Principal) => Promise<Principal | undefined>
  repositories: Repositories
  protections: Protections
  directories: Directories
  /** Called when a push has been finished, and its events are in the log. */
  onFinished: () => void
  clock: Clock
  log: Log
}

/**
 * The life of a push: judged when its hook asks, recorded as an intent, finished with its events. What
 * lies between moved refs and their events is closed by the sweep, which compares intents with refs.
 */
export function createPushes(dependencies: Dependencies) {
  const { db, refresh, repositories, protections, directories, onFinished, clock, log } =
    dependencies
  // Pushes whose git process this server is waiting for: not for the sweep.
  const underWay = new Set<string>()
  // The same, and those that are being finished.
  const open = new Set<string>()

  /** Decides about a push as the principal's rights and the protections are now, and records its intent. */
  async function judge(push: Push, updates: RefUpdate[]): Promise<void> {
    const principal = await refresh(push.principal)
    if (!principal) {
      throw new Problem('token_invalid', 'The token or key was deleted or has expired.')
    }
    const repository = await repositories.reopen(principal, push.repository, 'repo:write')
    const ruleFor = await protections.ruleFor(repository)
    for (const { ref } of updates) {
      if (!isRefName(ref)) throw new Problem('ref_name_refused', `"${ref}" is not a ref name.`)
      // A push to a symbolic ref moves the ref that it points to.
      for (const name of new Set([ref, await resolveSymbolicRef(repository.path, ref)])) {
        refuseBadName(name)
        if (!repository.asOwner) refuseProtected(name, ruleFor)
      }
    }
    await refuseAbsent(repository.path, updates)
    // Intents that were never finished are compared with the refs before those can move again.
    await sweep(repository.id)
    push.id = newId(clock.now())
    underWay.add(push.id)
    open.add(push.id)
    await insertPush(db, {
      id: push.id,
      repositoryId: repository.id,
      actorId: principal.id,
      actorUsername: principal.username,
      updates: JSON.stringify(updates),
      judgedAt: clock.now(),
      finishedAt: null,
    })
  }

  /** Marks a push done and publishes what it changed, after its git process has ended. */
  async function finish(push: Push): Promise<void> {
    if (push.id === undefined) return // It never came to a verdict, or was refused.
    underWay.delete(push.id)
    await sweep(push.repository.id).catch((error) =>
      // The refs have moved and the intent is recorded: the next sweep publishes what this one could not.
      log.error({ err: error, pushId: push.id }, 'a push will be finished later'),
    )
    open.delete(push.id)
    onFinished()
  }

  /** Finishes or drops every push that has ended unfinished, of all repositories or of one. */
  async function sweep(repositoryId?: string): Promise<void> {
    for (const push of await listUnfinished(db, repositoryId)) {
      if (!underWay.has(push.id)) await settle(push)
    }
  }

  async function settle(push: PushRow): Promise<void> {
    const applied = await appliedUpdates(push)
    const actor = { id: push.actorId, username: push.actorUsername }
    const { repositoryId } = push
    await db.transaction().execute(async (tx) => {
      if (!(await markFinished(tx, push.id, clock.now()))) return
      const repositoryName = (await nameOf(tx, repositoryId)) ?? ''
      const events = applied.map((update) => {
        const data = { ...update, pushId: push.id, repositoryName }
        return { kind: 'push', actor, repositoryId, data } as const
      })
      await publish(tx, clock.now(), events)
    })
  }

  /**
   * Which of a push's intended updates came to pass: the ref has the new value, or another push has
   * since replaced just that value.
   */
  async function appliedUpdates(push: PushRow): Promise<RefUpdate[]> {
    const updates = updatesOf(push).filter(({ before, after }) => before !== after)
    const directory = directories.pathOf(push.repositoryId)
    const values = await readRefs(
      directory,
      updates.map(({ ref }) => ref),
    )
    const unexplained = updates.filter(({ ref, after }) => values.get(ref) !== after)
    if (unexplained.length === 0) return updates
    const others = (await listSince(db, push)).filter(({ id }) => id !== push.id)
    const replaced = new Set(others.flatMap(updatesOf).map(({ ref, before }) => `${before} ${ref}`))
    return updates.filter(
      ({ ref, after }) => values.get(ref) === after || replaced.has(`${after} ${ref}`),
    )
  }

  return {
    judge,

    /** Waits until pushes whose answers have been given are finished, too. */
    async drain(): Promise<void> {
      while (open.size > 0) await sleep(drainPauseMs)
    },

    finish,
    sweep,
  }
}

// Git calls the deletion of what is not there a success, and it would look like one in the journal.
async function refuseAbsent(directory: string, updates: RefUpdate[]): Promise<void> {
  const deleted = updates.filter(({ after }) => after === zeroId).map(({ ref }) => ref)
  const values = await readRefs(directory, deleted)
  for (const ref of deleted) {
    if (values.get(ref) === zeroId)
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

function updatesOf({ updates }: PushRow): RefUpdate[] {
  return JSON.parse(updates)
}
