import { type TProperties, type TSchema, Type } from 'typebox'
import { named } from '../http/named-schemas.ts'

const summary = {
  id: Type.String({ description: 'an opaque id that a rename does not change' }),
  name: Type.String({ description: 'its unique name' }),
  createdAt: Type.Integer({ description: 'milliseconds since the Unix epoch' }),
  path: Type.String({ description: "the bare repository's path on the server" }),
  ownerTokenId: Type.String({ description: 'the token that created it' }),
  protectedBranches: Type.Array(Type.String(), { description: 'branches and patterns' }),
  state: Type.Enum(['ready', 'importing', 'failed'], {
    description:
      '`ready`, or for one that is being imported `importing`; `failed` is what is left of an import for a day',
  }),
} satisfies TProperties

/** A repository in a list. */
export const Repository = named('RepositorySummary', Type.Object(summary))

/** A repository by itself. */
export const DescribedRepository = named(
  'Repository',
  Type.Object({
    ...summary,
    defaultBranch: Type.String({ description: 'the branch that a clone checks out' }),
    empty: Type.Boolean({ description: 'whether nothing has been pushed' }),
    sizeBytes: Type.Integer({ description: 'bytes of its packs' }),
    cloneUrls: Type.Object(
      {
        http: Type.String(),
        ssh: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
      },
      { description: '`http` and `ssh` addresses; null for a transport that is off' },
    ),
    maintenance: Type.Object(
      {
        state: Type.Enum(['idle', 'pending', 'running', 'failed'], {
          description:
            '`pending` is due and waits, as after an import or a large push; `failed` is tried again later, the log says why it failed',
        }),
        finishedAt: orNull(
          Type.Integer({ description: 'when the last one that succeeded ended, in milliseconds' }),
        ),
      },
      {
        description:
          'work in the background that makes clones and fetches quick: packs are united, a bitmap and a commit-graph written',
      },
    ),
    import: orNull(
      Type.Object({
        source: Type.String({ description: 'where it comes from, without credentials' }),
        phase: Type.String({
          description:
            'what it is at: `counting`, `copying`, `receiving`, `resolving` or `storing`',
        }),
        progress: Type.Integer({ description: 'how much of it is done, in percent' }),
        fault: orNull(
          Type.Object({
            code: Type.String({ description: 'of the problem that it ended with' }),
            detail: Type.String({ description: 'a sentence to act on' }),
          }),
        ),
      }),
      'how far its import is, or why it failed; null for all others',
    ),
  }),
)

function orNull<T extends TSchema>(schema: T, description?: string) {
  return Type.Union([schema, Type.Null()], description === undefined ? {} : { description })
}
