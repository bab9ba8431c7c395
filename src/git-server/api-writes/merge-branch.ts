import type { Static } from 'typebox'
import type { Clock } from '#base/clock.ts'
import { formatOf } from '#base/object-id.ts'
import { type FieldError, Problem } from '#base/problem.ts'
import { type NewObject, toIdentityLine } from '#git/objects/new-objects.ts'
import { openObjects } from '#git/objects/object-reader.ts'
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
import { makeMerge } from './make-merge.ts'
import { assertMessage, refMoved } from './refusals.ts'
import { branchRefOf, presentValueOf, requireCommit } from './required-revision.ts'
import { createScratch } from './scratch.ts'
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

export function createMergeBranch(dependencies: Dependencies): MergeBranch {
  const { git, revisions, push, repositories, clock, baseUrl } = dependencies

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
    const pushed = async (made: { id: string; commits: NewObject[] }, pack: Body) =>
      toResult(made, await push(write, { ref, before, after: made.id }, { pack }))

    const ancestor = await findMergeBase(git, repository.path, before, head.id)
    if (ancestor === head.id) return toResult(undefined, null)
    if (expectedHead !== undefined && expectedHead !== before) throw refMoved(ref, before)
    if (ancestor === undefined) throw unrelated(request)
    if (method === 'fast-forward') {
      if (ancestor !== before) throw notFastForward(request)
      return pushed({ id: head.id, commits: [] }, emptyPack(head.id))
    }
    const { message = defaultMessage(request, head) } = request
    const merge = {
      ...{ directory: repository.path, method, before, head: head.id, message },
      names: { before: branch, head: request.head },
      author: toIdentityLine(author),
      committer: toIdentityLine(committer),
    }
    await using scratch = await createScratch(dependencies, repository)
    await using objects = await openObjects(scratch.git, repository.path)
    const made = await limitedMerge(write.signal, (signal) =>
      makeMerge({ ...merge, signal }, scratch, objects),
    )
    if (!made) return toResult(undefined, null)
    const isForward = made.commits.length === 0
    const pack = isForward ? emptyPack(made.id) : await scratch.packOf(made.commits, made.trees)
    return await pushed(made, pack)
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
export async function limitedMerge<T>(
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
