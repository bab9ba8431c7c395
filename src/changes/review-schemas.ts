import { Type } from 'typebox'
import { closed, field, textForm } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery } from '#http/pagination.ts'

const Text = Type.String({
  ...textForm('a text of 1 to 16,384 characters without NUL', '^[^\\0]{1,16384}$'),
  description: 'its text, Markdown',
})
const Side = Type.Enum(['new', 'old'] as const, {
  description: 'whether the line is of the version (`new`), or of its base (`old`)',
})

const Path = textForm('a path of 1 to 4096 characters on one line', '^[^\\p{Cc}]{1,4096}$')

export const CommentQuery = Type.Object({
  ...PageQuery.properties,
  path: Type.Optional(
    Type.String({ ...Path, description: 'only comments on this file and its lines' }),
  ),
  onFiles: Type.Optional(
    Type.Boolean({ description: '`true` for only comments on files and their lines' }),
  ),
})

export const CommentBody = Type.Object(
  {
    text: Text,
    replyTo: Type.Optional(
      Type.String({ description: 'a comment of the thread that it continues' }),
    ),
    version: Type.Optional(
      Type.Integer({
        description: 'the version that it is on; the last one by default',
        minimum: 1,
        maximum: 100_000_000,
      }),
    ),
    path: Type.Optional(
      Type.String({
        ...Path,
        description: 'the file that it is on',
      }),
    ),
    line: Type.Optional(
      Type.Integer({
        description: 'the line of the file that it is on',
        minimum: 1,
        maximum: 100_000_000,
      }),
    ),
    side: Type.Optional(Side),
  },
  closed,
)

export const CommentEditBody = Type.Object(
  {
    text: Type.Optional(Text),
    resolved: Type.Optional(
      Type.Boolean({ description: 'whether the thread of the comment is resolved' }),
    ),
  },
  { ...closed, minProperties: 1 },
)

export const VerdictBody = Type.Object(
  {
    verdict: Type.Enum(['approve', 'request-changes', 'none'] as const, {
      description: '`approve`, `request-changes`, or `none` to withdraw it',
    }),
    version: Type.Integer({
      description: 'the version that was looked at, the last one',
      minimum: 1,
      maximum: 100_000_000,
    }),
  },
  closed,
)

export const CommentSchema = named(
  'ChangeComment',
  Type.Object({
    id: field.text('its id'),
    threadId: field.text('the first comment of its thread'),
    version: field.integer('the version that it is on'),
    path: field.orNull(Type.String(), 'the file; null for the change as a whole'),
    side: field.orNull(Side),
    line: field.orNull(Type.Integer(), 'the line of the file in that version; null for none'),
    currentLine: field.orNull(
      Type.Integer(),
      'the same line in the last version; null when it was changed or deleted since',
    ),
    text: field.text('its text, Markdown'),
    username: field.text('its author'),
    createdAt: field.time('when it was made'),
    editedAt: field.orNull(Type.Integer(), 'when its text was last edited'),
    resolvedBy: field.orNull(Type.String(), 'who has resolved the thread; null while it is open'),
  }),
)

export const VerdictSchema = Type.Object({
  username: field.text('who has given it'),
  verdict: Type.Enum(['approve', 'request-changes'] as const, {
    description: '`approve` or `request-changes`',
  }),
  version: field.integer('the version that it was given for'),
  createdAt: field.time('when it was given'),
  counts: field.boolean(
    'whether it counts: the last version has the same patches, and the user may push and has not made it',
  ),
})
