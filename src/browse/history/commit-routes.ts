import { Type } from 'typebox'
import { formatOf, objectIdPattern } from '#base/object-id.ts'
import { closed, field, textForm } from '#base/schema-options.ts'
import { emptyTreeId } from '#git/objects/new-objects.ts'
import { cursorForm, linkToNext } from '#http/pagination.ts'
import { route } from '#http/route.ts'
import { openOfRoute } from '#repositories/open-repository.ts'
import { ChangedPathQuery, PathQuery, toRawPath } from '../api-path.ts'
import { type BrowseParts, revisionProblems, taskProblems } from '../browse-parts.ts'
import { keyOf, LinkedPage, ProvisionalJson, unlessKnown } from '../cached-responses.ts'
import { Commit, CommitDetails, toCommit } from '../commit-schemas.ts'
import { toDiff } from '../diff-schemas.ts'
import { pageQuery } from '../page-queries.ts'
import { findCommit, RevisionQuery } from '../revisions.ts'
import { mustRead } from '../walk-by-date.ts'
import { readHistory } from './history.ts'
import { readDiff } from './read-diff.ts'

const defaultLimit = 100

const HistoryQuery = Type.Object(
  {
    ...RevisionQuery,
    ...PathQuery,
    author: Type.Optional(
      Type.String({
        ...textForm(
          'a string of 1 to 500 characters, none of them a control character',
          '^[^\\x00-\\x1f\\x7f]*$',
        ),
        description:
          'Part of the name or the address of the author, as in `Ada <ada@example.com>`, in either case',
        minLength: 1,
        maxLength: 500,
      }),
    ),
    since: Type.Optional(
      Type.Integer({
        description:
          'Commits of this time or later, in milliseconds since the Unix epoch; the list ends at the first line of history that is older',
        minimum: 0,
      }),
    ),
    until: Type.Optional(
      Type.Integer({
        description: 'Commits of this time or earlier, in milliseconds since the Unix epoch',
        minimum: 0,
      }),
    ),
    ...pageQuery(defaultLimit),
    cursor: Type.Optional(Type.String(cursorForm(`^${objectIdPattern}[.][1-9][0-9]{0,8}$`))),
  },
  closed,
)

/** The routes of commits. */
export function commitRoutes(parts: BrowseParts) {
  const { pool, cached, commits, tasks, revisions } = parts

  return [
    route('GET', '/repos/:name/commits', {
      operationId: 'listCommits',
      tag: 'browse',
      summary: 'List commits',
      description:
        'Lists the history of a revision as `git log` does, newest first. All pages are of the commit that the revision was when the first one was requested.',
      permission: 'repo:read',
      find: openOfRoute(parts.repositories),
      isConditional: true,
      query: HistoryQuery,
      reply: { 200: Type.Array(Commit) },
      problems: [...revisionProblems, ...taskProblems],
      handle: async ({ principal, found, query, url, setHeader, notModified, clientSignal }) => {
        const { author = '', since, until, limit = defaultLimit } = query
        const path = toRawPath(query)
        const [rev, skip = '0'] = query.cursor?.split('.') ?? [query.rev]
        const { id: tip } = await findCommit(revisions, found, rev)
        const range = { tip, path, author, since, until, skip: Number(skip), limit }
        const key = keyOf([
          'commits',
          found.id,
          ...Object.values({ ...range, since: since ?? '', until: until ?? '' }),
        ])
        if (notModified(key)) return undefined
        const page = await cached(key, clientSignal(), async (signal) => {
          const requester = { principal, repository: found, signal }
          const { commits: listed, nextSkip } = await readHistory(parts, requester, range)
          const rows = listed.map(({ id, commit }) => toCommit(id, commit))
          // The tip, so that the pages stay on it when the branch moves.
          return new LinkedPage(rows, nextSkip === undefined ? undefined : `${tip}.${nextSkip}`)
        })
        if (page.nextCursor !== undefined)
          setHeader('link', linkToNext(url, { rev: tip, limit, cursor: page.nextCursor }))
        return page
      },
    }),

    route('GET', '/repos/:name/commits/:id', {
      operationId: 'getCommit',
      tag: 'browse',
      summary: 'Get a commit',
      description:
        'With `diff`, also what it changed: a merge is compared with its first parent, a commit without parents with an empty tree.',
      permission: 'repo:read',
      find: openOfRoute(parts.repositories),
      isConditional: true,
      query: Type.Object({ ...DiffQuery, ...ChangedPathQuery }, closed),
      reply: { 200: CommitDetails },
      problems: [...revisionProblems, ...taskProblems],
      handle: async ({ principal, found, params, query, notModified, clientSignal }) => {
        const path = toRawPath(query)
        const withDiff = query.diff === true || path !== ''
        const objects = pool.of(found.path)
        const { id } = await findCommit(revisions, found, params.id)
        const key = keyOf(['commit', found.id, id, withDiff, path])
        if (notModified(key)) return undefined
        const response = await cached(key, clientSignal(), async (signal) => {
          const { commit } = await mustRead(objects, commits, id)
          if (!withDiff) return toCommit(id, commit)
          const [base = null] = commit.parents
          const requester = { principal, repository: found, signal }
          const ends = base === null ? [emptyTreeId(formatOf(id)), commit.tree] : [base, id]
          const [before = '', after = ''] = ends
          const diff = await readDiff(tasks, requester, { before, after, path })
          return toResponse({ ...toCommit(id, commit), diff: toDiff(base, diff) })
        })
        return unlessKnown(response, notModified)
      },
    }),
  ]
}

/** A diff that the time limit cut depends on more than the request. */
export function toResponse<T extends { diff: { limitsReached: string[] } }>(value: T) {
  return value.diff.limitsReached.includes('time') ? new ProvisionalJson(value) : value
}

const DiffQuery = {
  diff: Type.Optional(field.boolean('true or false: whether to add what the commit changed')),
}
