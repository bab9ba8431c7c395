import type { Db } from '#database/schema.ts'
import { listRefChangesAfter } from '#events/event-store.ts'
import { retainedRef } from '#git/refs/ref-name.ts'
import { isOverwriting, type PushedUpdate, type RefUpdate } from '#git/refs/refs.ts'

/** A ref that a push has changed, or may have changed. */
export type TouchedRef = { repositoryId: string; ref: string }

/** Lists the refs that pushes have changed since an event, with the refs of their retained commits. */
export async function listChangedRefs(db: Db, sinceEvent: number): Promise<TouchedRef[]> {
  const rows = await listRefChangesAfter(db, sinceEvent)
  return rows.flatMap(({ kind, repositoryId, data }) => {
    if (kind !== 'push') return [{ repositoryId: repositoryId ?? '', ref: 'HEAD' }]
    const update: PushedUpdate & { pushId: string } = JSON.parse(data)
    const retained = isOverwriting(update) ? [retainedRef(update.pushId, update)] : []
    return [update.ref, ...retained].map((ref) => ({ repositoryId: repositoryId ?? '', ref }))
  })
}

/** Lists the refs of running pushes. */
export async function listChangingRefs(db: Db): Promise<TouchedRef[]> {
  const rows = await db
    .selectFrom('pushes')
    .select(['repositoryId', 'updates', 'defaultBranch'])
    .where('finishedAt', 'is', null)
    .execute()
  return rows.flatMap(({ repositoryId, updates, defaultBranch }) => {
    const refs = (JSON.parse(updates) as RefUpdate[]).map(({ ref }) => ref)
    if (defaultBranch !== null) refs.push('HEAD')
    return refs.map((ref) => ({ repositoryId, ref }))
  })
}
