import type { Log } from '#base/log.ts'
import type { Database } from '#database/database.ts'
import { findPackBytes, listUnmeasured, replacePackBytes } from './repository-size-store.ts'
import type { Store } from './store/store.ts'

type Dependencies = { db: Database; store: Pick<Store, 'packBytes'> }

const maxPerSweep = 1000

/** Measures the packs of a repository again, after what has changed them without a push. */
export async function measureRepository({ db, store }: Dependencies, id: string): Promise<void> {
  const former = await findPackBytes(db, id)
  if (former === undefined) return
  const packBytes = await store.packBytes(id, db)
  if (packBytes !== former) await replacePackBytes(db, id, { former, packBytes })
}

/** Measures repositories that never were, some at a time. */
export async function measureNewRepositories(
  dependencies: Dependencies & { log: Log },
): Promise<void> {
  for (const id of await listUnmeasured(dependencies.db, maxPerSweep)) {
    await measureRepository(dependencies, id).catch((error) =>
      dependencies.log.warn({ err: error, repositoryId: id }, 'repository not measured'),
    )
  }
}
