import { toSize } from '#base/format.ts'
import { Problem } from '#base/problem.ts'
import type { Db } from '#database/schema.ts'
import {
  findLimitsOfRepository,
  type LimitedNamespace,
  measureNamespace,
} from './namespace-limit-store.ts'
import { findBytes } from './repository-size-store.ts'

/**
 * Throws `too_many_repositories` when the namespace of a repository has more than it may have. Called in the transaction that
 * has put the repository there.
 */
export async function enforceRepositoryLimit(tx: Db, repositoryId: string): Promise<void> {
  const namespace = await findLimitsOfRepository(tx, repositoryId, 'update')
  if (!namespace || namespace.maxRepositories === null) return
  const { repositories } = await measureNamespace(tx, namespace.namespaceId)
  const { name, maxRepositories } = namespace
  if (repositories <= maxRepositories) return
  const detail = `The namespace "${name}" may have at most ${maxRepositories} repositories, and has ${repositories - 1}. Delete one, or ask an admin for more.`
  throw new Problem('too_many_repositories', detail)
}

/**
 * Throws `namespace_full` when the repositories of a namespace take more bytes than they may. Called in the transaction that
 * has recorded that a repository there takes `added` bytes more than before.
 */
export async function enforceByteLimit(tx: Db, repositoryId: string, added: number): Promise<void> {
  // What takes nothing is possible in a full namespace, too.
  if (added === 0) return
  const namespace = await findLimitsOfRepository(tx, repositoryId, 'update')
  if (!namespace || namespace.maxBytes === null) return
  const { bytes } = await measureNamespace(tx, namespace.namespaceId)
  if (bytes <= namespace.maxBytes) return
  throw namespaceFull(namespace, bytes - added)
}

/** Throws what both throw when a repository that comes from elsewhere is not accepted as it is in its namespace. */
export async function enforceLimits(tx: Db, repositoryId: string): Promise<void> {
  await enforceRepositoryLimit(tx, repositoryId)
  await enforceByteLimit(tx, repositoryId, await findBytes(tx, repositoryId))
}

/** How many more bytes a repository may take, and the Problem of what takes more; undefined without a limit. */
export async function findBytesLeft(
  db: Db,
  repositoryId: string,
): Promise<{ bytes: number; problem: Problem } | undefined> {
  const namespace = await findLimitsOfRepository(db, repositoryId)
  if (!namespace || namespace.maxBytes === null) return undefined
  const { bytes } = await measureNamespace(db, namespace.namespaceId)
  return {
    bytes: Math.max(0, namespace.maxBytes - bytes),
    problem: namespaceFull(namespace, bytes),
  }
}

function namespaceFull({ name, maxBytes }: LimitedNamespace, usedBytes: number): Problem {
  const detail = `The namespace "${name}" has too little space left for this: ${toSize(usedBytes)} of ${toSize(maxBytes ?? 0)} are used.`
  return new Problem('namespace_full', detail)
}
