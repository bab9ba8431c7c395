import type { Static } from 'typebox'
import type { Clock } from '#base/clock.ts'
import type { ObjectFormat } from '#base/object-id.ts'
import { Problem } from '#base/problem.ts'
import type { PlainSettings } from '#config/settings.ts'
import { createTreeEditor } from '#git/objects/edit-tree.ts'
import {
  emptyTreeId,
  type NewObject,
  toCommitObject,
  toIdentityLine,
} from '#git/objects/new-objects.ts'
import type { ObjectPool } from '#git/objects/object-pool.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import { writePack } from '#git/objects/pack.ts'
import type { Git } from '#git/process/git-process.ts'
import { isAncestor } from '#git/refs/ancestry.ts'
import { fromGitId, proposalRefs, zeroId } from '#git/refs/ref-name.ts'
import { hasRefs } from '#git/refs/refs.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { RevisionFinder } from '#repositories/revision-finder.ts'
import { type ApiWrite, type PushFromApi, retryMoved } from './api-push.ts'
import { applyChanges, shown } from './apply-changes.ts'
import { type CommitIdentities, identitiesOf, toCommitPerson } from './identities.ts'
import { assertMessage, refMoved, toMessage } from './refusals.ts'
import { branchRefOf, presentValueOf, readTree, requireCommit } from './required-revision.ts'
import type { CommitBody, MadeCommit, ProposedCommitBody } from './write-schemas.ts'

type CommitRequest = Static<typeof CommitBody>

/** Makes a commit. Returns it, and whether it was made by an earlier request. */
export type CreateCommit = (
  write: ApiWrite,
  request: CommitRequest,
) => Promise<{ commit: Static<typeof MadeCommit>; isRepeated: boolean }>

/** Makes a commit and proposes it for a branch. Returns the name of the version. */
export type ProposeCommit = (
  write: ApiWrite,
  request: Static<typeof ProposedCommitBody>,
) => Promise<string>

type Dependencies = {
  git: Git
  pool: Pick<ObjectPool, 'of'>
  revisions: RevisionFinder
  push: PushFromApi
  repositories: Pick<Repositories, 'reopen'>
  clock: Clock
  baseUrl: () => string
  settings: Pick<PlainSettings, 'defaultObjectFormat'>
}

/** A commit whose objects are in memory. */
type Draft = {
  commit: NewObject
  treeId: string
  parents: string[]
  objects: NewObject[]
  paths: Map<string, string>
}

export function createCommits(dependencies: Dependencies): {
  createCommit: CreateCommit
  proposeCommit: ProposeCommit
} {
  const { git, pool, revisions, push, repositories, clock, baseUrl, settings } = dependencies

  /** The commit that the request builds on; undefined for the first one of a repository. */
  async function baseOf(
    { repository }: ApiWrite,
    { branch, start }: CommitRequest,
    head: string,
  ): Promise<string | undefined> {
    if (head !== zeroId) return head
    if (start !== undefined) return (await requireCommit(revisions, repository, start)).id
    if (!(await hasRefs(repository.path, 'visible'))) return undefined
    const detail = `There is no branch "${branch}". To create it, say where it starts: \`start\` takes a branch, a tag or an id.`
    throw new Problem('ref_not_found', detail)
  }

  async function draft(
    objects: ObjectReader,
    request: Pick<CommitRequest, 'changes' | 'message' | 'allowEmpty'>,
    { base, format }: { base: string | undefined; format: ObjectFormat },
    { author, committer }: CommitIdentities,
  ): Promise<Draft> {
    const former = base === undefined ? undefined : await objects.find(`${base}^{tree}`)
    const editor = createTreeEditor((id) => readTree(objects, id), former?.id, format)
    const blobs = await applyChanges(editor, request.changes, format)
    const { id: treeId, trees } = await editor.write()
    if (treeId === (former?.id ?? emptyTreeId(format)) && request.allowEmpty !== true)
      throw nothingChanged()
    const parents = base === undefined ? [] : [base]
    const message = toMessage(request.message)
    const commit = toCommitObject({
      tree: treeId,
      parents,
      author: toIdentityLine(author),
      committer: toIdentityLine(committer),
      message,
    })
    const named = [...trees, ...blobs]
    const paths = new Map(named.map(({ id, path }) => [id, shown(path)]))
    const all = new Map([commit, ...named].map((object) => [object.id, object]))
    return { commit, treeId, parents, objects: [...all.values()], paths }
  }

  async function attempt(write: ApiWrite, request: CommitRequest) {
    const { principal, repository } = write
    const { branch, start, date } = request
    const expectedHead = request.expectedHead && fromGitId(request.expectedHead)
    const ref = branchRefOf(branch, '/branch')
    const now = clock.now()
    const identities = identitiesOf(principal, request, { now, baseUrl: baseUrl() })
    const head = await presentValueOf(repository, ref)
    const objects = pool.of(repository.path)
    const format = repository.objectFormat ?? settings.defaultObjectFormat
    const toResult = (made: Draft, before: string, pushId: string | null) => ({
      id: made.commit.id,
      tree: made.treeId,
      parents: made.parents,
      branch,
      ref,
      before,
      author: toCommitPerson(identities.author),
      committer: toCommitPerson(identities.committer),
      message: toMessage(request.message),
      pushId,
    })

    if (expectedHead !== undefined && expectedHead !== head) {
      if (date !== undefined && head !== zeroId && (await isCommit(objects, expectedHead))) {
        const base = await baseOf(write, request, expectedHead)
        const made = await draft(objects, request, { base, format }, identities)
        if (await isAncestor(git, repository.path, made.commit.id, head))
          return { commit: toResult(made, expectedHead, null), isRepeated: true }
      }
      throw refMoved(ref, head)
    }
    if (head !== zeroId && start !== undefined) throw refMoved(ref, head)
    const base = await baseOf(write, request, head)
    const made = await draft(objects, request, { base, format }, identities)
    const update = { ref, before: head, after: made.commit.id }
    const pack = writePack(made.objects.length, made.objects, format)
    const pushId = await push(write, update, { pack, paths: made.paths })
    return { commit: toResult(made, head, pushId), isRepeated: false }
  }

  return {
    async createCommit(write, request) {
      assertMessage(request.message)
      const mayRetry = request.expectedHead === undefined && request.start === undefined
      return retryMoved(repositories, write, mayRetry, (current) => attempt(current, request))
    },

    async proposeCommit(write, { branch, start, ...request }) {
      const { principal, repository } = write
      assertMessage(request.message)
      const head = await presentValueOf(repository, branchRefOf(branch, '/branch'))
      if (head === zeroId) throw new Problem('ref_not_found', `There is no branch "${branch}".`)
      const base =
        start === undefined ? head : (await requireCommit(revisions, repository, start)).id
      const objects = pool.of(repository.path)
      const format = repository.objectFormat ?? settings.defaultObjectFormat
      const identities = identitiesOf(principal, request, { now: clock.now(), baseUrl: baseUrl() })
      const made = await draft(objects, request, { base, format }, identities)
      const update = { ref: proposalRefs + branch, before: zeroId, after: made.commit.id }
      const pack = writePack(made.objects.length, made.objects, format)
      return push(write, update, { pack, paths: made.paths })
    },
  }
}

async function isCommit(objects: ObjectReader, id: string): Promise<boolean> {
  return id === zeroId || (await objects.find(id))?.type === 'commit'
}

function nothingChanged(): Problem {
  return new Problem(
    'nothing_changed',
    'The commit would have the same files as the one before. With `allowEmpty` it is made nevertheless.',
  )
}
