import { Type } from 'typebox'
import { closed, field } from '#base/schema-options.ts'
import { matchesPerFile } from '#git/process/commands.ts'
import { route } from '#http/route.ts'
import { invalid, ofQuery } from '#http/validation.ts'
import { openOfRoute } from '#repositories/open-repository.ts'
import { PathQuery, toRawPath } from '../api-path.ts'
import { type BrowseParts, revisionProblems, taskProblems } from '../browse-parts.ts'
import { keyOf, ProvisionalJson, unlessKnown } from '../cached-responses.ts'
import { findCommit, RevisionQuery } from '../revisions.ts'
import { mustRead } from '../walk-by-date.ts'
import { createSearch, SearchResult } from './search.ts'

const textMaxLength = 200
const defaultLimit = 100
const maxLimit = 1000

/** The route that searches files. */
export function searchRoutes(parts: BrowseParts) {
  const { pool, cached, commits, trees, revisions } = parts
  const search = createSearch(parts)

  return [
    route('GET', '/repos/:name/search', {
      operationId: 'searchCode',
      tag: 'browse',
      summary: 'Search the files of a commit',
      description:
        'Finds lines that contain a text, which is never a pattern. Binary files and submodules are left out, and ' +
        `at most ${matchesPerFile} matches of each file are returned; \`isComplete\` says whether these are all.`,
      permission: 'repo:read',
      find: openOfRoute(parts.repositories),
      isConditional: true,
      query: Type.Object(
        {
          ...RevisionQuery,
          ...PathQuery,
          q: Type.String({
            description: `the text to find, 1 to ${textMaxLength} characters within a line`,
            minLength: 1,
            maxLength: textMaxLength,
          }),
          ignoreCase: Type.Optional(
            field.boolean('`true` or `false`: whether the case of ASCII letters is ignored'),
          ),
          limit: Type.Optional(
            Type.Integer({
              description: `maximum number of matches, 1 to ${maxLimit}, by default ${defaultLimit}`,
              minimum: 1,
              maximum: maxLimit,
            }),
          ),
        },
        closed,
      ),
      reply: { 200: SearchResult },
      problems: [...revisionProblems, 'path_not_found', ...taskProblems],
      handle: async ({ principal, found, query, notModified, clientSignal }) => {
        const { q: text, ignoreCase = false, limit = defaultLimit } = query
        if (/[\n\0]/.test(text))
          throw invalid([ofQuery('q', 'must not have a line feed or a NUL.')])
        const path = toRawPath(query)
        const objects = pool.of(found.path)
        const { id } = await findCommit(revisions, found, query.rev)
        const key = keyOf(['search', found.id, id, path, text, ignoreCase, limit])
        if (notModified(key)) return undefined
        const result = await cached(key, clientSignal(), async (signal) => {
          const { commit } = await mustRead(objects, commits, id)
          await trees.find(objects, commit.tree, path)
          const requester = { principal, repository: found, signal }
          const request = { commit: id, path, text, ignoreCase, limit }
          const searched = await search(requester, request)
          return searched.isProvisional ? new ProvisionalJson(searched.result) : searched.result
        })
        return unlessKnown(result, notModified)
      },
    }),
  ]
}
