import type { ExpressionBuilder, Selectable } from 'kysely'
import type { Db, MaintenanceRow, Schema } from '#database/schema.ts'
import type { PublishedEvent } from '#events/events.ts'

/** The rules by which a repository is due. */
export type DueRules = {
  now: number
  /** Pushes after which it is due; undefined when only requested maintenance is. */
  pushes: number | undefined
  /** The longest wait of a single push, and the shortest time between two prunings, in milliseconds. */
  waitMs: number
  pruneIntervalMs: number
}

type MaintenanceLease = { leaseOwner: string; until: number }

export type Maintained = Selectable<MaintenanceRow>

type Where = ExpressionBuilder<Schema, 'maintenance'>

/** Adds to the pushes of a repository since its last maintenance. */
export async function addPushes(
  db: Db,
  { repositoryId, pushes, now }: { repositoryId: string; pushes: number; now: number },
): Promise<void> {
  await db
    .insertInto('maintenance')
    .values({ repositoryId, pushes, pushedAt: now, prunedAt: now })
    .onConflict((row) =>
      row.column('repositoryId').doUpdateSet((is) => ({
        pushes: is('maintenance.pushes', '+', pushes),
        pushedAt: is.fn.coalesce('maintenance.pushedAt', 'excluded.pushedAt'),
        isUnpruned: 1,
      })),
    )
    .execute()
}

/** Requests maintenance, whether or not it is due. */
export async function requestMaintenance(
  db: Db,
  { repositoryId, wanted, now }: { repositoryId: string; wanted: string; now: number },
): Promise<void> {
  const request = { wanted, wantedAt: now }
  await db
    .insertInto('maintenance')
    .values({ repositoryId, prunedAt: now, ...request })
    .onConflict((row) => row.column('repositoryId').doUpdateSet(request))
    .execute()
}

/** Subscribes maintenance to imports: an imported repository gets quick maintenance, or what was requested before. */
export async function maintainImported(
  tx: Db,
  now: number,
  events: PublishedEvent[],
): Promise<void> {
  for (const { kind, repositoryId } of events) {
    if (kind !== 'repository.imported' || repositoryId === null) continue
    await tx
      .insertInto('maintenance')
      .values({ repositoryId, prunedAt: now, wanted: 'quick', wantedAt: now })
      .onConflict((row) =>
        row.column('repositoryId').doUpdateSet((is) => ({
          wanted: is
            .case()
            .when('maintenance.wanted', '=', '')
            .then('quick')
            .else(is.ref('maintenance.wanted'))
            .end(),
          wantedAt: now,
        })),
      )
      .execute()
  }
}

/** Requests at least quick maintenance, unless a retry after a failure must wait. */
export async function requestAtLeastQuick(
  db: Db,
  { repositoryId, now }: { repositoryId: string; now: number },
): Promise<void> {
  await db
    .updateTable('maintenance')
    .set((is) => ({
      wanted: is.case().when('wanted', '=', '').then('quick').else(is.ref('wanted')).end(),
      wantedAt: now,
    }))
    .where('repositoryId', '=', repositoryId)
    .where('notBefore', '<=', now)
    .execute()
}

/** Whether any maintenance was requested and has not run yet. */
export async function hasRequests(db: Db): Promise<boolean> {
  const row = await db
    .selectFrom('maintenance')
    .select('repositoryId')
    .where('wanted', '<>', '')
    .where(isNotDeleted)
    .executeTakeFirst()
  return row !== undefined
}

export function findMaintenance(db: Db, repositoryId: string): Promise<Maintained | undefined> {
  return db
    .selectFrom('maintenance')
    .selectAll()
    .where('repositoryId', '=', repositoryId)
    .executeTakeFirst()
}

/** The number of repositories that are due. */
export async function countDue(db: Db, rules: DueRules): Promise<number> {
  const { count } = await db
    .selectFrom('maintenance')
    .select((is) => is.fn.countAll<number>().as('count'))
    .where((is) => isDue(is, rules))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/**
 * Leases the due repository that needs maintenance most, among those without a lease or with an older one of the same owner.
 * Returns its row as it was before, with the new `startedAt`.
 */
export async function claimNext(
  db: Db,
  { leaseOwner, until }: MaintenanceLease,
  rules: DueRules,
): Promise<Maintained | undefined> {
  const { now } = rules
  const isFree = (is: Where) =>
    is.or([is('leaseUntil', '<', now), is('leaseHolder', '=', leaseOwner)])
  const row = await db
    .selectFrom('maintenance')
    .selectAll()
    .where((is) => is.and([isDue(is, rules), isFree(is)]))
    .orderBy('wanted', 'desc')
    .orderBy('pushes', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (!row) return undefined
  const claimed = await db
    .updateTable('maintenance')
    .set({ leaseHolder: leaseOwner, leaseUntil: until, startedAt: now })
    .where('repositoryId', '=', row.repositoryId)
    .where(isFree)
    .returning('repositoryId')
    .executeTakeFirst()
  return claimed && { ...row, startedAt: now }
}

/** Extends a lease; false when it was lost. */
export async function extendClaim(
  db: Db,
  repositoryId: string,
  { leaseOwner, until }: MaintenanceLease,
): Promise<boolean> {
  const row = await db
    .updateTable('maintenance')
    .set({ leaseUntil: until })
    .where('repositoryId', '=', repositoryId)
    .where('leaseHolder', '=', leaseOwner)
    .returning('repositoryId')
    .executeTakeFirst()
  return row !== undefined
}

/** Releases a lease; the repository stays due. */
export async function releaseLease(
  db: Db,
  repositoryId: string,
  leaseOwner: string,
): Promise<void> {
  await db
    .updateTable('maintenance')
    .set({ leaseHolder: null, leaseUntil: 0 })
    .where('repositoryId', '=', repositoryId)
    .where('leaseHolder', '=', leaseOwner)
    .execute()
}

/** Records a success; false when the repository was deleted. */
export async function recordSuccess(
  db: Db,
  row: Maintained,
  done: { now: number; report: string; pruned: { hasCruft: boolean } | undefined },
): Promise<boolean> {
  const { now, report, pruned } = done
  const recorded = await db
    .updateTable('maintenance')
    .set((is) => ({
      pushes: is('pushes', '-', row.pushes),
      pushedAt: is.case().when('pushes', '>', row.pushes).then(is.ref('pushedAt')).else(null).end(),
      ...(pruned && {
        prunedAt: now,
        isUnpruned: is
          .case()
          .when('pushes', '>', row.pushes)
          .then(is.ref('isUnpruned'))
          .else(is.lit(pruned.hasCruft ? 1 : 0))
          .end(),
      }),
      wanted: stillWanted(is, row),
      leaseHolder: null,
      leaseUntil: 0,
      finishedAt: now,
      report,
      failures: 0,
      fault: null,
      notBefore: 0,
    }))
    .where('repositoryId', '=', row.repositoryId)
    .returning('repositoryId')
    .executeTakeFirst()
  return recorded !== undefined
}

/** Records a failure, and when to try again; false when the repository was deleted. */
export async function recordFailure(
  db: Db,
  row: Maintained,
  { fault, notBefore }: { fault: string; notBefore: number },
): Promise<boolean> {
  const recorded = await db
    .updateTable('maintenance')
    .set((is) => ({
      wanted: stillWanted(is, row),
      leaseHolder: null,
      leaseUntil: 0,
      failures: is('failures', '+', 1),
      fault,
      notBefore,
    }))
    .where('repositoryId', '=', row.repositoryId)
    .returning('repositoryId')
    .executeTakeFirst()
  return recorded !== undefined
}

function isDue(is: Where, { now, pushes, waitMs, pruneIntervalMs }: DueRules) {
  const isRequested = is('wanted', '<>', '')
  if (pushes === undefined) return is.and([isRequested, isNotDeleted(is)])
  const isAutomaticallyDue = is.and([
    is('notBefore', '<=', now),
    is.or([
      is('pushes', '>=', pushes),
      is('pushedAt', '<', now - waitMs),
      is.and([is('isUnpruned', '=', 1), is('prunedAt', '<', now - pruneIntervalMs)]),
    ]),
  ])
  return is.and([is.or([isRequested, isAutomaticallyDue]), isNotDeleted(is)])
}

function isNotDeleted(is: Where) {
  return is.not(
    is.exists(
      is
        .selectFrom('repositories')
        .select('id')
        .whereRef('id', '=', 'maintenance.repositoryId')
        .where('deletedAt', 'is not', null),
    ),
  )
}

// A request made after the maintenance started is not served by it.
function stillWanted(is: Where, { startedAt }: Maintained) {
  return is.case().when('wantedAt', '>', startedAt).then(is.ref('wanted')).else('').end()
}
