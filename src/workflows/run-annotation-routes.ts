import { Type } from 'typebox'
import { objectIdForm } from '#access/names.ts'
import { route } from '#http/route.ts'
import type { OpenRepository } from './run-requests.ts'
import { CommitAnnotation } from './run-schemas.ts'
import type { createRunViews } from './run-view.ts'

type Dependencies = { open: OpenRepository; views: ReturnType<typeof createRunViews> }

/** The route of what runs say about the files of a commit. */
export function runAnnotationRoutes({ open, views }: Dependencies) {
  return [
    route('GET', '/repos/:name/annotations', {
      operationId: 'listAnnotations',
      tag: 'workflow runs',
      summary: 'List what runs say about a commit',
      description:
        'The errors, warnings and notices that steps reported with a workflow command, such as ' +
        '`::error file=src/a.js,line=3::message`, in the latest attempts of the 20 newest runs of the commit, ' +
        'the newest run first; at most 1000.',
      permission: 'workflow:read',
      find: open,
      query: Type.Object({
        commit: Type.String({
          ...objectIdForm,
          description: 'the whole id of the commit',
        }),
      }),
      reply: { 200: Type.Array(CommitAnnotation) },
      problems: ['repository_not_found', 'repository_importing'],
      handle: ({ found, query }) => views.annotationsOf(found.id, query.commit),
    }),
  ]
}
