import { isAdmin } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import { Problem } from '#base/problem.ts'
import { namespaceIn } from '#base/repository-name.ts'
import type { Db } from '#database/schema.ts'
import {
  formerNameMs,
  insertFormerName,
  pruneFormerNames,
  takeFormerName,
} from './former-name-store.ts'
import { findNamespace } from './namespace-store.ts'

type Claim = { name: string; repositoryId: string; now: number }

const maxFormerNames = 100
/** With those by renames of the namespace, so that renames of a repository leave space for these. */
const maxFormerNamesInAll = 200

/**
 * Takes a former name from its repository, in the transaction that gives it to another one. Only the former repository's
 * owner, admins, and those of the namespace of the name may: clones of its old address would get the code of a stranger.
 * Throws `repository_name_taken`.
 */
export async function claimName(
  tx: Db,
  principal: Principal,
  { name, repositoryId, now }: Claim,
): Promise<void> {
  const former = await takeFormerName(tx, name, now)
  if (!former || former.repositoryId === repositoryId) return
  if (isAdmin(principal) || principal.username === former.ownerUsername) return
  const namespace = namespaceIn(name)
  if (namespace !== undefined) {
    const { role } = (await findNamespace(tx, namespace, principal.username)) ?? {}
    if (role === 'admin') return
  }
  const until = new Date(former.freedAt + formerNameMs).toISOString()
  const detail = `"${name}" was the name of a repository that was renamed; until ${until} only its owner and admins can take it.`
  throw new Problem('repository_name_taken', detail)
}

/**
 * Keeps a name for its owner that a rename has freed, of the repository itself or of its namespace. Throws
 * `too_many_renames`.
 */
export async function keepFormerName(
  tx: Db,
  { name, repositoryId, now }: Claim,
  renamed: 'repository' | 'namespace' = 'repository',
): Promise<void> {
  const max = renamed === 'namespace' ? maxFormerNamesInAll : maxFormerNames
  if ((await pruneFormerNames(tx, repositoryId, now)) >= max) {
    const detail = `"${name}" had ${max} other names in the last 90 days, which is the maximum.`
    throw new Problem('too_many_renames', detail)
  }
  await insertFormerName(tx, { name, repositoryId, freedAt: now })
}
