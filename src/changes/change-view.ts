import type { Static } from 'typebox'
import type { ChangeVersionRow } from '#database/schema.ts'
import { versionName } from '#git/refs/ref-name.ts'
import { branchPrefix } from '#git/refs/refs.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { ChangeSchema } from './change-schemas.ts'
import type { ListedChangeRow } from './change-store.ts'
import { urlOfChange } from './proposals.ts'

export type ChangeView = Static<typeof ChangeSchema>

/** The name of the branch that a change is for. */
export const branchOf = ({ target }: Pick<ListedChangeRow, 'target'>) =>
  target.slice(branchPrefix.length)

/** A change as the API shows it. */
export function toChange(
  row: ListedChangeRow,
  repository: Pick<Repository, 'name'>,
  baseUrl: string,
): ChangeView {
  const { number, title, state, username, version, createdAt, updatedAt, closedAt, closedBy } = row
  const { topic } = row
  return {
    ...{ number, title, state, username, version, createdAt, updatedAt, closedAt, closedBy },
    target: branchOf(row),
    source: row.source === '' ? null : row.source.slice(branchPrefix.length),
    topic: topic.startsWith('topic:') ? topic.slice('topic:'.length) : topic || null,
    commit: row.commitId,
    ref: versionName(row),
    url: urlOfChange(baseUrl, repository, number),
    landedCommit: row.landedId,
    pushId: row.pushId,
  }
}

/** A version as the API shows it. */
export function toVersion({
  number,
  version,
  commitId,
  baseId,
  username,
  createdAt,
}: ChangeVersionRow) {
  const ref = versionName({ number, version })
  return { version, ref, commit: commitId, base: baseId, username, createdAt }
}
