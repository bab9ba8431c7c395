import { type Static, Type } from 'typebox'
import { closed, field } from '#base/schema-options.ts'
import { named } from '#http/named-schemas.ts'
import { route } from '#http/route.ts'
import { openOfRoute } from '#repositories/open-repository.ts'
import { ChangedPathQuery, toRawPath } from '../api-path.ts'
import { type BrowseParts, revisionProblems, taskProblems } from '../browse-parts.ts'
import { keyOf, unlessKnown } from '../cached-responses.ts'
import { Commit, toCommit } from '../commit-schemas.ts'
import { Diff, toDiff } from '../diff-schemas.ts'
import { pageQuery } from '../page-queries.ts'
import { findCommit, RevisionQuery } from '../revisions.ts'
import { toResponse } from './commit-routes.ts'
import { type Comparison, compareCommits } from './compare.ts'
import { readCommits } from './history.ts'
import { readDiff } from './read-diff.ts'

const defaultLimit = 100
const { limit: LimitQuery } = pageQuery(defaultLimit)

/** The route that compares two revisions. */
export function compareRoutes(parts: BrowseParts) {
  const { pool, cached, commits, tasks, revisions } = parts

  return [
    route('GET', '/repos/:name/compare', {
      operationId: 'compareCommits',
      tag: 'browse',
      summary: 'Compare two revisions',
      description:
        'Returns the commits that `head` has and `base` has not, and what they change: the diff of `head` with the merge base, as of `git diff base...head`. Of unrelated histories, and with `direct`, with `base` itself.',
      permission: 'repo:read',
      find: openOfRoute(parts.repositories),
      isConditional: true,
      query: Type.Object(
        {
          base: RevisionQuery.rev,
          head: RevisionQuery.rev,
          limit: LimitQuery,
          diff: Type.Optional(
            field.boolean('`false` to leave out the diff, and compare commits alone'),
          ),
          direct: Type.Optional(
            field.boolean('`true` for the diff with `base` itself, as of `git diff base head`'),
          ),
          ...ChangedPathQuery,
        },
        closed,
      ),
      reply: { 200: ComparedCommits },
      problems: [...revisionProblems, ...taskProblems],
      handle: async ({ principal, found, query, notModified, clientSignal }) => {
        const path = toRawPath(query)
        const { limit = defaultLimit, diff: withDiff = true, direct = false } = query
        const objects = pool.of(found.path)
        const [{ id: base }, { id: head }] = await Promise.all([
          findCommit(revisions, found, query.base),
          findCommit(revisions, found, query.head),
        ])
        const key = keyOf(['compare', found.id, base, head, limit, path, withDiff, direct])
        if (notModified(key)) return undefined
        const response = await cached(key, clientSignal(), async (signal) => {
          const requester = { principal, repository: found, signal }
          const compared = await compareCommits(tasks, requester, { base, head, limit })
          const { mergeBase, ahead, behind, ids } = compared
          const before = direct ? base : (mergeBase ?? base)
          const [listed, diff] = await Promise.all([
            readCommits(objects, commits, ids),
            withDiff ? readDiff(tasks, requester, { before, after: head, path }) : undefined,
          ])
          const value: Static<typeof ComparedCommits> = {
            base,
            head,
            mergeBase: mergeBase ?? null,
            status: statusOf(compared),
            ahead,
            behind,
            commits: listed.map(({ id, commit }) => toCommit(id, commit)),
          }
          return diff ? toResponse({ ...value, diff: toDiff(before, diff) }) : value
        })
        return unlessKnown(response, notModified)
      },
    }),
  ]
}

function statusOf({ mergeBase, ahead, behind }: Comparison): string {
  if (mergeBase === undefined) return 'unrelated'
  if (ahead > 0) return behind > 0 ? 'diverged' : 'ahead'
  return behind > 0 ? 'behind' : 'identical'
}

export const ComparedCommits = named(
  'ComparedCommits',
  Type.Object({
    base: field.text('Id of the commit that `base` is'),
    head: field.text('Id of the commit that `head` is'),
    mergeBase: field.orNull(
      Type.String(),
      'Id of a best common ancestor; null if the histories are unrelated',
    ),
    status: field.text(
      'What `head` is compared with `base`: `identical`, `ahead`, `behind`, `diverged` or `unrelated`',
    ),
    ahead: field.integer('Number of commits that only `head` has'),
    behind: field.integer('Number of commits that only `base` has'),
    commits: Type.Array(Commit, {
      description: 'Commits that only `head` has, newest first, up to `limit`',
    }),
    diff: Type.Optional(Diff),
  }),
)
