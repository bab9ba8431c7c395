import { type Static, Type } from 'typebox'
import type { CommitObject, CommitPerson } from '#git/objects/commit-object.ts'
import { named } from '#http/named-schemas.ts'
import { Diff } from './diff-schemas.ts'

export const objectId = (description: string) => Type.String({ description })

export const signature = (description: string) =>
  Type.Object(
    {
      name: Type.String({ description: 'Name' }),
      email: Type.String({ description: 'Email address' }),
      at: Type.Integer({ description: 'When, in milliseconds since the Unix epoch' }),
      timeZone: Type.String({ description: 'Time zone, such as `+0100`' }),
    },
    { description },
  )

export const Commit = named(
  'Commit',
  Type.Object({
    id: objectId('Id of the commit'),
    tree: objectId('Id of its tree'),
    parents: Type.Array(Type.String(), { description: 'Ids of its parents' }),
    author: signature('Who wrote the change'),
    committer: signature('Who made the commit'),
    message: Type.String({ description: 'Message, up to 16,384 characters' }),
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
