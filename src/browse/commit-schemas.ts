import { type Static, Type } from 'typebox'
import { field } from '#base/schema-options.ts'
import type { CommitObject, CommitPerson } from '#git/objects/commit-object.ts'
import { named } from '#http/named-schemas.ts'
import { Diff } from './diff-schemas.ts'

export const signature = (description: string) =>
  Type.Object(
    {
      name: field.text('Name'),
      email: field.text('Email address'),
      at: field.time('When'),
      timeZone: field.text('Time zone, such as `+0100`'),
    },
    { description },
  )

export const Commit = named(
  'Commit',
  Type.Object({
    id: field.text('Id of the commit'),
    tree: field.text('Id of its tree'),
    parents: field.texts('Ids of its parents'),
    author: signature('Who wrote the change'),
    committer: signature('Who made the commit'),
    message: field.text('Message, up to 16,384 characters'),
  }),
)

export const CommitDetails = named(
  'CommitDetails',
  Type.Object({ ...Commit.properties, diff: Type.Optional(Diff) }),
)

export function toCommit(id: string, commit: CommitObject): Static<typeof Commit> {
  const { tree, parents, author, committer, message } = commit
  return { id, tree, parents, author: toPerson(author), committer: toPerson(committer), message }
}

export function toPerson({ name, email, at, timeZone }: CommitPerson) {
  return { name, email, at, timeZone }
}
