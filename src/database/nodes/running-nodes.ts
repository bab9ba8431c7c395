import type { PendingMigration } from '../migrate.ts'
import { migrations, sharedStoreTables } from '../migrations.ts'
import { findNodeName } from './node-name.ts'
import { listNodes } from './node-store.ts'

/** Prevents a migration while other servers run that do not know it and cannot run on after it. */
export async function assertNoneRuns(
  { tx, version }: PendingMigration,
  dataDir: string,
): Promise<void> {
  // Older databases have no table of nodes.
  if (version <= migrations.indexOf(sharedStoreTables)) return
  const own = await findNodeName(dataDir)
  const others = (await listNodes(tx)).filter((name) => name !== own)
  if (others.length === 0) return
  throw new Error(
    `servers of an older version run on it, which cannot go on with the tables of this one: ${others.join(', ')}. ` +
      'Stop all of them; one that was killed counts for ten seconds.',
  )
}
