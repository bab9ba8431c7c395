import type { Clock } from '#base/clock.ts'
import { newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type { Db, PushRow } from '#database/schema.ts'
import type { Actor, Publish } from '#events/events.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import {
  branchPrefix,
  hasBranch,
  listBranches,
  type RefUpdate,
  readDefaultBranch,
} from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import { markHeadChosen } from '#repositories/repository-store.ts'
import {
  hasRef,
  lockRepository,
  raiseVersion,
  readRefsUnder,
} from '#repositories/store/ref-store.ts'
import type { SharedChanges, Store } from '#repositories/store/store.ts'
import { intendedOf } from './applied-updates.ts'
import { toDefaultBranchEvent } from './push-events.ts'
import { listUnfinishedPushes } from './push-store.ts'

/** Changes of default branches that are requested without a push. */
export type DefaultBranches = {
  /** Throws `ref_not_found` for a branch that cannot become the default one. */
  requireBranch: (repository: Repository, branch: string) => Promise<void>
  /**
   * Changes the default branch to one that exists, or to any while there is none. Throws `ref_not_found`. Like a push
   * it is recorded before anything moves, and after a crash the sweep finalizes it.
   */
  changeDefaultBranch: (actor: Actor, repository: Repository, branch: string) => Promise<void>
}

type Dependencies = {
  db: Database
  /** Does work alone among the pushes of a repository, after finalizing those whose git has ended. */
  exclusively: (repositoryId: string, work: () => Promise<void>) => Promise<void>
  /** Records a change without a git process of its own and finalizes it; retries when that fails. */
  recordAndFinalize: (row: PushRow) => Promise<void>
  clock: Clock
}

export function createDefaultBranches(dependencies: Dependencies): DefaultBranches {
  const { db, exclusively, recordAndFinalize, clock } = dependencies

  async function requireBranch({ id, path }: Repository, branch: string): Promise<void> {
    const isThere = await hasBranch(path, branch)
    if (!isThere && (await listBranches(path)).length > 0) throw branchNotFound(branch)
    const isDeletion = ({ ref, after }: RefUpdate) =>
      ref === branchPrefix + branch && after === zeroId
    const unfinished = await listUnfinishedPushes(db, id)
    if (unfinished.flatMap(intendedOf).some(isDeletion)) throw branchNotFound(branch)
  }

  return {
    requireBranch,

    async changeDefaultBranch(actor, repository, branch) {
      await exclusively(repository.id, async () => {
        const former = await readDefaultBranch(repository.path)
        if (former === branch) return await markHeadChosen(db, repository.id)
        await requireBranch(repository, branch)
        const now = clock.now()
        await recordAndFinalize({
          id: newId(now),
          repositoryId: repository.id,
          actorId: actor.id,
          actorUsername: actor.username,
          updates: '[]',
          judgedAt: now,
          finishedAt: null,
          via: '',
          keptUntil: null,
          undoes: null,
          formerDefaultBranch: former,
          defaultBranch: branch,
          version: null,
          address: actor.origin?.address ?? null,
          allowedLeaks: null,
          runOptions: null,
          landing: null,
          bytes: 0,
        })
      })
    },
  }
}

function branchNotFound(branch: string): Problem {
  return new Problem(
    'ref_not_found',
    `There is no branch "${branch}" in this repository. Push it first.`,
  )
}

type SharedDependencies = {
  store: Pick<Store, 'open'>
  shared: Pick<SharedChanges, 'db' | 'transaction'>
  publish: Publish
  clock: Clock
}

/** Changes of default branches in a shared store, where they are columns. */
export function createSharedDefaultBranches(dependencies: SharedDependencies): DefaultBranches {
  const {
    store,
    shared: { db, transaction },
    publish,
    clock,
  } = dependencies

  async function requireBranch(rows: Db, repositoryId: string, branch: string): Promise<void> {
    if (await hasRef(rows, repositoryId, branchPrefix + branch)) return
    const branches = await readRefsUnder(rows, repositoryId, branchPrefix)
    if (branches.size > 0) throw branchNotFound(branch)
  }

  return {
    requireBranch: ({ id }, branch) => requireBranch(db, id, branch),

    async changeDefaultBranch(actor, { id }, branch) {
      await transaction(id, async (tx) => {
        const repository = await lockRepository(tx, id)
        if (!repository) return
        if (repository.head !== branch) await requireBranch(tx, id, branch)
        await markHeadChosen(tx, id)
        if (repository.head === branch) return
        await raiseVersion(tx, id, { ...repository, head: branch })
        const change = { former: repository.head, branch }
        await publish(tx, clock.now(), [toDefaultBranchEvent({ actor, repositoryId: id }, change)])
      })
      await store.open(id)
    },
  }
}
