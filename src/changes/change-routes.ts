import { Type } from 'typebox'
import { requirePermission } from '#access/may.ts'
import { mergeProblems, writeProblems } from '#git-server/api-writes/write-routes.ts'
import { ProposedCommitBody } from '#git-server/api-writes/write-schemas.ts'
import { linkToNext, paged } from '#http/pagination.ts'
import { type FindRequest, type Route, route } from '#http/route.ts'
import { openOfRoute, openProblems } from '#repositories/open-repository.ts'
import type { Repositories } from '#repositories/repositories.ts'
import {
  ChangeBody,
  ChangeDetailsSchema,
  ChangeEditBody,
  ChangeQuery,
  ChangeSchema,
  LandBody,
  VersionDiffQuery,
  VersionDiffSchema,
  WaitingChangeSchema,
  WaitingQuery,
} from './change-schemas.ts'
import type { Changes } from './changes.ts'
import { QueueSchema } from './queue/queue-schemas.ts'
import {
  CommentBody,
  CommentEditBody,
  CommentQuery,
  CommentSchema,
  VerdictBody,
} from './review-schemas.ts'

type Dependencies = {
  repositories: Repositories
  changes: Changes
  commitBodyMaxBytes: number
}

const defaultLimit = 100
const defaultWaiting = 50

/** The routes of changes. */
export function changeRoutes({ repositories, changes, commitBodyMaxBytes }: Dependencies): Route[] {
  const { review } = changes
  const find = openOfRoute(repositories)
  const findToPropose = openOfRoute(repositories, 'proposer')

  return [
    route('GET', '/changes', {
      operationId: 'listWaitingChanges',
      tag: 'changes',
      summary: 'List the changes that wait for the caller',
      description:
        'In all repositories, the last updated first: open changes of the caller, and those that lack its verdict on ' +
        'their last version where it may push by its own role. 50 unless `limit` is given.',
      permission: 'repo:read',
      allowsLimited: true,
      query: WaitingQuery,
      reply: { 200: Type.Array(WaitingChangeSchema) },
      handle: ({ principal, query: { limit = defaultWaiting } }) =>
        changes.listWaiting(principal, limit),
    }),
    route('GET', '/repos/:name/changes', {
      operationId: 'listChanges',
      tag: 'changes',
      summary: 'List changes',
      description:
        'Lists what is proposed for branches, newest first: of a state, for a branch, or of a user. A page has 100 ' +
        'changes unless `limit` is given.',
      permission: 'repo:read',
      find,
      query: ChangeQuery,
      reply: { 200: Type.Array(ChangeSchema) },
      problems: [...openProblems],
      handle: async ({ principal, found, query, url, setHeader }) => {
        const { cursor, limit = defaultLimit, waiting, ...filter } = query
        const mayPush = found.role !== 'read'
        const waitingFor = waiting ? { username: principal.username, mayPush } : undefined
        const before = cursor === undefined ? undefined : Number(cursor)
        const page = { ...filter, waitingFor, before, limit: limit + 1 }
        const rows = await changes.list(found, page)
        const shown = rows.slice(0, limit)
        const last = shown.at(-1)
        if (rows.length > limit && last)
          setHeader('link', linkToNext(url, { limit, cursor: last.number }))
        return shown
      },
    }),
    route('POST', '/repos/:name/changes', {
      operationId: 'openChange',
      tag: 'changes',
      summary: 'Propose a change',
      description:
        'Proposes the commits of a branch for another one. Pushes to the branch make further versions. A push to ' +
        '`refs/for/BRANCH` proposes commits without a branch. The role `read` suffices.',
      permission: 'change:write',
      find,
      body: ChangeBody,
      reply: { 201: ChangeDetailsSchema },
      problems: [
        ...openProblems,
        ...(['ref_not_found', 'nothing_changed', 'histories_unrelated'] as const),
        ...(['too_many_changes', 'objects_refused', 'git_limit_exceeded'] as const),
      ],
      handle: ({ principal, found, body }) => changes.open(principal, found, body),
    }),
    route('POST', '/repos/:name/proposals', {
      operationId: 'proposeCommit',
      tag: 'changes',
      summary: 'Propose a new commit',
      description:
        'Makes one commit, without a clone, and proposes it for a branch, which stays as it is. The role `read` suffices. ' +
        'Title and description are the message. Permission: also `repo:read`.',
      permission: 'repo:write',
      // Its response shows what is in the repository.
      find(request: FindRequest<{ name: string }>) {
        requirePermission(request.principal, 'repo:read')
        return findToPropose(request)
      },
      body: ProposedCommitBody,
      bodyMaxBytes: commitBodyMaxBytes,
      reply: { 201: ChangeDetailsSchema },
      problems: [
        ...openProblems,
        ...writeProblems,
        ...(['path_absent', 'path_conflict', 'nothing_changed'] as const),
        ...(['histories_unrelated', 'too_many_changes'] as const),
      ],
      handle: ({ principal, found, body, clientSignal }) =>
        changes.propose({ principal, repository: found, signal: clientSignal() }, body),
    }),
    route('GET', '/repos/:name/changes/:number', {
      operationId: 'getChange',
      tag: 'changes',
      summary: 'Get a change',
      description:
        'A change with its versions, and with what is missing for landing it. Compare `base` and `commit` of a version ' +
        'for its commits and files.',
      permission: 'repo:read',
      find,
      reply: { 200: ChangeDetailsSchema },
      problems: [...openProblems, 'change_not_found'],
      handle: ({ principal, found, params }) => changes.get(principal, found, params.number),
    }),
    route('GET', '/repos/:name/changes/:number/diff', {
      operationId: 'compareChangeVersions',
      tag: 'changes',
      summary: 'Compare two versions of a change',
      description:
        'Compares their commits by messages and patches, as `git range-diff` does: a version that only rebases another ' +
        'one is the same.',
      permission: 'repo:read',
      find,
      query: VersionDiffQuery,
      reply: { 200: VersionDiffSchema },
      problems: [...openProblems, 'change_not_found', 'git_limit_exceeded'],
      handle: async ({ found, params, query }) =>
        changes.compare(found, await changes.find(found, params.number), query),
    }),
    route('PATCH', '/repos/:name/changes/:number', {
      operationId: 'updateChange',
      tag: 'changes',
      summary: 'Edit, abandon or reopen a change',
      description: 'By the user who has proposed it, or one with the role `write`.',
      permission: 'change:write',
      find,
      body: ChangeEditBody,
      reply: { 200: ChangeDetailsSchema },
      problems: [...openProblems, 'change_not_found', 'change_closed', 'role_insufficient'],
      handle: ({ principal, found, params, body }) =>
        changes.edit(principal, found, params.number, body),
    }),
    route('GET', '/repos/:name/changes/:number/comments', {
      operationId: 'listChangeComments',
      tag: 'changes',
      summary: 'List the comments on a change',
      description: 'Oldest first. A page has 100 comments unless `limit` is given.',
      permission: 'repo:read',
      find,
      query: CommentQuery,
      reply: { 200: Type.Array(CommentSchema) },
      problems: [...openProblems, 'change_not_found'],
      handle: async ({ found, params, query, url, setHeader }) => {
        const change = await changes.find(found, params.number)
        const { path, onFiles } = query
        const page = { ...query, limit: query.limit ?? defaultLimit }
        return paged({ query: page, url, setHeader }, (part) =>
          review.list(found, change, { path, onFiles, ...part }),
        )
      },
    }),
    route('POST', '/repos/:name/changes/:number/comments', {
      operationId: 'commentOnChange',
      tag: 'changes',
      summary: 'Comment on a change',
      description:
        'On the change as a whole, on a file, or on a line of a file of a version; or in reply to another comment. The ' +
        'role `read` suffices.',
      permission: 'change:write',
      find,
      body: CommentBody,
      reply: { 201: CommentSchema },
      problems: [
        ...openProblems,
        ...(['change_not_found', 'comment_not_found', 'path_absent', 'too_many_comments'] as const),
      ],
      handle: async ({ principal, found, params, body }) =>
        review.comment(principal, found, await changes.find(found, params.number), body),
    }),
    route('PATCH', '/repos/:name/changes/:number/comments/:id', {
      operationId: 'updateChangeComment',
      tag: 'changes',
      summary: 'Edit a comment, or resolve its thread',
      description:
        'A comment is edited by its author. A thread is resolved and reopened by the user who has begun it, the user who ' +
        'has proposed the change, and users with the role `write`.',
      permission: 'change:write',
      find,
      body: CommentEditBody,
      reply: { 200: CommentSchema },
      problems: [
        ...openProblems,
        ...(['change_not_found', 'comment_not_found', 'role_insufficient'] as const),
      ],
      handle: async ({ principal, found, params: { number, id }, body }) =>
        review.edit(principal, found, await changes.find(found, number), { id, body }),
    }),
    route('PUT', '/repos/:name/changes/:number/verdict', {
      operationId: 'judgeChange',
      tag: 'changes',
      summary: 'Approve a change, or request changes',
      description:
        'Replaces the verdict of the caller. It counts if the caller may push and has not proposed the change, and as long ' +
        'as further versions only rebase it.',
      permission: 'change:write',
      find,
      body: VerdictBody,
      reply: { 200: ChangeDetailsSchema },
      problems: [
        ...openProblems,
        ...(['change_not_found', 'change_closed', 'verdict_refused', 'version_outdated'] as const),
      ],
      handle: async ({ principal, found, params, body }) => {
        await review.judge(principal, found, await changes.find(found, params.number), body)
        return changes.get(principal, found, params.number)
      },
    }),
    route('POST', '/repos/:name/changes/:number/land', {
      operationId: 'landChange',
      tag: 'changes',
      summary: 'Land a change',
      description:
        'Lands the last version on its branch. It is a push, with the same rights, branch protections, journal, events ' +
        'and undo. If the branch has a queue, the change is put into that, and lands later: see `queued`, `queueNote` ' +
        'and `state`. Permission: also `repo:read`.',
      permission: 'repo:write',
      // Its response shows what is in the repository.
      find(request: FindRequest<{ name: string }>) {
        requirePermission(request.principal, 'repo:read')
        return find(request)
      },
      body: LandBody,
      reply: { 200: ChangeDetailsSchema },
      problems: [...openProblems, 'change_not_found', 'change_closed', ...mergeProblems],
      handle: ({ principal, found, params, body, clientSignal }) => {
        const write = { principal, repository: found, signal: clientSignal() }
        return changes.land(write, params.number, body)
      },
    }),
    route('DELETE', '/repos/:name/changes/:number/land', {
      operationId: 'withdrawChange',
      tag: 'changes',
      summary: 'Take a change out of the queue',
      description:
        'By the user who has queued or proposed it, or one with the role `write`. Idempotent.',
      permission: 'change:write',
      find,
      reply: { 200: ChangeDetailsSchema },
      problems: [...openProblems, 'change_not_found', 'role_insufficient'],
      handle: async ({ principal, found, params }) => {
        await changes.queue.leave(principal, found, await changes.find(found, params.number))
        return changes.get(principal, found, params.number)
      },
    }),
    route('GET', '/repos/:name/queue', {
      operationId: 'listQueue',
      tag: 'changes',
      summary: 'List the changes in the queue',
      description:
        'The changes that wait to land, by branch, and the commits that are tried: each is the branch with some of them. ' +
        'A status that is required is to be reported for these commits.',
      permission: 'repo:read',
      find,
      reply: { 200: Type.Array(QueueSchema) },
      problems: [...openProblems],
      handle: ({ found }) => changes.queue.list(found),
    }),
  ]
}
