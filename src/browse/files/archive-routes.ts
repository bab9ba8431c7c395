import { Readable } from 'node:stream'
import { Type } from 'typebox'
import { closed } from '#base/schema-options.ts'
import { shortRef } from '#base/short-ref.ts'
import { toContentDisposition } from '#http/headers.ts'
import { route } from '#http/route.ts'
import { openOfRoute } from '#repositories/open-repository.ts'
import { PathQuery, toRawPath } from '../api-path.ts'
import { type BrowseParts, revisionProblems, taskProblems } from '../browse-parts.ts'
import { keyOf } from '../cached-responses.ts'
import { findCommit, RevisionQuery } from '../revisions.ts'
import { mustRead } from '../walk-by-date.ts'
import { type ArchiveFormat, archiveNameOf, archiveTypes, openArchive } from './archive.ts'

/** The route of archives. */
export function archiveRoutes(parts: BrowseParts) {
  const { pool, commits, trees, archives, settings, revisions } = parts

  return [
    route('GET', '/repos/:name/archive', {
      operationId: 'getArchive',
      tag: 'browse',
      summary: 'Download the files of a commit',
      description:
        'Returns what `git archive` makes of a commit, with the attributes `export-ignore` and `export-subst`. All ' +
        'paths begin with the name of the repository and the revision.',
      permission: 'repo:read',
      find: openOfRoute(parts.repositories),
      isConditional: true,
      isLongLived: true,
      query: Type.Object(
        {
          ...RevisionQuery,
          ...PathQuery,
          format: Type.Optional(
            Type.Unsafe<ArchiveFormat>({
              type: 'string',
              enum: Object.keys(archiveTypes),
              description: '`tar.gz`, `zip` or `tar`; by default `tar.gz`',
            }),
          ),
        },
        closed,
      ),
      produces: archiveTypes['tar.gz'],
      reply: { 200: Type.String({ format: 'binary' }) },
      problems: [...revisionProblems, 'path_not_found', ...taskProblems],
      handle: async (context) => {
        const { principal, found, query, notModified, clientSignal, setType, setHeader } = context
        const { format = 'tar.gz' } = query
        const path = toRawPath(query)
        const objects = pool.of(found.path)
        const { id, ref } = await findCommit(revisions, found, query.rev)
        const name = archiveNameOf(found.name, ref === undefined ? id : shortRef(ref))
        if (notModified(keyOf(['archive', found.id, id, path, format, name]))) return undefined
        const { commit } = await mustRead(objects, commits, id)
        await trees.find(objects, commit.tree, path)
        setType(archiveTypes[format])
        setHeader('content-disposition', toContentDisposition(`${name}.${format}`))
        if (context.isHead) return Readable.from([])
        const requester = { principal, repository: found, signal: clientSignal() }
        const stallMs = settings.gitStallSeconds * 1000
        const request = { commit: id, path, format, prefix: `${name}/`, stallMs }
        return openArchive(archives, requester, request)
      },
    }),
  ]
}
