import { type Static, Type } from 'typebox'
import type { CommitObject } from '#git/objects/commit-object.ts'
import { named } from '#http/named-schemas.ts'
import { objectId } from './commit-schemas.ts'

const summaryMaxLength = 500

/** A commit in a list of something else. */
export const BriefCommit = named(
  'BriefCommit',
  Type.Object({
    id: objectId('Id of the commit'),
    author: Type.Object({
      name: Type.String({ description: 'Name' }),
      email: Type.String({ description: 'Email address' }),
    }),
    at: Type.Integer({ description: 'When it was authored, in milliseconds since the Unix epoch' }),
    summary: Type.String({ description: 'First line of the message, up to 500 characters' }),
  }),
)

export function toBriefCommit(id: string, commit: CommitObject): Static<typeof BriefCommit> {
  const { name, email, at } = commit.author
  const [summary = ''] = commit.message.trimStart().split('\n', 1)
  return { id, author: { name, email }, at, summary: summary.slice(0, summaryMaxLength) }
}
