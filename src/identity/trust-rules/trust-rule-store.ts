import type { PageRequest } from '#base/list-all.ts'
import type { Db, TrustRuleRow, WorkloadTokenRow } from '#database/schema.ts'
import { isEnabled } from '../user-store.ts'

const ofEnabledUser = isEnabled('trustRules.username')

/** Which trust rules: all, those that a user created, or those of a repository or a namespace itself. */
export type WhoseRules =
  | 'all'
  | { username: string }
  | { repositoryId: string }
  | { namespaceId: string }

/** A trust rule with the name of its namespace. */
export type PlacedRule = TrustRuleRow & { namespace: string | null }

export async function insertTrustRule(
  tx: Db,
  rule: TrustRuleRow,
  repositoryIds: readonly string[],
): Promise<void> {
  await tx.insertInto('trustRules').values(rule).execute()
  if (repositoryIds.length === 0) return
  const rows = repositoryIds.map((repositoryId) => ({ ruleId: rule.id, repositoryId }))
  await tx.insertInto('trustRuleRepositories').values(rows).execute()
}

/** Lists trust rules after an id, oldest first. */
export function listTrustRules(
  db: Db,
  whose: WhoseRules,
  { after, limit }: PageRequest,
): Promise<PlacedRule[]> {
  const query = withNamespace(db)
    .where('trustRules.id', '>', after)
    .orderBy('trustRules.id')
    .limit(limit)
  if (whose === 'all') return query.execute()
  if ('username' in whose) return query.where('username', '=', whose.username).execute()
  if ('namespaceId' in whose) return query.where('namespaceId', '=', whose.namespaceId).execute()
  return query
    .where('namespaceId', 'is', null)
    .where('trustRules.id', 'in', idsOfRepository(db, whose.repositoryId))
    .execute()
}

export function findTrustRule(db: Db, id: string): Promise<PlacedRule | undefined> {
  return withNamespace(db).where('trustRules.id', '=', id).executeTakeFirst()
}

function withNamespace(db: Db) {
  return db
    .selectFrom('trustRules')
    .leftJoin('namespaces', 'namespaces.id', 'trustRules.namespaceId')
    .selectAll('trustRules')
    .select('namespaces.name as namespace')
}

const maxUsersOfIssuer = 100

/** Users whose trust rules name an issuer. */
export async function listUsersOfIssuer(db: Db, issuer: string): Promise<string[]> {
  const rows = await db
    .selectFrom('trustRules')
    .select('username')
    .distinct()
    .where('issuer', '=', issuer)
    .limit(maxUsersOfIssuer)
    .execute()
  return rows.map(({ username }) => username)
}

/** The ids of those of some trust rules whose creators are not disabled. */
export async function listOfEnabled(db: Db, ids: readonly string[]): Promise<Set<string>> {
  const query = db.selectFrom('trustRules').select('id').where('id', 'in', ids).where(ofEnabledUser)
  return new Set((await query.execute()).map(({ id }) => id))
}

/** Lists the trust rules that cover a repository, its own and those of its namespace, for an issuer; oldest first. */
export function listRulesFor(
  db: Db,
  { repositoryId, issuer }: { repositoryId: string; issuer: string },
): Promise<TrustRuleRow[]> {
  return db
    .selectFrom('trustRules')
    .selectAll()
    .where('issuer', '=', issuer)
    .where((is) => {
      const isNamed = is('id', 'in', idsOfRepository(db, repositoryId))
      const namespace = db
        .selectFrom('repositories')
        .select('namespaceId')
        .where('id', '=', repositoryId)
      const isInNamespace = is('namespaceId', '=', namespace)
      return is.or([
        is.and([is('namespaceId', 'is', null), isNamed]),
        is.and([isInNamespace, is.or([is('coversAll', '=', 1), isNamed])]),
      ])
    })
    .orderBy('id')
    .execute()
}

function idsOfRepository(db: Db, repositoryId: string) {
  return db
    .selectFrom('trustRuleRepositories')
    .select('ruleId')
    .where('repositoryId', '=', repositoryId)
}

/** The ids of the repositories that trust rules name, by the ids of these; for a namespace, those that are in it. */
export async function listRuleRepositories(
  db: Db,
  ruleIds: readonly string[],
): Promise<ReadonlyMap<string, string[]>> {
  if (ruleIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('trustRuleRepositories')
    .innerJoin('trustRules', 'trustRules.id', 'ruleId')
    .innerJoin('repositories', 'repositories.id', 'repositoryId')
    .select(['ruleId', 'repositoryId'])
    .where('ruleId', 'in', ruleIds)
    .where((is) =>
      is.or([
        is('trustRules.namespaceId', 'is', null),
        is('trustRules.namespaceId', '=', is.ref('repositories.namespaceId')),
      ]),
    )
    .orderBy('repositoryId')
    .execute()
  const byRule = Map.groupBy(rows, ({ ruleId }) => ruleId)
  return new Map([...byRule].map(([id, of]) => [id, of.map(({ repositoryId }) => repositoryId)]))
}

export async function countTrustRules(db: Db, username: string): Promise<number> {
  const { count } = await db
    .selectFrom('trustRules')
    .select((is) => is.fn.countAll<number | string>().as('count'))
    .where('username', '=', username)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Changes a trust rule; returns whether it exists. */
export async function updateTrustRule(
  db: Db,
  id: string,
  changed: Partial<Pick<TrustRuleRow, 'lastUsedAt' | 'lastRefusedAt' | 'lastRefusal'>>,
): Promise<boolean> {
  const query = db.updateTable('trustRules').set(changed).where('id', '=', id)
  return (await query.executeTakeFirstOrThrow()).numUpdatedRows > 0n
}

/** Deletes a trust rule with its tokens; returns whether it existed. */
export async function deleteTrustRule(tx: Db, id: string): Promise<boolean> {
  const query = tx.deleteFrom('trustRules').where('id', '=', id)
  return (await query.executeTakeFirstOrThrow()).numDeletedRows > 0n
}

/**
 * Inserts the token of a workload, and deletes those that have expired. Does nothing when its rule has `max` others already;
 * returns then when the first of these expires. The row of the rule must be locked.
 */
export async function insertWorkloadToken(
  tx: Db,
  token: WorkloadTokenRow,
  { now, max }: { now: number; max: number },
): Promise<number | undefined> {
  await tx.deleteFrom('workloadTokens').where('expiresAt', '<=', now).execute()
  const { count, first } = await tx
    .selectFrom('workloadTokens')
    .select((is) => [
      is.fn.countAll<number | string>().as('count'),
      is.fn.min<number | null>('expiresAt').as('first'),
    ])
    .where('ruleId', '=', token.ruleId)
    .executeTakeFirstOrThrow()
  if (Number(count) >= max) return Number(first)
  await tx.insertInto('workloadTokens').values(token).execute()
  return undefined
}

export type LiveWorkloadToken = Pick<WorkloadTokenRow, 'subject' | 'expiresAt'> & {
  tokenId: string
  rule: TrustRuleRow
}

/** Finds a token of a workload that has not expired, with its rule. */
export async function findWorkloadToken(
  db: Db,
  by: { tokenHash: string } | { id: string },
  now: number,
): Promise<LiveWorkloadToken | undefined> {
  const query = db
    .selectFrom('workloadTokens')
    .innerJoin('trustRules', 'trustRules.id', 'workloadTokens.ruleId')
    .selectAll('trustRules')
    .select(['workloadTokens.id as tokenId', 'workloadTokens.subject', 'workloadTokens.expiresAt'])
    .where('workloadTokens.expiresAt', '>', now)
  const row = await ('id' in by
    ? query.where('workloadTokens.id', '=', by.id)
    : query.where('workloadTokens.tokenHash', '=', by.tokenHash)
  ).executeTakeFirst()
  if (!row) return undefined
  const { tokenId, subject, expiresAt, ...rule } = row
  return { tokenId, subject, expiresAt, rule }
}
