import { Type } from 'typebox'
import { closed, field, textForm } from '#base/schema-options.ts'
import { MergeMethod } from '#git-server/api-writes/write-schemas.ts'
import { named } from '#http/named-schemas.ts'
import { PageQuery } from '#http/pagination.ts'
import { descriptionMaxLength, titleMaxLength } from './proposals.ts'
import { QueuedSchema } from './queue/queue-schemas.ts'
import { VerdictSchema } from './review-schemas.ts'

const states = ['open', 'landed', 'abandoned'] as const

const Title = Type.String({
  ...textForm(`1 to ${titleMaxLength} characters on one line`, `^[^\\p{Cc}]{1,${titleMaxLength}}$`),
  description: 'its title',
})
const Description = Type.String({
  ...textForm(
    `a text of at most ${descriptionMaxLength} characters without NUL`,
    `^[^\\0]{0,${descriptionMaxLength}}$`,
  ),
  description: 'its description, Markdown',
})
/** A branch, or a user, given by name. */
const Name = textForm('1 to 250 characters on one line', '^[^\\p{Cc}]{1,250}$')
const ChangeState = Type.Enum([...states], { description: '`open`, `landed` or `abandoned`' })

export const ChangeQuery = Type.Object({
  limit: PageQuery.properties.limit,
  cursor: Type.Optional(
    Type.String(
      textForm('the cursor in the `Link` header of the previous page', '^[1-9]\\d{0,8}$'),
    ),
  ),
  state: Type.Optional(Type.Enum([...states], { description: 'only changes in this state' })),
  target: Type.Optional(Type.String({ ...Name, description: 'only changes for this branch' })),
  source: Type.Optional(
    Type.String({ ...Name, description: 'only changes that follow this branch' }),
  ),
  username: Type.Optional(
    Type.String({ ...Name, description: 'only changes that this user has proposed' }),
  ),
  waiting: Type.Optional(
    Type.Boolean({
      description:
        '`true` for only open changes that wait for the caller: its own, and where it may push, those that lack its ' +
        'verdict on the last version',
    }),
  ),
})

export const ChangeBody = Type.Object(
  {
    source: Type.String({
      ...Name,
      description: 'the branch with the commits; its pushes make further versions',
      examples: ['feature'],
    }),
    target: Type.String({ ...Name, description: 'the branch that it is for' }),
    title: Type.Optional(Title),
    description: Type.Optional(Description),
  },
  closed,
)

export const ChangeEditBody = Type.Object(
  {
    title: Type.Optional(Title),
    description: Type.Optional(Description),
    state: Type.Optional(
      Type.Enum(['open', 'abandoned'], {
        description: '`abandoned` closes it, `open` opens it again',
      }),
    ),
  },
  { ...closed, minProperties: 1 },
)

export const LandBody = Type.Object(
  {
    method: MergeMethod,
    version: Type.Optional(
      Type.Integer({
        description: 'the version that must be the last one',
        minimum: 1,
        maximum: 100_000_000,
      }),
    ),
    message: Type.Optional(
      Type.String({
        description: 'the message of a merge or squash; title and description by default',
        minLength: 1,
        maxLength: 65_536,
      }),
    ),
    urgent: Type.Optional(
      Type.Boolean({
        description:
          'whether it goes before the others in the queue, which tries it alone; requires the role `maintain`',
      }),
    ),
  },
  closed,
)

export const ChangeSchema = named(
  'Change',
  Type.Object({
    number: field.integer('its number in the repository'),
    title: field.text('its title'),
    state: ChangeState,
    target: field.text('the branch that it is for'),
    source: field.orNull(
      Type.String(),
      'the branch that it follows; null for pushes to `refs/for/`',
    ),
    topic: field.orNull(Type.String(), 'the topic of its pushes'),
    username: field.text('who has proposed it'),
    version: field.integer('its last version'),
    commit: field.text('the commit of that version'),
    ref: field.text('the ref by which that is fetched'),
    url: field.text('its page'),
    createdAt: field.time('when it was proposed'),
    updatedAt: field.time('when it last changed'),
    closedAt: field.orNull(Type.Integer(), 'when it was landed or abandoned'),
    closedBy: field.orNull(Type.String(), 'who has landed or abandoned it'),
    landedCommit: field.orNull(
      Type.String(),
      'the commit that the branch was at when it had landed',
    ),
    pushId: field.orNull(Type.String(), 'the push that landed it, which can be undone'),
  }),
)

export const WaitingQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({ description: 'at most this many, 1 to 100', minimum: 1, maximum: 100 }),
  ),
})

export const WaitingChangeSchema = named(
  'WaitingChange',
  Type.Object({
    ...ChangeSchema.properties,
    repository: field.text('the name of its repository'),
  }),
)

const ChangeVersionSchema = Type.Object({
  version: field.integer('its number'),
  ref: field.text('the ref by which it is fetched'),
  commit: field.text('its commit'),
  base: field.text('the merge base with the branch when it was pushed'),
  username: field.text('who has pushed it'),
  createdAt: field.time('when it was pushed'),
})

const VersionNumber = Type.Integer({ description: 'a version', minimum: 1, maximum: 100_000_000 })

export const VersionDiffQuery = Type.Object({ from: VersionNumber, to: VersionNumber })

export const VersionDiffSchema = named(
  'VersionDiff',
  Type.Object({
    from: field.integer('the first version'),
    to: field.integer('the second version'),
    isSame: field.boolean('whether both have the same commits but for their bases'),
    commits: Type.Array(
      Type.Object({
        status: Type.Enum(['same', 'changed', 'removed', 'added'] as const, {
          description: '`same`, `changed`, `removed` or `added`',
        }),
        from: field.orNull(Type.String(), 'the commit of the first version'),
        to: field.orNull(Type.String(), 'the commit of the second version'),
        subject: field.text('the first line of its message'),
        diff: field.text('the difference of both messages and patches, if it is `changed`'),
      }),
      { description: 'the commits of both versions but merges, in their order' },
    ),
    isCut: field.boolean('whether there is more of it than 1 MiB'),
  }),
)

export const ChangeDetailsSchema = named(
  'ChangeDetails',
  Type.Object({
    ...ChangeSchema.properties,
    description: field.text('its description, Markdown'),
    versions: Type.Array(ChangeVersionSchema, { description: 'its versions, oldest first' }),
    verdicts: Type.Array(VerdictSchema, { description: 'what users say of it, oldest first' }),
    comments: field.integer('the number of its comments'),
    unresolvedThreads: field.integer('the number of its threads that are not resolved'),
    hasQueue: Type.Boolean({ description: 'whether it lands through the queue of its branch' }),
    queued: field.orNull(QueuedSchema, 'its place in the queue; null when it is not in it'),
    queueNote: field.orNull(
      Type.String(),
      'why it was removed from the queue, or that a run has failed at first; lines of a log require `workflow:read`',
    ),
    missing: Type.Array(
      Type.Object({
        code: field.text('the code of the problem'),
        detail: field.text('a sentence'),
      }),
      { description: 'what is missing for landing it; empty when the caller may land it' },
    ),
    methods: Type.Array(MergeMethod, {
      description:
        'the methods by which it can land, once nothing is missing: only `fast-forward` where rules require runs or ' +
        'statuses of the very commit that lands',
    }),
  }),
)
