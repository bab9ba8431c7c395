import { Type } from 'typebox'
import { RepositoryName } from '#access/names.ts'
import { apiPathOf } from '#base/repository-name.ts'
import { closed } from '#base/schema-options.ts'
import { hasPreference } from '#http/headers.ts'
import { route } from '#http/route.ts'
import { atOrigin } from '../describe-repository.ts'
import { DescribedRepository } from '../repository-schemas.ts'
import type { Imports } from './imports.ts'

/** The route that imports repositories. */
export function importRoutes(imports: Imports) {
  return [
    route('POST', '/repos/import', {
      operationId: 'importRepository',
      tag: 'repositories',
      summary: 'Import a repository',
      description:
        'Copies all refs and HEAD from a remote or local repository. Responds when the import has finished. With the ' +
        'header `Prefer: respond-async` (RFC 7240) it responds with 202 at once, and `GET /repos/:name` shows the ' +
        'progress. A failed import leaves nothing behind. Objects of Git LFS come from the LFS server of an http or https ' +
        'source, or from `lfs/objects` of a local repository; `missingLfsObjects` counts those that could not be read.',
      permission: 'repo:write',
      isLongLived: true,
      body: Type.Object({ source: Source, name: Type.Optional(RepositoryName) }, closed),
      reply: { 201: DescribedRepository, 202: DescribedRepository },
      problems: [
        'source_forbidden',
        'repository_name_taken',
        'namespace_not_found',
        'role_insufficient',
        'too_many_repositories',
        'namespace_full',
        'import_failed',
        'outbound_forbidden',
        'outbound_unresolved',
        'git_busy',
      ],
      handle: async (request) => {
        const { principal, body, header, setHeader, setStatus, clientSignal } = request
        const isSynchronous = !hasPreference(header('prefer') ?? '', 'respond-async')
        const started = await imports.start(principal, {
          source: body.source,
          name: body.name,
          recordsFailure: !isSynchronous,
          ...(isSynchronous && { signal: clientSignal() }),
        })
        setHeader('location', apiPathOf(started.name))
        if (isSynchronous) {
          await started.ended
        } else {
          setStatus(202)
          setHeader('preference-applied', 'respond-async')
        }
        return atOrigin(await started.describe(), request.publicOrigin())
      },
    }),
  ]
}

const Source = Type.String({
  'x-form': 'an https, http, ssh or git URL, or an absolute path on the server',
  description:
    'An https, http, ssh or git URL, optionally with user:password@ (used once and not stored), or an absolute ' +
    'path on the server',
  minLength: 1,
  maxLength: 2048,
})
