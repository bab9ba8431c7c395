import type { Static } from 'typebox'
import type { Clock } from '#base/clock.ts'
import { formatOf } from '#base/object-id.ts'
import { type FieldError, Problem } from '#base/problem.ts'
import { mergeTrees } from '#git/objects/merge-trees.ts'
import { type NewObject, toCommitObject, toIdentityLine } from '#git/objects/new-objects.ts'
import { type ObjectReader, openObjects } from '#git/objects/object-reader.ts'
import { writePack } from '#git/objects/pack.ts'
import type { Git } from '#git/process/git-process.ts'
import type { Body } from '#git/protocol/request-body.ts'
import { findMergeBase } from '#git/refs/ancestry.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import type { Revision } from '#git/refs/resolve-revision.ts'
import { invalid } from '#http/validation.ts'
import type { Directories } from '#repositories/directories/directories.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { RevisionFinder } from '#repositories/revision-finder.ts'
import { type ApiWrite, type PushFromApi, retryMoved } from './api-push.ts'
import { identitiesOf } from './identities.ts'
import { mergeConflict, tooManyConflicts } from './merge-problems.ts'
import { rebase } from './rebase.ts'
import { assertMessage, refMoved, toMessage } from './refusals.ts'
import { branchRefOf, presentValueOf, requireCommit } from './required-revision.ts'
import { createScratch, type Scratch } from './scratch.ts'
import type { MadeMerge, MergeBody } from './write-schemas.ts'

type MergeRequest = Static<typeof MergeBody>

const mergeMaxSeconds = 30

/** Merges into a branch. `merged` is false when there was nothing to merge. */
export type MergeBranch = (
  write: ApiWrite,
  request: MergeRequest,
) => Promise<Static<typeof MadeMerge>>

type Dependencies = {
  git: Git
  revisions: RevisionFinder
  push: PushFromApi
  repositories: Pick<Repositories, 'reopen'>
  directories: Pick<Directories, 'scratchOf' | 'removeScratch'>
  clock: Clock
  baseUrl: () => string
}

/** A merge whose branch and commits are known. */
type Merging = {
  write: ApiWrite
  request: MergeRequest
  before: string
  head: Revision
  author: string
  committer: string
  /** Aborted when the client is gone, or the merge has taken too long. */
  signal: AbortSignal
}

/** What a merge makes: the new value of the branch, and the commits on the way to it. */
type Merged = { id: string; commits: NewObject[]; pack: Body }

export function createMergeBranch(dependencies: Dependencies): MergeBranch {
  const { git, revisions, push, repositories, clock, baseUrl } = dependencies

  /** Runs a merge with a temporary object directory, which is removed when its objects are pushed. */
  async function withScratch<T>(
    { repository }: ApiWrite,
    work: (scratch: Scratch, objects: ObjectReader) => Promise<T>,
  ): Promise<T> {
    await using scratch = await createScratch(dependencies, repository)
    await using objects = await openObjects(scratch.git, repository.path)
    return await work(scratch, objects)
  }

  async function mergeOnce(
    { write, request, before, head, author, committer, signal }: Merging,
    scratch: Scratch,
    objects: ObjectReader,
  ): Promise<Merged | undefined> {
    const { method, base, message = defaultMessage(request, head) } = request
    const merged = await mergeTrees(scratch.git, write.repository.path, {
      ours: before,
      theirs: head.id,
      signal,
    })
    if (!merged) throw tooManyConflicts()
    const { tree, conflicts } = merged
    const names = new Map([
      [before, base],
      [head.id, request.head],
    ])
    if (conflicts) throw await mergeConflict(objects, { tree, conflicts, names })
    const isSquash = method === 'squash'
    if (isSquash && (await objects.find(`${before}^{tree}`))?.id === tree) return undefined
    const parents = isSquash ? [before] : [before, head.id]
    const commit = toCommitObject({ tree, parents, author, committer, message: toMessage(message) })
    return { id: commit.id, commits: [commit], pack: await scratch.packOf([commit], [tree]) }
  }

  async function rebaseOnce(
    { write, request, before, head, committer, signal }: Merging,
    scratch: Scratch,
    objects: ObjectReader,
  ): Promise<Merged | undefined> {
    const made = await rebase({
      directory: write.repository.path,
      scratch,
      objects,
      onto: before,
      tip: head.id,
      committer,
      branch: request.base,
      signal,
    })
    if (made.head === before) return undefined
    const isForward = made.commits.length === 0
    const pack = isForward ? emptyPack(made.head) : await scratch.packOf(made.commits, made.trees)
    return { id: made.head, commits: made.commits, pack }
  }

  async function attempt(write: ApiWrite, request: MergeRequest) {
    const { principal, repository } = write
    const { base: branch, method, expectedHead } = request
    const ref = branchRefOf(branch, '/base')
    const now = clock.now()
    const { author, committer } = identitiesOf(principal, request, { now, baseUrl: baseUrl() })
    const before = await presentValueOf(repository, ref)
    if (before === zeroId) throw new Problem('ref_not_found', `There is no branch "${branch}".`)
    const head = await requireCommit(revisions, repository, request.head)
    const toResult = (
      made: { id: string; commits: NewObject[] } | undefined,
      pushId: string | null,
    ) => ({
      branch,
      ref,
      before,
      id: made?.id ?? before,
      head: head.id,
      commits: made?.commits.map(({ id }) => id) ?? [],
      merged: made !== undefined,
      pushId,
    })
    const pushed = async (made: Merged | undefined) => {
      if (!made) return toResult(undefined, null)
      const { pack } = made
      return toResult(made, await push(write, { ref, before, after: made.id }, { pack }))
    }

    const ancestor = await findMergeBase(git, repository.path, before, head.id)
    if (ancestor === head.id) return toResult(undefined, null)
    if (expectedHead !== undefined && expectedHead !== before) throw refMoved(ref, before)
    if (ancestor === undefined) throw unrelated(request)
    if (method === 'fast-forward') {
      if (ancestor !== before) throw notFastForward(request)
      return pushed({ id: head.id, commits: [], pack: emptyPack(head.id) })
    }
    const lines = { author: toIdentityLine(author), committer: toIdentityLine(committer) }
    const merging = { write, request, before, head, ...lines }
    const run = method === 'rebase' ? rebaseOnce : mergeOnce
    return withScratch(write, async (scratch, objects) =>
      pushed(
        await limited(write.signal, (signal) => run({ ...merging, signal }, scratch, objects)),
      ),
    )
  }

  return async (write, request) => {
    assertFields(request)
    const mayRetry = request.expectedHead === undefined
    return retryMoved(repositories, write, mayRetry, (current) => attempt(current, request))
  }
}

/** A pack without objects, in the format of an id. */
function emptyPack(id: string): Body {
  return writePack(0, [], formatOf(id))
}

/** Ends a merge that takes too long: Git may compare large files for minutes. Throws `git_limit_exceeded`. */
async function limited<T>(
  clientSignal: AbortSignal,
  merge: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timeout = AbortSignal.timeout(mergeMaxSeconds * 1000)
  try {
    return await merge(AbortSignal.any([clientSignal, timeout]))
  } catch (error) {
    if (error !== timeout.reason) throw error
    const detail = `The merge took longer than ${mergeMaxSeconds} s. Merge in a clone, and push the result.`
    throw new Problem('git_limit_exceeded', detail, { cause: error })
  }
}

/** A merge or squash has a message and an author; the commits of a rebase have their own. */
function assertFields({ method, message, author }: MergeRequest): void {
  if (message !== undefined) assertMessage(message)
  if (method === 'merge' || method === 'squash') return
  const errors: FieldError[] = Object.entries({ message, author })
    .filter(([, value]) => value !== undefined)
    .map(([name]) => ({ pointer: `/${name}`, detail: `has no effect with the method ${method}.` }))
  if (errors.length > 0) throw invalid(errors)
}

function defaultMessage({ head, base, method }: MergeRequest, { ref }: Revision): string {
  const [, kind = ''] = /^refs\/(heads|tags)\//.exec(ref ?? '') ?? []
  const what = { heads: 'branch', tags: 'tag' }[kind] ?? (ref === undefined ? 'commit' : 'ref')
  const name = kind === '' ? head : (ref ?? '').slice(`refs/${kind}/`.length)
  return `${method === 'squash' ? 'Squash' : 'Merge'} ${what} '${name}' into ${base}`
}

function unrelated({ base, head }: MergeRequest): Problem {
  const detail = `"${head}" and "${base}" have no commit in common, so they are not merged.`
  return new Problem('histories_unrelated', detail)
}

function notFastForward({ base, head }: MergeRequest): Problem {
  const detail = `"${base}" has commits that "${head}" does not have. Merge with another method.`
  return new Problem('not_fast_forward', detail)
}
