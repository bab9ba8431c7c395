import { createKeyedMutex } from '#base/concurrency/keyed-mutex.ts'
import { type ObjectFormat, objectFormatNames } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import type { Database } from '#database/database.ts'
import type { Db } from '#database/schema.ts'
import { writeObjectFormat } from '#git/objects/object-format.ts'
import { objectFormatOf, type RefUpdate } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { Hold, RepositoryHolds } from '#repositories/repository-holds.ts'
import { decideObjectFormat, findObjectFormat } from '#repositories/repository-store.ts'
import type { Store } from '#repositories/store/store.ts'

/** Holds on repositories for pushes. */
export type PushHolds = {
  /**
   * Holds a repository for a push. If it has no object format yet, its directory has that of the push while the hold lasts; the
   * first push that is authorized decides it for good. Throws a Problem for a push with another object format.
   */
  acquire: (
    repository: Pick<Repository, 'id' | 'name' | 'objectFormat'>,
    format: ObjectFormat | undefined,
  ) => Promise<Hold>
}

type Dependencies = {
  db: Database
  store: Pick<Store, 'at'>
  repositoryHolds: Pick<RepositoryHolds, 'acquire'>
  settings: Pick<PlainSettings, 'defaultObjectFormat'>
}

export function createPushHolds({ db, store, repositoryHolds, settings }: Dependencies): PushHolds {
  const serialize = createKeyedMutex()
  // The pushes to repositories without an object format, all of one format for each.
  const running = new Map<string, { format: ObjectFormat; pushes: number }>()

  async function begin({ id, name }: { id: string; name: string }, format: ObjectFormat) {
    // Another push may have decided meanwhile.
    const decided = await findObjectFormat(db, id)
    if (decided !== null && decided !== format) throw otherObjectFormat(name, decided, format)
    const others = running.get(id) ?? { format, pushes: 0 }
    if (others.format !== format) throw otherObjectFormat(name, others.format, format)
    const { path } = await store.at({ id, version: 0 })
    await writeObjectFormat(path, format)
    running.set(id, { format, pushes: others.pushes + 1 })
  }

  async function end(id: string): Promise<void> {
    const own = running.get(id)
    if (!own) return
    if (own.pushes > 1) return void running.set(id, { ...own, pushes: own.pushes - 1 })
    running.delete(id)
    const decided = await findObjectFormat(db, id)
    const { path } = await store.at({ id, version: 0 })
    await writeObjectFormat(path, decided ?? settings.defaultObjectFormat)
  }

  return {
    async acquire({ id, name, objectFormat }, format) {
      if (format !== undefined && objectFormat !== null && objectFormat !== format)
        throw otherObjectFormat(name, objectFormat, format)
      // A client may take any time, and the directory may be evicted from the cache of a shared store.
      await store.at({ id, version: 0 })
      const hold = await repositoryHolds.acquire(id)
      if (format === undefined || objectFormat !== null) return hold
      try {
        await serialize(id, () => begin({ id, name }, format))
      } catch (error) {
        await hold[Symbol.asyncDispose]()
        throw error
      }
      return {
        watch: hold.watch,
        async [Symbol.asyncDispose]() {
          await using _hold = hold
          // A deleted repository has no directory, and a server that stops has closed its database. The next push writes it.
          await serialize(id, () => end(id)).catch(() => {})
        },
      }
    },
  }
}

/**
 * Decides the object format of a repository that has none by an authorized push. Throws a Problem when another push has
 * decided otherwise meanwhile.
 */
export async function decideFormat(
  db: Db,
  { id, name, objectFormat }: Pick<Repository, 'id' | 'name' | 'objectFormat'>,
  updates: readonly RefUpdate[],
): Promise<void> {
  const format = objectFormatOf(updates)
  if (format === undefined || objectFormat !== null) return
  const decided = (await decideObjectFormat(db, id, format)) ?? format
  if (decided !== format) throw otherObjectFormat(name, decided, format)
}

function otherObjectFormat(name: string, present: ObjectFormat, pushed: ObjectFormat): Problem {
  const [one, other] = [objectFormatNames[present], objectFormatNames[pushed]]
  return new Problem(
    'malformed_git_request',
    `The repository "${name}" has the object format ${one}, and the push has ${other}. Git cannot mix them; push to another repository.`,
  )
}
