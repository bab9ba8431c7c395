import { type TProperties, type TSchema, Type } from 'typebox'
import { roles } from '#access/roles.ts'
import { named } from '#http/named-schemas.ts'

const summary = {
  id: Type.String({ description: 'Opaque id, which a rename does not change' }),
  name: Type.String({ description: 'Unique name' }),
  createdAt: Type.Integer({
    description: 'When it was created, in milliseconds since the Unix epoch',
  }),
  pushedAt: orNull(
    Type.Integer(),
    'When the last push was received, in milliseconds since the Unix epoch; null when there was none',
  ),
  description: Type.String({ description: 'What it is about; may be empty' }),
  path: Type.String({ description: 'Path of the bare repository on the server' }),
  ownerTokenId: Type.String({ description: 'Id of the token that created it' }),
  ownerUsername: Type.String({ description: 'Username of its owner' }),
  protectedBranches: Type.Array(Type.String(), { description: 'Protected branches and patterns' }),
  leakGuard: Type.Boolean({ description: 'Whether pushes are scanned for credentials' }),
  runTokens: Type.Enum(['read', 'write'], {
    description: 'The most that tokens of its workflow runs may do in it',
  }),
  state: Type.Enum(['ready', 'importing', 'failed'], {
    description:
      '`importing` during an import, then `ready`; `failed` for a day after a failed import',
  }),
} satisfies TProperties

/** A repository in a list. */
export const Repository = named('RepositorySummary', Type.Object(summary))

/** A single repository, with its details. */
export const DescribedRepository = named(
  'Repository',
  Type.Object({
    ...summary,
    role: Type.Enum(roles, {
      description: 'Role of the caller; `admin` for the owner and for admins',
    }),
    defaultBranch: Type.String({ description: 'Branch that a clone checks out' }),
    empty: Type.Boolean({ description: 'Whether the repository has no refs' }),
    sizeBytes: Type.Integer({ description: 'Size of its packs in bytes' }),
    cloneUrls: Type.Object(
      {
        http: Type.String(),
        ssh: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
      },
      { description: 'Clone URLs by transport; null for a transport that is off' },
    ),
    maintenance: Type.Object(
      {
        state: Type.Enum(['idle', 'pending', 'running', 'failed'], {
          description:
            '`pending` is scheduled, for example after an import or a large push; `failed` is retried later, and the log has the reason',
        }),
        finishedAt: orNull(
          Type.Integer({
            description:
              'When the last successful maintenance finished, in milliseconds since the Unix epoch',
          }),
        ),
      },
      {
        description:
          'Background maintenance that speeds up clones and fetches: repacking, bitmaps and the commit-graph',
      },
    ),
    missingLfsObjects: Type.Integer({
      description:
        'How many objects of Git LFS its files name that its import left behind, since this server does not serve Git LFS',
    }),
    import: orNull(
      Type.Object({
        source: Type.String({ description: 'Source URL or path, without credentials' }),
        phase: Type.String({
          description:
            'Current phase: `counting`, `copying`, `receiving`, `resolving` or `storing`',
        }),
        progress: Type.Integer({ description: 'Progress of the phase in percent' }),
        fault: orNull(
          Type.Object({
            code: Type.String({ description: 'Code of the problem that ended the import' }),
            detail: Type.String({ description: 'Explanation of the problem' }),
          }),
        ),
      }),
      'Progress of a running import, or why it failed; null otherwise',
    ),
  }),
)

function orNull<T extends TSchema>(schema: T, description?: string) {
  return Type.Union([schema, Type.Null()], description === undefined ? {} : { description })
}
