import type { Static } from 'typebox'
import { mayMaintain, requireNoRun, roleInsufficient } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { ChangeRow, Db, QueuedChangeRow } from '#database/schema.ts'
import type { Publish } from '#events/events.ts'
import { trialName } from '#git/refs/ref-name.ts'
import { branchPrefix } from '#git/refs/refs.ts'
import { invalid } from '#http/validation.ts'
import { protectionsOf } from '#repositories/protection-rules.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { Protections } from '#repositories/rights/protections.ts'
import { listChangesByNumber, updateChange } from '../change-store.ts'
import { changeClosed, requireLastVersion, withLockedChange } from '../locked-change.ts'
import { removeQueued } from './branch-queue.ts'
import type { QueuedSchema, QueueSchema } from './queue-schemas.ts'
import { findQueued, insertQueued, listBranchQueues, listQueued } from './queued-store.ts'
import type { QueueWork, Trial } from './trial.ts'

/** How a change is to land. */
type Wanted = { method: QueuedChangeRow['method']; message: string; isUrgent: boolean }

/** The queues in which changes wait to land on their branches. */
export type LandingQueue = {
  /** Whether changes land on a branch through its queue. */
  isFor: (repository: Pick<Repository, 'id'>, target: string) => Promise<boolean>
  /** Puts the last version of a change into the queue, or changes how it lands. */
  enter: (
    principal: Principal,
    repository: Repository,
    change: ChangeRow,
    wanted: Wanted,
  ) => Promise<void>
  /** Takes a change out of the queue. Idempotent. Throws `role_insufficient`. */
  leave: (principal: Principal, repository: Repository, change: ChangeRow) => Promise<void>
  /** The place of a change in the queue; null for none. */
  find: (
    repository: Pick<Repository, 'id'>,
    number: string,
  ) => Promise<Static<typeof QueuedSchema> | null>
  list: (repository: Repository) => Promise<Static<typeof QueueSchema>[]>
}

type Dependencies = {
  db: Database
  publish: Publish
  clock: Clock
  protections: Pick<Protections, 'listInForce'>
}

export function createLandingQueue({
  db,
  publish,
  clock,
  protections,
}: Dependencies): LandingQueue {
  async function readQueues(repositoryId: string) {
    const entries = await listQueued(db, { repositoryId })
    const rows = await listBranchQueues(db, repositoryId)
    const works = new Map(rows.map(({ target, work }) => [target, JSON.parse(work) as QueueWork]))
    return Map.groupBy(entries, ({ target }) => target)
      .entries()
      .map(([target, queued]) => ({ target, queued, trials: works.get(target)?.trials ?? [] }))
      .toArray()
  }

  return {
    async isFor(repository, target) {
      const all = await protections.listInForce(repository)
      return protectionsOf(target, all).some((rule) => rule.queue)
    },

    async enter(principal, repository, found, { method, message, isUrgent }) {
      requireNoRun(principal)
      const { kind, id: actorId, username } = principal
      if (kind !== 'token' && kind !== 'workload')
        throw new Problem('token_limited', 'A change is queued with a token.')
      if (isUrgent && !mayMaintain(principal, repository)) {
        const detail = 'Only users with the role maintain put a change before the others.'
        throw new Problem('role_insufficient', detail)
      }
      await withLockedChange(db, { repository, change: found }, async (tx, change) => {
        if (change.state !== 'open') throw changeClosed(change)
        requireLastVersion(change, found.version)
        const { repositoryId, number, target, version, title } = change
        const now = clock.now()
        const former = await findQueued(tx, change)
        // Only the role maintain sets it, and only `leave` takes it back.
        const urgent = isUrgent ? 1 : (former?.urgent ?? 0)
        const actor = { actorKind: kind, actorId, username } as const
        // With another method it keeps its place.
        const id = former?.version === version ? former.id : newId(now)
        const wanted = { target, version, method, message, urgent, ...actor }
        await updateChange(tx, change, { queueNote: '', updatedAt: now })
        const unknown = { standing: 'new', failures: 0, detail: '' } as const
        await insertQueued(tx, { repositoryId, number, id, queuedAt: now, ...unknown, ...wanted })
        const data = { number, target, version, method, urgent: urgent !== 0, title }
        await publish(tx, now, [{ kind: 'change.queued', actor: principal, repositoryId, data }])
      })
    },

    async leave(principal, repository, found) {
      const { username } = principal
      await withLockedChange(db, { repository, change: found }, async (tx, change) => {
        const entry = await findQueued(tx, change)
        if (!entry) return
        const isOwn = entry.username === username || change.username === username
        if (!isOwn && repository.role === 'read') throw roleInsufficient(repository)
        const detail = `${username} has taken it out of the queue.`
        const why = { reason: 'withdrawn', detail, title: change.title, by: principal } as const
        await removeQueued({ publish, clock }, tx, entry, why)
      })
    },

    async find({ id }, number) {
      for (const { queued, trials } of await readQueues(id)) {
        const position = queued.findIndex((entry) => String(entry.number) === number)
        const entry = queued[position]
        if (entry) return toQueued(entry, position + 1, trials)
      }
      return null
    },

    async list({ id }) {
      const queues = await readQueues(id)
      const numbers = queues.flatMap(({ queued }) => queued.map(({ number }) => number))
      const changes = await titlesOf(db, id, numbers)
      return queues.map(({ target, queued, trials }) => ({
        target: target.slice(branchPrefix.length),
        changes: queued.map((entry, index) => ({
          ...{ number: entry.number, title: changes.get(entry.number) ?? '' },
          ...toQueued(entry, index + 1, trials),
        })),
        trials: trials.filter(({ commit }) => commit !== '').map(toTrial),
      }))
    },
  }
}

async function titlesOf(db: Db, repositoryId: string, numbers: number[]) {
  const changes = await listChangesByNumber(db, repositoryId, numbers)
  return new Map(changes.map(({ number, title }) => [number, title]))
}

function toQueued(entry: QueuedChangeRow, position: number, trials: readonly Trial[]) {
  const { version, method, username, queuedAt, number } = entry
  const isTried = trials.some(({ changes }) => changes.some((one) => one.number === number))
  const state = isTried ? ('trying' as const) : ('waiting' as const)
  return { position, state, version, method, urgent: entry.urgent !== 0, username, queuedAt }
}

function toTrial({ id, kind, commit, changes, runIds }: Trial) {
  return {
    ref: trialName(id),
    commit,
    changes: changes.map(({ number }) => number),
    lands: kind === 'land',
    runs: runIds,
  }
}

/** Throws `invalid_request` unless a method can land changes that wait for others. */
export function requireQueueMethod(method: string): asserts method is QueuedChangeRow['method'] {
  if (method !== 'fast-forward') return
  const detail =
    'must be `merge`, `squash` or `rebase`: the branch has a queue, in which others land before.'
  throw invalid([{ pointer: '/method', detail }])
}
