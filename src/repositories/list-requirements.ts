import type { Db } from '#database/schema.ts'
import { protectionsOf, toProtection } from './protection-rules.ts'
import { listProtectionsInForce } from './protection-store.ts'
import type { Requirement } from './requirements.ts'

/** What the rules of a repository and its namespace require of a commit before it may be pushed to a ref. */
export async function listRequirements(
  db: Db,
  repositoryId: string,
  ref: string,
): Promise<Requirement[]> {
  const rows = await listProtectionsInForce(db, repositoryId)
  return protectionsOf(ref, rows.map(toProtection)).flatMap(({ requires }) => requires)
}
