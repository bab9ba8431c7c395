import { join } from 'node:path'
import type { Db, RefRow } from '#database/schema.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import type { Git } from '#git/process/git-process.ts'
import { branchPrefix, readAllRefs, readDefaultBranch } from '#git/refs/refs.ts'
import { storePacks } from './durable-packs.ts'
import { addPacks, type StoredPack } from './pack-store.ts'
import { lockRepository, raiseVersion, saveRefs } from './ref-store.ts'
import { goneFromStore } from './store-error.ts'

type Draft = { id: string; directory: string }

/**
 * Makes the objects of a complete repository durable. Returns what adds them with its refs, in the transaction that
 * makes the repository ready.
 */
export async function adoptDraft(
  dependencies: Parameters<typeof storePacks>[0] & { git: Git },
  { id, directory }: Draft,
): Promise<(tx: Db) => Promise<void>> {
  const packs = await storePacks(dependencies, id, join(directory, 'objects', 'pack'))
  const refs = await readRefRows(dependencies.git, { id, directory })
  const head = await readDefaultBranch(directory)
  return (tx) => record(tx, id, { packs, refs, head })
}

async function readRefRows(git: Git, { id, directory }: Draft): Promise<RefRow[]> {
  const values = await readAllRefs(directory)
  const others = [...values].filter(([name]) => !name.startsWith(branchPrefix))
  const names = [...new Set(others.map(([, value]) => `${value}^{}`))]
  const peeled = names.length > 0 ? await findObjects(git, directory, names) : new Map()
  return [...values].map(([name, objectId]) => {
    const target = peeled.get(`${objectId}^{}`) ?? objectId
    return { repositoryId: id, name, objectId, peeledId: target === objectId ? null : target }
  })
}

async function record(
  tx: Db,
  id: string,
  { packs, refs, head }: { packs: StoredPack[]; refs: RefRow[]; head: string },
): Promise<void> {
  const repository = (await lockRepository(tx, id)) ?? (await lockRepository(tx, id, 'deleted'))
  if (!repository) throw goneFromStore()
  await saveRefs(tx, refs)
  const version = await raiseVersion(tx, id, { ...repository, head })
  await addPacks(tx, id, packs, version)
}
