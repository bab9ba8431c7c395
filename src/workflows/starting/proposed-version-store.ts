import type { ChangeRow, ChangeVersionRow, Db } from '#database/schema.ts'

/** A version of a change, as its runs need it; `username` and `actorId` are those of the version. */
type ProposedVersion = Pick<
  ChangeRow,
  'repositoryId' | 'number' | 'target' | 'source' | 'title' | 'description' | 'createdAt'
> &
  Pick<ChangeVersionRow, 'version' | 'commitId' | 'baseId' | 'username' | 'actorId'> & {
    /** Who has proposed the change. */
    proposer: string
  }

/** Finds a version of a change; the last one by default. */
export function findProposedVersion(
  db: Db,
  {
    repositoryId,
    number,
    version,
  }: { repositoryId: string; number: number; version?: number | undefined },
): Promise<ProposedVersion | undefined> {
  return db
    .selectFrom('changes')
    .innerJoin('changeVersions', (join) =>
      join
        .onRef('changeVersions.repositoryId', '=', 'changes.repositoryId')
        .onRef('changeVersions.number', '=', 'changes.number'),
    )
    .select(['changes.repositoryId', 'changes.number', 'target', 'source', 'title', 'description'])
    .select(['changes.createdAt', 'changes.username as proposer', 'changeVersions.version'])
    .select(['changeVersions.commitId', 'baseId', 'changeVersions.username', 'actorId'])
    .where('changes.repositoryId', '=', repositoryId)
    .where('changes.number', '=', number)
    .$if(version !== undefined, (rows) => rows.where('changeVersions.version', '=', version ?? 0))
    .orderBy('changeVersions.version', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Whether another user has ever landed a change of a user in a repository that the user had made. */
export async function hasLandedChange(
  db: Db,
  { repositoryId, username }: { repositoryId: string; username: string },
): Promise<boolean> {
  const row = await db
    .selectFrom('changes')
    .innerJoin('changeVersions', (join) =>
      join
        .onRef('changeVersions.repositoryId', '=', 'changes.repositoryId')
        .onRef('changeVersions.number', '=', 'changes.number')
        .onRef('changeVersions.version', '=', 'changes.version'),
    )
    .select('changes.number')
    .where('changes.repositoryId', '=', repositoryId)
    .where('changes.username', '=', username)
    .where('changeVersions.username', '=', username)
    .where('changes.state', '=', 'landed')
    // A change whose commits others have pushed to the branch is closed by nothing but that.
    .where('changes.pushId', 'is not', null)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}
