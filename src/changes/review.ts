import type { Static } from 'typebox'
import { requireRef } from '#access/may.ts'
import type { Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { isId, newId } from '#base/ids.ts'
import { Problem } from '#base/problem.ts'
import type { Database } from '#database/database.ts'
import type {
  ChangeCommentRow,
  ChangeRow,
  ChangeVerdictRow,
  ChangeVersionRow,
  Db,
} from '#database/schema.ts'
import type { Actor, Publish } from '#events/events.ts'
import { findObjects } from '#git/objects/object-stream.ts'
import type { Git } from '#git/process/git-process.ts'
import { invalid } from '#http/validation.ts'
import { findUser, isUserEnabled } from '#identity/user-store.ts'
import type { Repositories, Repository } from '#repositories/repositories.ts'
import { listChangeVersions } from './change-store.ts'
import { followLines } from './follow-line.ts'
import { changeClosed, requireLastVersion, withLockedChange } from './locked-change.ts'
import { readBlob } from './read-blob.ts'
import type { CommentBody, CommentEditBody, CommentSchema, VerdictBody } from './review-schemas.ts'
import {
  type CommentFilter,
  countComments,
  deleteVerdict,
  findComment,
  findResolved,
  insertComment,
  listComments,
  listVerdicts,
  saveVerdict,
  updateComment,
} from './review-store.ts'

type Comment = Static<typeof CommentSchema>

/** A verdict, and whether it counts for the last version. */
export type CountedVerdict = Pick<
  ChangeVerdictRow,
  'username' | 'verdict' | 'version' | 'createdAt'
> & {
  counts: boolean
}

/** What is said of changes: comments and verdicts. */
export type Review = {
  /** Comments after an id, oldest first. */
  list: (
    repository: Repository,
    change: ChangeRow,
    page: CommentFilter & { after: string; limit: number },
  ) => Promise<Comment[]>
  /** Throws `comment_not_found`, `path_absent` and `too_many_comments`. */
  comment: (
    actor: Actor,
    repository: Repository,
    change: ChangeRow,
    body: Static<typeof CommentBody>,
  ) => Promise<Comment>
  /** Edits the text of an own comment, or resolves or reopens a thread. Throws `comment_not_found` and `role_insufficient`. */
  edit: (
    actor: Actor,
    repository: Repository,
    change: ChangeRow,
    edited: { id: string; body: Static<typeof CommentEditBody> },
  ) => Promise<Comment>
  /** Gives a verdict or withdraws it. Throws `verdict_refused`, `version_outdated` and `change_closed`. */
  judge: (
    actor: Actor & Pick<Principal, 'refs'>,
    repository: Repository,
    change: ChangeRow,
    body: Static<typeof VerdictBody>,
  ) => Promise<void>
  /** The verdicts on a change, with whether they count at this moment. */
  verdicts: (change: ChangeRow, versions: readonly ChangeVersionRow[]) => Promise<CountedVerdict[]>
  count: (change: ChangeRow) => ReturnType<typeof countComments>
}

type Dependencies = {
  db: Database
  git: Git
  publish: Publish
  clock: Clock
  repositories: Pick<Repositories, 'roleOfUser'>
}

const maxComments = 20_000
const maxComparisons = 4

export function createReview({ db, git, publish, clock, repositories }: Dependencies): Review {
  async function find(db: Db, change: ChangeRow, id: string): Promise<ChangeCommentRow> {
    const comment = isId(id) ? await findComment(db, change, id) : undefined
    if (comment) return comment
    throw new Problem('comment_not_found', `Change ${change.number} has no comment "${id}".`)
  }

  /** Throws unless a version has a file that a comment is on. */
  async function requireFile(
    { path: directory }: Repository,
    { commitId, baseId }: ChangeVersionRow,
    { path, side }: { path: string; side: 'new' | 'old' },
    line: number | undefined,
  ): Promise<void> {
    const name = `${side === 'old' ? baseId : commitId}:${path}`
    // Git resolves these relative to a directory.
    const isPlain = path.split('/').every((part) => !['', '.', '..'].includes(part))
    const id = isPlain ? (await findObjects(git, directory, [name])).get(name) : undefined
    const content = id === undefined ? undefined : await readBlob(git, directory, id)
    if (content === undefined)
      throw new Problem('path_absent', `The version has no file "${path}" on the side "${side}".`)
    if (line !== undefined && content !== 'large' && countLines(content) < line)
      throw new Problem('path_absent', `The file "${path}" has only ${countLines(content)} lines.`)
  }

  async function describe(
    repository: Repository,
    change: ChangeRow,
    comments: readonly ChangeCommentRow[],
  ): Promise<Comment[]> {
    const versions = new Map(
      (await listChangeVersions(db, change)).map((version) => [version.version, version]),
    )
    const threadIds = [...new Set(comments.map(({ threadId }) => threadId))]
    const resolved = await findResolved(db, threadIds)
    const last = versions.get(change.version)
    const keyOf = ({ version, side, path }: ChangeCommentRow) => `${version} ${side} ${path}`
    const groups = Map.groupBy(
      comments.filter(({ line }) => line !== null),
      keyOf,
    )
    const lines = new Map<string, number>()
    await forEachConcurrently(maxComparisons, groups.values(), async (group) => {
      const [first] = group
      const version = first && versions.get(first.version)
      if (!first || !version || !last) return
      const commitOf = (one: ChangeVersionRow) => (first.side === 'old' ? one.baseId : one.commitId)
      const files = { from: commitOf(version), to: commitOf(last), path: first.path }
      const follow = await followLines(git, repository.path, files)
      for (const { id, line } of group) {
        const current = line === null ? undefined : follow(line)
        if (current !== undefined) lines.set(id, current)
      }
    })
    return comments.map((comment) => {
      const { id, threadId, version, path, side, line, text, username, createdAt } = comment
      const by = resolved.get(threadId) ?? null
      return {
        ...{ id, threadId, version, text, username, createdAt, editedAt: comment.editedAt },
        path: path === '' ? null : path,
        side: line === null ? null : side,
        line,
        currentLine: lines.get(id) ?? null,
        resolvedBy: by,
      }
    })
  }

  async function one(repository: Repository, change: ChangeRow, id: string): Promise<Comment> {
    const [comment] = await describe(repository, change, [await find(db, change, id)])
    if (!comment) throw new Error(`The comment ${id} was not described.`)
    return comment
  }

  const aboutOf = ({ number, target }: ChangeRow) => ({ number, target })

  return {
    async list(repository, change, page) {
      return describe(repository, change, await listComments(db, change, page))
    },

    async comment(actor, repository, change, { text, replyTo, version, path, line, side }) {
      if (line !== undefined && path === undefined)
        throw invalid([{ pointer: '/path', detail: 'is required with `line`.' }])
      if (replyTo !== undefined && (path !== undefined || version !== undefined))
        throw invalid([{ pointer: '/replyTo', detail: 'cannot be used with `path` or `version`.' }])
      const first = replyTo === undefined ? undefined : await find(db, change, replyTo)
      const number = version ?? change.version
      const on = (await listChangeVersions(db, change)).find((known) => known.version === number)
      if (!on) throw invalid([{ pointer: '/version', detail: 'is not a version of this change.' }])
      const given = { path: path ?? '', side: side ?? 'new' }
      if (path !== undefined) await requireFile(repository, on, given, line)
      const now = clock.now()
      const id = newId(now)
      const place = first ?? { ...given, threadId: id, version: number, line: line ?? null }
      const { username } = actor
      const row: ChangeCommentRow = {
        ...{ id, repositoryId: repository.id, number: change.number, threadId: place.threadId },
        ...{ version: place.version, path: place.path, side: place.side, line: place.line },
        ...{ text, username, createdAt: now, editedAt: null, resolvedBy: null },
      }
      await withLockedChange(db, { repository, change }, async (tx, locked) => {
        if ((await countComments(tx, locked)).comments >= maxComments) throw tooManyComments(locked)
        await insertComment(tx, row)
        const about = { version: row.version, path: row.path, line: row.line }
        const data = { ...aboutOf(locked), commentId: id, threadId: row.threadId, ...about }
        const repositoryId = repository.id
        await publish(tx, now, [{ kind: 'change.commented', actor, repositoryId, data }])
      })
      return one(repository, change, id)
    },

    async edit(actor, repository, change, { id, body: { text, resolved } }) {
      const { username } = actor
      await withLockedChange(db, { repository, change }, async (tx, locked) => {
        const comment = await find(tx, locked, id)
        const first = await find(tx, locked, comment.threadId)
        if (text !== undefined && comment.username !== username)
          throw notAllowed('Only its author may edit a comment.')
        const mayResolve =
          repository.role !== 'read' || [locked.username, first.username].includes(username)
        if (resolved !== undefined && !mayResolve)
          throw notAllowed(
            'Only who has begun a thread or proposed the change, and those who may push, may resolve it.',
          )
        const now = clock.now()
        if (text !== undefined) await updateComment(tx, id, { text, editedAt: now })
        if (resolved !== undefined)
          await updateComment(tx, first.id, { resolvedBy: resolved ? username : null })
        const isResolved = resolved ?? first.resolvedBy !== null
        const about = { threadId: first.id, resolved: isResolved }
        const data = { ...aboutOf(locked), commentId: id, ...about }
        const repositoryId = repository.id
        await publish(tx, now, [{ kind: 'change.comment_updated', actor, repositoryId, data }])
      })
      return one(repository, change, id)
    },

    async judge(actor, repository, change, { verdict, version }) {
      const { username } = actor
      // It counts for the branch, as a push to it would.
      requireRef(actor, change.target)
      await withLockedChange(db, { repository, change }, async (tx, locked) => {
        const { number, state } = locked
        if (state !== 'open') throw changeClosed(locked)
        if (username === locked.username && verdict !== 'none')
          throw new Problem('verdict_refused', 'You have proposed this change; others review it.')
        requireLastVersion(locked, version)
        const now = clock.now()
        const id = { repositoryId: repository.id, number, username }
        if (verdict === 'none') {
          if (!(await deleteVerdict(tx, locked, username))) return
        } else await saveVerdict(tx, { ...id, version, verdict, createdAt: now })
        const data = { ...aboutOf(locked), version, verdict }
        const repositoryId = repository.id
        await publish(tx, now, [{ kind: 'change.verdict_given', actor, repositoryId, data }])
      })
    },

    async verdicts(change, versions) {
      const last = versions.find(({ version }) => version === change.version)
      const counted: CountedVerdict[] = []
      for (const { username, verdict, version, createdAt } of await listVerdicts(db, change)) {
        const of = versions.find((known) => known.version === version)
        const isSame = last !== undefined && of !== undefined && hasSamePatches(of, last)
        const isOwn = username === change.username || username === last?.username
        const counts = isSame && !isOwn && (await mayJudge(username, change.repositoryId))
        counted.push({ username, verdict, version, createdAt, counts })
      }
      return counted
    },

    count: (change) => countComments(db, change),
  }

  /** Whether a user may push to a repository at this moment, so that a verdict counts. */
  async function mayJudge(username: string, repositoryId: string): Promise<boolean> {
    if (!isUserEnabled(await findUser(db, username))) return false
    const role = await repositories.roleOfUser(username, repositoryId)
    return role !== undefined && role !== 'read'
  }
}

/**
 * Whether two versions make the same changes to the same files: with the same base the files are the same, and with another
 * one the patches, wherever they apply.
 */
function hasSamePatches(one: ChangeVersionRow, other: ChangeVersionRow): boolean {
  const [[patches, files], [otherPatches, otherFiles]] = [one, other].map(({ patchId }) =>
    patchId.split(':'),
  ) as [string[], string[]]
  return patches === otherPatches && (one.baseId !== other.baseId || files === otherFiles)
}

function countLines(content: Buffer): number {
  const lines = content.toString('latin1').split('\n')
  return lines.at(-1) === '' ? lines.length - 1 : lines.length
}

function notAllowed(detail: string): Problem {
  return new Problem('role_insufficient', detail)
}

function tooManyComments({ number }: ChangeRow): Problem {
  const detail = `Change ${number} has ${maxComments} comments, which is the maximum.`
  return new Problem('too_many_comments', detail)
}
