import { sql } from 'kysely'
import type { BranchQueueRow, Db, QueuedChangeRow } from '#database/schema.ts'
import type { QueueWork } from './trial.ts'

type QueueId = Pick<BranchQueueRow, 'repositoryId' | 'target'>

const nothing: QueueWork = { trials: [], doubts: [] }

/** Puts a change into the queue of its branch, in place of an earlier entry. */
export async function insertQueued(tx: Db, row: QueuedChangeRow): Promise<void> {
  const { repositoryId, number, ...set } = row
  await tx
    .insertInto('queuedChanges')
    .values(row)
    .onConflict((of) => of.columns(['repositoryId', 'number']).doUpdateSet(set))
    .execute()
  await tx
    .insertInto('branchQueues')
    .values({
      ...{ repositoryId, target: row.target, size: 1, revision: 0, arrivals: 1 },
      ...{ work: JSON.stringify(nothing), worker: '', workUntil: 0 },
    })
    .onConflict((queue) =>
      queue
        .columns(['repositoryId', 'target'])
        .doUpdateSet({ arrivals: sql<number>`branch_queues.arrivals + 1` }),
    )
    .execute()
}

/** Records what trials say of a change. */
export async function updateQueued(
  tx: Db,
  { repositoryId, number }: Pick<QueuedChangeRow, 'repositoryId' | 'number'>,
  set: Partial<QueuedChangeRow>,
): Promise<void> {
  await tx
    .updateTable('queuedChanges')
    .set(set)
    .where('repositoryId', '=', repositoryId)
    .where('number', '=', number)
    .execute()
}

/** Takes a change out of the queue. Returns whether it was in it. */
export async function deleteQueued(
  tx: Db,
  { repositoryId, number }: Pick<QueuedChangeRow, 'repositoryId' | 'number'>,
): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('queuedChanges')
    .where('repositoryId', '=', repositoryId)
    .where('number', '=', number)
    .executeTakeFirstOrThrow()
  return numDeletedRows > 0n
}

export function findQueued(
  db: Db,
  { repositoryId, number }: Pick<QueuedChangeRow, 'repositoryId' | 'number'>,
): Promise<QueuedChangeRow | undefined> {
  return db
    .selectFrom('queuedChanges')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .where('number', '=', number)
    .executeTakeFirst()
}

/** The changes in the queue of a repository or of a branch, in the order in which they are tried. */
export function listQueued(
  db: Db,
  { repositoryId, target }: { repositoryId: string; target?: string },
): Promise<QueuedChangeRow[]> {
  return db
    .selectFrom('queuedChanges')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .$if(target !== undefined, (rows) => rows.where('target', '=', target ?? ''))
    .orderBy('urgent', 'desc')
    .orderBy('id')
    .execute()
}

export function listBranchQueues(db: Db, repositoryId?: string): Promise<BranchQueueRow[]> {
  return db
    .selectFrom('branchQueues')
    .selectAll()
    .$if(repositoryId !== undefined, (rows) => rows.where('repositoryId', '=', repositoryId ?? ''))
    .execute()
}

/** Changes a queue that no other node has changed meanwhile. Returns its new revision; undefined when one has. */
export async function updateBranchQueue(
  tx: Db,
  { repositoryId, target, revision }: QueueId & Pick<BranchQueueRow, 'revision'>,
  set: Partial<BranchQueueRow>,
): Promise<number | undefined> {
  const row = await tx
    .updateTable('branchQueues')
    .set({ ...set, revision: revision + 1 })
    .where('repositoryId', '=', repositoryId)
    .where('target', '=', target)
    .where('revision', '=', revision)
    .returning('revision')
    .executeTakeFirst()
  return row?.revision
}

/** Deletes a queue unless something has arrived or changed since it was read. */
export async function deleteBranchQueue(
  tx: Db,
  {
    repositoryId,
    target,
    revision,
    arrivals,
  }: QueueId & Pick<BranchQueueRow, 'revision' | 'arrivals'>,
): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('branchQueues')
    .where('repositoryId', '=', repositoryId)
    .where('target', '=', target)
    .where('revision', '=', revision)
    .where('arrivals', '=', arrivals)
    .executeTakeFirstOrThrow()
  return numDeletedRows > 0n
}
