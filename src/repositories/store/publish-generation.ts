import { join } from 'node:path'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import type { S3 } from '../s3/s3.ts'
import type { Cache, CachedDirectory, Merge } from './cache.ts'
import { storePacks } from './durable-packs.ts'
import { filesOf, isPresent, listPresent } from './pack-files.ts'
import { addPacks, type LivePack, retirePacks, type StoredPack } from './pack-store.ts'
import { lockRepository, raiseVersion } from './ref-store.ts'
import type { RepositoryTransaction } from './repository-transactions.ts'
import { readStoredRepository } from './stored-repository-store.ts'

/** The maintenance of a repository in a directory of this node. */
export type Generation = AsyncDisposable & {
  path: string
  /**
   * Replaces the packs that were merged by the new ones. When objects were pruned, `isComplete` is called before: it checks
   * that all refs of the directory have their objects. Throws when nothing was replaced.
   */
  publish: (pruned?: { isComplete: () => Promise<boolean> }) => Promise<void>
}

type Dependencies = Parameters<typeof storePacks>[0] & {
  cache: Cache
  transaction: RepositoryTransaction
}

type Replacement = {
  id: string
  packs: StoredPack[]
  keys: string[]
  /** For a generation without some objects: the version whose refs do not need them. */
  prunedAt?: number
}

// Each push that comes between the check and the transaction costs one more.
const maxChecks = 20
const maxConcurrentLooks = 8

/** Begins to maintain a repository. Packs of pushes that come meanwhile stay. */
export async function beginGeneration(dependencies: Dependencies, id: string): Promise<Generation> {
  const { transaction, cache } = dependencies
  const merge = await cache.beginMerge(id)

  return {
    path: merge.path,

    async publish(pruned) {
      const replacement = await storeMerged(dependencies, id, merge)
      if (!replacement) return
      if (!pruned) return void (await replacePacks(transaction, replacement))
      for (let check = 1; check <= maxChecks; check++) {
        const { version }: CachedDirectory = await cache.open(id)
        if (!(await pruned.isComplete())) throw new Error('A push needs objects that were pruned.')
        if (await replacePacks(transaction, { ...replacement, prunedAt: version })) return
      }
      throw new Error('Pushes come too quickly to prune objects.')
    },

    [Symbol.asyncDispose]: () => merge[Symbol.asyncDispose](),
  }
}

/** Makes the packs durable that maintenance has made; undefined when it has changed nothing. */
async function storeMerged(
  dependencies: Dependencies,
  id: string,
  { path, packs: before }: Merge,
): Promise<Replacement | undefined> {
  const folder = join(path, 'objects', 'pack')
  const present = await listPresent(folder)
  const lost = await findLost(dependencies.storage, before)
  // What only this directory still has is stored again.
  const isStored = (pack: LivePack) => isPresent(present, pack) && !lost.has(pack.key)
  const merged = before.filter((pack) => !isStored(pack))
  if (merged.length === 0) return undefined
  // Read after the folder was: its packs of pushes are among these.
  const { packs: known = [] } = (await readStoredRepository(dependencies.db, id)) ?? {}
  const kept = known.filter(isStored)
  const added = new Set(present.keys()).difference(new Set(kept.map(({ hash }) => hash)))
  const packs = await storePacks(dependencies, id, folder, added)
  return { id, packs, keys: merged.map(({ key }) => key) }
}

/** The keys of packs that lack a file in the object storage. */
async function findLost(storage: Pick<S3, 'head'>, packs: LivePack[]): Promise<Set<string>> {
  const lost = new Set<string>()
  const uploaded = packs.filter(({ isInline }) => !isInline)
  await forEachConcurrently(maxConcurrentLooks, uploaded, async (pack) => {
    for (const { type, bytes } of filesOf(pack)) {
      const found = await storage.head(`${pack.key}.${type}`)
      if (found?.bytes !== bytes) lost.add(pack.key)
    }
  })
  return lost
}

/**
 * Returns false, with nothing replaced, when the repository has changed since it was checked. Throws when other
 * maintenance was faster: the uploads are then taken back.
 */
function replacePacks(
  transaction: RepositoryTransaction,
  replacement: Replacement,
): Promise<boolean> {
  const { id, packs, keys, prunedAt } = replacement
  return transaction(id, async (tx) => {
    const repository = await lockRepository(tx, id)
    if (!repository) return true
    if (prunedAt !== undefined && repository.version !== prunedAt) return false
    const pruneEpoch = repository.pruneEpoch + (prunedAt === undefined ? 0 : 1)
    const version = await raiseVersion(tx, id, { ...repository, pruneEpoch })
    if (!(await retirePacks(tx, keys, version))) {
      throw new Error('Another server has changed the packs of the repository meanwhile.')
    }
    await addPacks(tx, id, packs, version)
    return true
  })
}
