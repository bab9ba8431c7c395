import { type TProperties, Type } from 'typebox'
import { roles } from '#access/roles.ts'
import { visibilities } from '#access/visibility.ts'
import { objectFormats } from '#base/object-id.ts'
import { field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'

export const VisibilityField = Type.Enum(visibilities, {
  description:
    'Who can read it: with `private` those with a role in it, with `internal` every user, with `public` everybody',
})

const summary = {
  id: field.text('Opaque id, which a rename does not change'),
  name: field.text('Unique name'),
  createdAt: field.time('When it was created'),
  pushedAt: field.orNull(
    Type.Integer(),
    'When the last push was received, in milliseconds since the Unix epoch; null when there was none',
  ),
  description: field.text('What it is about; may be empty'),
  path: field.text(
    'Path of the bare repository on the server; empty for those without a role in it',
  ),
  ownerTokenId: field.text('Id of the token that created it; empty for those without a role in it'),
  ownerUsername: field.text('Username of its owner'),
  visibility: VisibilityField,
  protectedBranches: field.texts('Protected branches and patterns'),
  leakGuard: field.boolean('Whether pushes are scanned for credentials'),
  runTokens: Type.Enum(['read', 'write'], {
    description: 'The most that tokens of its workflow runs may do in it',
  }),
  objectFormat: field.orNull(
    Type.Enum(objectFormats),
    'Hash function of its object ids; null while it is empty and neither a request nor a push has decided it',
  ),
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
    defaultBranch: field.text('Branch that a clone checks out'),
    empty: field.boolean('Whether the repository has no refs'),
    sizeBytes: field.integer('Size of its packs and Git LFS objects in bytes'),
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
        finishedAt: field.orNull(field.time('When the last successful maintenance finished')),
      },
      {
        description:
          'Background maintenance that speeds up clones and fetches: repacking, bitmaps and the commit-graph',
      },
    ),
    missingLfsObjects: field.integer(
      'How many objects of Git LFS its files name that its import could not get. Those that are pushed later are missing no more, within a minute or two',
    ),
    import: field.orNull(
      Type.Object({
        source: field.text('Source URL or path, without credentials'),
        phase: field.text(
          'Current phase: `counting`, `copying`, `receiving`, `resolving`, `storing` or `lfs`, while LFS objects are received',
        ),
        progress: field.integer('Progress of the phase in percent'),
        fault: field.orNull(
          Type.Object({
            code: field.text('Code of the problem that ended the import'),
            detail: field.text('Explanation of the problem'),
          }),
        ),
      }),
      'Progress of a running import, or why it failed; null otherwise',
    ),
  }),
)
