import type { DatabaseOptions } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { openPlainSnapshot } from '#database/snapshot.ts'
import { branchPrefix } from '#git/refs/refs.ts'
import { type RawRefs, toRawName } from '#git/refs/stored-ref.ts'
import { listWholeRepositories } from '#repositories/repository-store.ts'
import { readStoredRepository } from '#repositories/store/stored-repository-store.ts'
import type { BackupFolder } from './backup-folder.ts'
import type { ConsistentSnapshot } from './consistent-snapshot.ts'
import type { BackedUpRepository } from './manifest.ts'
import { toRefsFile } from './refs-file.ts'

type Options = { database: DatabaseOptions; folder: BackupFolder }

/** Opens a consistent snapshot of a shared store: refs are rows there, so that one transaction has everything. */
export async function openSharedSnapshot({
  database,
  folder,
}: Options): Promise<ConsistentSnapshot> {
  await using opening = new AsyncDisposableStack()
  const { db } = opening.use(await openPlainSnapshot(database))
  const at = Date.now()
  const repositories: BackedUpRepository[] = []
  for (const { id, name } of await listWholeRepositories(db)) {
    const refs = await folder.addBytes('refs', toRefsFile(await readRefs(db, id)))
    repositories.push({ id, name, refs })
  }
  const resources = opening.move()
  return { db, at, repositories, [Symbol.asyncDispose]: () => resources.disposeAsync() }
}

async function readRefs(db: Db, id: string): Promise<RawRefs> {
  const { refs = [], head } = (await readStoredRepository(db, id)) ?? {}
  const values = refs.map(([name, value]) => [toRawName(name), value] as const)
  return new Map([...values, ['HEAD', `ref:${branchPrefix}${toRawName(head ?? '')}`]])
}
