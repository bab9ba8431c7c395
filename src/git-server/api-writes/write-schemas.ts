import { Type } from 'typebox'
import { objectIdForm } from '#access/names.ts'
import { closed } from '#base/schema-options.ts'
import { refMaxLength } from '#git/refs/ref-name.ts'
import { branchPrefix } from '#git/refs/refs.ts'
import { named } from '#http/named-schemas.ts'
import { CommitPerson, GivenAuthor, GivenDate } from './identities.ts'

const maxChanges = 1000
export const pathMaxBytes = 4096
const messageMaxLength = 65_536
const branchMaxLength = refMaxLength - branchPrefix.length

const ObjectId = (description: string) =>
  Type.String({
    ...objectIdForm,
    description,
    examples: ['9c8cfb657abf1be1c119e3fd0306d9f5edd7337b'],
  })
const Branch = (description: string) =>
  Type.String({ description, minLength: 1, maxLength: branchMaxLength, examples: ['main'] })
const Revision = (description: string) =>
  Type.String({
    description: `${description}: a branch, a tag, the full name of a ref, or an id or its first 7 or more digits`,
    minLength: 1,
    maxLength: 1024,
  })
const Path = (description: string) =>
  Type.String({
    description: `${description}; at most ${pathMaxBytes} bytes in UTF-8`,
    'x-form': `a string of 1 to ${pathMaxBytes} bytes in UTF-8`,
    minLength: 1,
    maxLength: pathMaxBytes,
    examples: ['docs/index.md'],
  })
const Message = (description: string) =>
  Type.String({ description, minLength: 1, maxLength: messageMaxLength })

const ExpectedHead = Type.Optional(
  ObjectId(
    'The commit that the branch must be at; 40 zeros for a branch that must not exist. Without it, the branch may be at ' +
      'any commit, and a repeated request may make a second commit',
  ),
)

export const Change = Type.Object(
  {
    path: Path('Path of the file, from the root'),
    content: Type.Optional(Type.String({ description: 'The whole new content, as text' })),
    contentBase64: Type.Optional(Type.String({ description: 'The whole new content, in Base64' })),
    delete: Type.Optional(
      Type.Literal(true, {
        description: 'Deletes the file, or the directory with all files in it',
      }),
    ),
    moveFrom: Type.Optional(
      Path(
        'Former path of the file or directory, which is moved; a file with its content and mode, unless they are given',
      ),
    ),
    mode: Type.Optional(
      Type.Union(
        ['100644', '100755', '120000', '160000'].map((mode) => Type.Literal(mode)),
        {
          description:
            'The mode: `100644` for a file, `100755` for a program, `120000` for a symbolic link, whose content is its ' +
            'target, `160000` for a submodule, whose content is the id of its commit. By default that of the file before, or `100644`',
        },
      ),
    ),
  },
  closed,
)

export const CommitBody = Type.Object(
  {
    branch: Branch('Name of the branch'),
    expectedHead: ExpectedHead,
    start: Type.Optional(Revision('Where a new branch starts, which must not exist then')),
    message: Message('The message; a line feed is added if it does not end with one'),
    author: Type.Optional(GivenAuthor),
    date: Type.Optional(GivenDate),
    changes: Type.Array(Change, {
      description:
        'What changes, all against the commit before, in no order: what is deleted or moved away goes first',
      maxItems: maxChanges,
    }),
    allowEmpty: Type.Optional(
      Type.Boolean({
        description: 'Whether to make a commit that changes nothing',
        default: false,
      }),
    ),
  },
  closed,
)

const { message, author, date, changes } = CommitBody.properties

export const ProposedCommitBody = Type.Object(
  {
    branch: Branch('The branch that the commit is proposed for'),
    start: Type.Optional(Revision('The commit that it follows; the tip of the branch by default')),
    ...{ message, author, date, changes },
  },
  closed,
)

export const MergeMethod = Type.Enum(['merge', 'squash', 'rebase', 'fast-forward'] as const, {
  description:
    '`merge` makes a merge commit; `squash` one commit with all changes; `rebase` makes each commit again on top of ' +
    'the branch, as `git rebase` does; `fast-forward` moves the branch to the commit, which must follow on it',
})

export const MergeBody = Type.Object(
  {
    base: Branch('The branch that is merged into'),
    head: Revision('What is merged'),
    method: MergeMethod,
    expectedHead: ExpectedHead,
    message: Type.Optional(Message('The message of a merge or squash; Git’s usual one by default')),
    author: Type.Optional(GivenAuthor),
    date: Type.Optional(GivenDate),
  },
  closed,
)

export const RefBody = Type.Object(
  {
    target: Revision('What the ref shall point to'),
    expected: Type.Optional(
      ObjectId('The object that the ref must point to; 40 zeros for a ref that must not exist'),
    ),
    force: Type.Optional(
      Type.Boolean({
        description: 'Whether the ref may lose commits, or a tag may move',
        default: false,
      }),
    ),
  },
  closed,
)

const refParameter = {
  ref: Type.String({
    description: 'Full name of the ref',
    minLength: 1,
    maxLength: 1024,
    examples: ['refs/heads/topic'],
  }),
}
export const RefQuery = Type.Object(refParameter)
export const RefDeletionQuery = Type.Object({
  ...refParameter,
  expected: Type.Optional(ObjectId('The object that the ref must point to')),
})

const pushId = Type.Union([Type.String(), Type.Null()], {
  description: 'Id of the push, which can be undone; null when nothing was changed',
})
const ref = Type.String({ description: 'Full name of the ref' })
const before = Type.String({ description: 'What it was before; 40 zeros when it did not exist' })

/** A commit that was made, and the ref that it is on. */
export const MadeCommit = named(
  'MadeCommit',
  Type.Object({
    id: Type.String({ description: 'Id of the commit' }),
    tree: Type.String({ description: 'Id of its tree' }),
    parents: Type.Array(Type.String(), { description: 'Ids of its parents' }),
    branch: Type.String({ description: 'Name of the branch' }),
    ref,
    before,
    author: CommitPerson,
    committer: CommitPerson,
    message: Type.String({ description: 'The message' }),
    pushId,
  }),
)

export const MadeMerge = named(
  'MadeMerge',
  Type.Object({
    branch: Type.String({ description: 'Name of the branch that was merged into' }),
    ref,
    before,
    id: Type.String({ description: 'The commit that the branch is at now' }),
    head: Type.String({ description: 'The commit that was merged' }),
    commits: Type.Array(Type.String(), {
      description: 'Ids of the commits that were made, oldest first; none for a fast-forward',
    }),
    merged: Type.Boolean({
      description: 'Whether the branch has changed; if not, it had everything already',
    }),
    pushId,
  }),
)

export const ChangedRef = named(
  'ChangedRef',
  Type.Object({
    ref,
    before,
    id: Type.String({ description: 'Id of the object that it points to now' }),
    type: Type.String({ description: 'Type of that object: `commit`, `tag`, `tree` or `blob`' }),
    pushId,
  }),
)
