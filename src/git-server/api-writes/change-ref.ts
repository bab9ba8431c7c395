import type { Static } from 'typebox'
import { formatOf } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import { writePack } from '#git/objects/pack.ts'
import type { Git } from '#git/process/git-process.ts'
import { isAncestor } from '#git/refs/ancestry.ts'
import { fromGitId, fullNameFault, refNameFault, zeroId } from '#git/refs/ref-name.ts'
import { branchPrefix } from '#git/refs/refs.ts'
import type { Revision } from '#git/refs/resolve-revision.ts'
import { invalid, ofQuery } from '#http/validation.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { RevisionFinder } from '#repositories/revision-finder.ts'
import { type ApiWrite, type PushFromApi, retryMoved } from './api-push.ts'
import { refMoved } from './refusals.ts'
import { presentValueOf, requireCommit, requireRevision } from './required-revision.ts'
import type { ChangedRef, RefBody } from './write-schemas.ts'

/** Creates, moves and deletes refs. */
export type ChangeRef = {
  set: (
    write: ApiWrite,
    ref: string,
    request: Static<typeof RefBody>,
  ) => Promise<Static<typeof ChangedRef>>
  delete: (write: ApiWrite, ref: string, expected: string | undefined) => Promise<void>
}

type Dependencies = {
  git: Git
  revisions: RevisionFinder
  push: PushFromApi
  repositories: Pick<Repositories, 'reopen'>
}

export function createChangeRef({ git, revisions, push, repositories }: Dependencies): ChangeRef {
  async function set(write: ApiWrite, ref: string, request: Static<typeof RefBody>) {
    const { repository } = write
    const { target, expected, force = false } = request
    const before = await presentValueOf(repository, ref)
    const { id, type } = await findTarget(write, ref, target)
    const result = { ref, before, id, type, pushId: null }
    if (before === id) return result
    if (expected !== undefined && fromGitId(expected) !== before) throw refMoved(ref, before)
    if (before !== zeroId && !force) await requireFastForward(write, ref, { before, id })
    const pack = writePack(0, [], formatOf(id))
    return { ...result, pushId: await push(write, { ref, before, after: id }, { pack }) }
  }

  async function requireFastForward(
    { repository }: ApiWrite,
    ref: string,
    { before, id }: { before: string; id: string },
  ): Promise<void> {
    if (ref.startsWith('refs/tags/')) {
      throw new Problem('not_fast_forward', `The tag ${ref} exists. With \`force\` it is moved.`)
    }
    if (await isAncestor(git, repository.path, before, id)) return
    const detail = `${ref} is ${before}, which is not in the history of ${id}. With \`force\` it is moved nevertheless, and loses commits.`
    throw new Problem('not_fast_forward', detail)
  }

  function findTarget({ repository }: ApiWrite, ref: string, target: string): Promise<Revision> {
    const find = ref.startsWith(branchPrefix) ? requireCommit : requireRevision
    return find(revisions, repository, target)
  }

  async function remove(write: ApiWrite, ref: string, expected: string | undefined): Promise<void> {
    const before = await presentValueOf(write.repository, ref)
    if (before === zeroId) throw new Problem('ref_absent', `There is no ref ${ref}.`)
    if (expected !== undefined && expected !== before) throw refMoved(ref, before)
    await push(write, { ref, before, after: zeroId }, { pack: undefined })
  }

  return {
    async set(write, ref, request) {
      assertRef(ref)
      const mayRetry = request.expected === undefined
      return retryMoved(repositories, write, mayRetry, (current) => set(current, ref, request))
    },

    async delete(write, ref, expected) {
      assertRef(ref)
      const mayRetry = expected === undefined
      await retryMoved(repositories, write, mayRetry, (current) => remove(current, ref, expected))
    },
  }
}

function assertRef(ref: string): void {
  const fault = ref.isWellFormed() ? fullNameFault(ref) : 'is not valid Unicode.'
  if (fault !== undefined) throw invalid([ofQuery('ref', fault)])
  const refusal = refNameFault(ref)
  if (refusal === undefined) return
  throw new Problem('ref_name_refused', `The ref "${ref}" is refused: its name ${refusal}.`)
}
