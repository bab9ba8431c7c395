import { type Static, Type } from 'typebox'
import { field } from '#base/schema-options.ts'
import type { CommitObject } from '#git/objects/commit-object.ts'
import { named } from '#http/named-schemas.ts'

const summaryMaxLength = 500

/** A commit in a list of something else. */
export const BriefCommit = named(
  'BriefCommit',
  Type.Object({
    id: field.text('Id of the commit'),
    author: Type.Object({
      name: field.text('Name'),
      email: field.text('Email address'),
    }),
    at: field.time('When it was authored'),
    summary: field.text('First line of the message, up to 500 characters'),
  }),
)

export function toBriefCommit(id: string, commit: CommitObject): Static<typeof BriefCommit> {
  const { name, email, at } = commit.author
  const [summary = ''] = commit.message.trimStart().split('\n', 1)
  return { id, author: { name, email }, at, summary: summary.slice(0, summaryMaxLength) }
}
