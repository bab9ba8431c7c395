import { Type } from 'typebox'
import { RepositoryName } from '../access/names.ts'
import { hasPreference } from '../http/preferences.ts'
import { closed, route } from '../http/route.ts'
import type { Imports } from './imports.ts'
import { DescribedRepository } from './repository-schemas.ts'

/** The route that imports repositories. */
export function importRoutes(imports: Imports) {
  return [
    route('POST', '/repos/import', {
      operationId: 'importRepository',
      tag: 'repositories',
      summary: 'Import a repository from another place',
      description:
        'Every branch, tag and other ref comes along, and HEAD. The answer comes when all is done; with the ' +
        'header `Prefer: respond-async` (RFC 7240) it comes at once, with 202, and `GET /repos/:name` tells how ' +
        'far the import is. An import that fails leaves nothing behind.',
      permission: 'repo:write',
      isLongLived: true,
      body: Type.Object({ source: Source, name: Type.Optional(RepositoryName) }, closed),
      reply: { 201: DescribedRepository, 202: DescribedRepository },
      problems: [
        'source_forbidden',
        'repository_name_taken',
        'import_failed',
        'outbound_forbidden',
        'outbound_unresolved',
        'git_busy',
      ],
      handle: async ({ principal, body, header, setHeader, setStatus, untilGone }) => {
        const isPatient = !hasPreference(header('prefer') ?? '', 'respond-async')
        const started = await imports.start(principal, {
          source: body.source,
          name: body.name,
          keepsFault: !isPatient,
          ...(isPatient && { signal: untilGone() }),
        })
        setHeader('location', `/repos/${started.name}`)
        if (isPatient) {
          await started.ended
        } else {
          setStatus(202)
          setHeader('preference-applied', 'respond-async')
        }
        return started.describe()
      },
    }),
  ]
}

const Source = Type.String({
  description:
    'an https, http, ssh or git address, with user:password@ if need be (used once and not kept), or an ' +
    'absolute path on the server',
  minLength: 1,
  maxLength: 2048,
})
