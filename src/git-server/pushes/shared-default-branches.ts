import type { Clock } from '#base/clock.ts'
import type { Db } from '#database/schema.ts'
import type { Publish } from '#events/events.ts'
import { branchPrefix } from '#git/refs/refs.ts'
import { markHeadChosen } from '#repositories/repository-store.ts'
import {
  hasRef,
  lockRepository,
  raiseVersion,
  readRefsUnder,
} from '#repositories/store/ref-store.ts'
import type { SharedChanges, Store } from '#repositories/store/store.ts'
import { branchNotFound, type DefaultBranches } from './default-branches.ts'
import { toDefaultBranchEvent } from './push-events.ts'

type Dependencies = {
  store: Pick<Store, 'open'>
  shared: Pick<SharedChanges, 'db' | 'transaction'>
  publish: Publish
  clock: Clock
}

/** Changes of default branches in a shared store, where they are columns. */
export function createSharedDefaultBranches(dependencies: Dependencies): DefaultBranches {
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
