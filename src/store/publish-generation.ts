import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Database } from '../database/database.ts'
import { storePacks } from './durable-packs.ts'
import { addPacks, retirePacks } from './pack-store.ts'
import { lockRepository, raiseVersion } from './ref-store.ts'
import { readStoredRepository } from './stored-repository-store.ts'

/**
 * Notes the packs of a repository before maintenance merges some of them in its directory. Returns what then replaces
 * these packs in the store by the new ones. Packs of pushes that come meanwhile stay.
 */
export async function beginGeneration(
  dependencies: Parameters<typeof storePacks>[0],
  { id, directory }: { id: string; directory: string },
): Promise<() => Promise<void>> {
  const { db } = dependencies
  const folder = join(directory, 'objects', 'pack')
  const live = (await readStoredRepository(db, id))?.packs ?? []

  return async () => {
    const present = new Set(await listHashes(folder))
    const merged = live.filter(({ hash }) => !present.has(hash))
    if (merged.length === 0) return
    const added = present.difference(new Set(live.map(({ hash }) => hash)))
    const packs = await storePacks(dependencies, id, folder, added)
    const keys = merged.map(({ key }) => key)
    await replacePacks(db, { id, packs, keys })
  }
}

type Replacement = { id: string; packs: Awaited<ReturnType<typeof storePacks>>; keys: string[] }

/** Fails, with nothing replaced, when other maintenance was faster: its uploads are then taken back. */
async function replacePacks(db: Database, { id, packs, keys }: Replacement): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const repository = await lockRepository(tx, id)
    if (!repository) return
    const version = await raiseVersion(tx, id, repository)
    const isDone =
      (await retirePacks(tx, keys, version)) && (await addPacks(tx, id, packs, version))
    if (!isDone)
      throw new Error('Another server has changed the packs of the repository meanwhile.')
  })
}

async function listHashes(folder: string): Promise<string[]> {
  return (await readdir(folder)).flatMap((name) => {
    const [, hash] = /^pack-([0-9a-f]{40})\.idx$/.exec(name) ?? []
    return hash === undefined ? [] : [hash]
  })
}
