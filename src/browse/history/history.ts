import { idDigits } from '#base/object-id.ts'
import type { CommitObject } from '#git/objects/commit-object.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import { gitCommands } from '#git/process/commands.ts'
import { toWord } from '#git/process/preforked-process.ts'
import type { RawPath } from '../api-path.ts'
import type { BrowseParts } from '../browse-parts.ts'
import type { CommitsById } from '../commits-by-id.ts'
import type { Requester } from '../git-tasks.ts'
import { latin1Lines } from '../line-splitter.ts'
import { type ListedCommit, mustRead, walkByDate } from '../walk-by-date.ts'
import { findNewest } from './newest-commit.ts'

export type HistoryRange = {
  /** The commit whose history it is. */
  tip: string
  path: RawPath
  author: string
  /** In milliseconds; undefined without a limit. */
  since: number | undefined
  until: number | undefined
  skip: number
  limit: number
}

/** Up to this many commits, reading them one by one is faster than starting git. */
const walkMaxCommits = 100
/** A page ends before its commits are larger than this. */
const pageMaxLength = 1024 * 1024
/** The first batches are smaller, so that few large commits are in memory at a time. */
const maxReadAtOnce = 32

/**
 * Lists commits as git-log(1) does, newest first, with the number to skip for those that follow; undefined if there are
 * none.
 */
export async function readHistory(
  parts: Pick<BrowseParts, 'tasks' | 'pool' | 'commits' | 'trees' | 'lastCommits'>,
  requester: Requester,
  range: HistoryRange,
): Promise<{ commits: ListedCommit[]; nextSkip: number | undefined }> {
  const { tasks, pool, commits } = parts
  const { tip, path, skip, limit } = range
  const { repository } = requester
  const objects = pool.of(repository.path)
  const isUnfiltered = range.author === '' && (range.since ?? range.until) === undefined
  if (isUnfiltered && path !== '' && skip === 0 && limit === 1) {
    const newest = await findNewest(parts, { repository, objects, tip, path })
    if (newest) return { commits: [newest.commit], nextSkip: newest.hasOlder ? 1 : undefined }
  }
  const isPlain = isUnfiltered && path === ''
  // One more shows whether there are more.
  const walked =
    isPlain && skip + limit <= walkMaxCommits
      ? await walk(objects, commits, { tip, count: skip + limit + 1 })
      : undefined
  const ids =
    walked?.slice(skip) ?? (await listIds(tasks, requester, { ...range, limit: limit + 1 }))
  const page = await readCommits(objects, commits, ids.slice(0, limit))
  return { commits: page, nextSkip: page.length < ids.length ? skip + page.length : undefined }
}

/** Reads commits up to the size of a page, at least one. */
export async function readCommits(
  objects: ObjectReader,
  commits: CommitsById,
  ids: readonly string[],
): Promise<ListedCommit[]> {
  const page: ListedCommit[] = []
  let length = 0
  while (page.length < ids.length) {
    const at = page.length
    const some = ids.slice(at, at + Math.min(at + 1, maxReadAtOnce))
    const found = await Promise.all(some.map((id) => mustRead(objects, commits, id)))
    for (const one of found) {
      length += lengthOf(one.commit)
      if (page.length > 0 && length > pageMaxLength) return page
      page.push(one)
    }
  }
  return page
}

function lengthOf({ message, parents, author, committer }: CommitObject): number {
  const names = [author, committer].map(({ name, email }) => name.length + email.length)
  const ids = parents.reduce((sum, { length }) => sum + length + 1, 0)
  return message.length + ids + (names[0] ?? 0) + (names[1] ?? 0)
}

/** The first ids of a history; undefined for one with too many branches at a time. */
async function walk(
  objects: ObjectReader,
  commits: CommitsById,
  { tip, count }: { tip: string; count: number },
): Promise<string[] | undefined> {
  const ids: string[] = []
  for await (const one of walkByDate(objects, commits, tip)) {
    if (!one) return undefined
    ids.push(one.id)
    if (ids.length === count) break
  }
  return ids
}

function listIds(
  tasks: BrowseParts['tasks'],
  requester: Requester,
  { tip, path, author, since, until, skip, limit }: HistoryRange,
): Promise<string[]> {
  const command = gitCommands.listHistory(
    requester.repository.path,
    String(limit),
    String(skip),
    author,
    since === undefined ? '' : `${Math.ceil(since / 1000)} +0000`,
    until === undefined ? '' : `${Math.floor(until / 1000)} +0000`,
    tip,
    ...(path === '' ? [] : [toWord(path)]),
  )
  return tasks.run(requester, {
    command,
    async read(output) {
      const ids: string[] = []
      for await (const id of idLines(output)) ids.push(id)
      return ids
    },
  })
}

/** The length of the longest id, with a character before it. */
const idLineLength = idDigits('sha256') + 1

/** The lines of output of which each is an id, with a character before it at most. */
export function idLines(output: AsyncIterable<Buffer>): AsyncGenerator<string> {
  return latin1Lines(output, idLineLength)
}
