import { Type } from 'typebox'
import { closed, route } from '../http/route.ts'
import { type BrowseParts, missingRepository, openToRead } from './browse-parts.ts'
import { keyOf } from './cached-responses.ts'
import { Commit, toCommit } from './commit-schemas.ts'
import { commitUnreadable, findCommit, revisionProblems } from './revisions.ts'

/** The routes of commits. */
export function commitRoutes(parts: BrowseParts) {
  const { pool, cached, commits } = parts

  return [
    route('GET', '/repos/:name/commits/:id', {
      operationId: 'getCommit',
      tag: 'browse',
      summary: 'Get a commit',
      permission: 'repo:read',
      find: openToRead(parts),
      isConditional: true,
      query: Type.Object({}, closed),
      reply: { 200: Commit },
      problems: [...missingRepository, ...revisionProblems, 'git_limit_exceeded'],
      handle: async ({ found, params, notModified, clientSignal }) => {
        const objects = pool.of(found.path)
        const { id } = await findCommit(objects, found, params.id)
        const key = keyOf(['commit', found.id, id])
        if (notModified(key)) return undefined
        return cached(key, clientSignal(), async () => {
          const commit = await commits(objects, id)
          if (!commit) throw commitUnreadable(id)
          return toCommit(id, commit)
        })
      },
    }),
  ]
}
