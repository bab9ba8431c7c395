import { requirePermission } from '#access/may.ts'
import type { ProblemCode } from '#base/problem.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { type FindRequest, nothing, type Route, route } from '#http/route.ts'
import { openProblems } from '#repositories/open-repository.ts'
import type { Repositories } from '#repositories/repositories.ts'
import type { ChangeRef } from './change-ref.ts'
import type { CreateCommit } from './create-commit.ts'
import type { MergeBranch } from './merge-branch.ts'
import {
  ChangedRef,
  CommitBody,
  MadeCommit,
  MadeMerge,
  MergeBody,
  RefBody,
  RefDeletionQuery,
  RefQuery,
} from './write-schemas.ts'

type Dependencies = {
  repositories: Pick<Repositories, 'open'>
  createCommit: CreateCommit
  mergeBranch: MergeBranch
  changeRef: ChangeRef
  commitBodyMaxBytes: number
}

const opening: ProblemCode[] = [...openProblems, 'role_insufficient']
/** The problems of a push through the API. */
export const writeProblems: ProblemCode[] = [
  'ref_moved',
  'update_refused',
  'ref_not_found',
  'ref_name_refused',
  'revision_ambiguous',
  'branch_protected',
  'approval_required',
  'run_required',
  'status_required',
  'path_locked',
  'token_limited',
  'lfs_objects_missing',
  'credentials_leaked',
  'objects_refused',
  'git_limit_exceeded',
  'git_busy',
  'storage_full',
  'namespace_full',
  'database_unavailable',
]

/** The problems of a merge. */
export const mergeProblems: ProblemCode[] = [
  ...opening,
  ...writeProblems,
  'merge_conflict',
  'not_fast_forward',
  'histories_unrelated',
  'too_many_commits',
]

/** The routes that change a repository without a clone. Each change is a push. */
export function writeRoutes(dependencies: Dependencies): Route[] {
  const { repositories, createCommit, mergeBranch, changeRef, commitBodyMaxBytes } = dependencies
  // Their responses show what is in the repository.
  const open = ({ principal, permission, params }: FindRequest<{ name: string }>) => {
    requirePermission(principal, 'repo:read')
    return repositories.open(principal, params.name, permission)
  }

  return [
    route('POST', '/repos/:name/commits', {
      operationId: 'createCommit',
      tag: 'writing',
      summary: 'Make a commit',
      description:
        'Makes one commit on a branch, without a clone. It is a push, with `via: "api"`: the same rights, branch ' +
        'protections, leak guard, journal, events and undo. Permission: also `repo:read`.\n\n' +
        'With `expectedHead`, the commit is made only on top of that one; 409 with `ref_moved` has the present one as ' +
        '`head`. With `expectedHead` and `date`, the request can be repeated: when the branch has the commit already, ' +
        'the response is 200 with that commit. When the branch moves meanwhile, a request without ' +
        '`expectedHead` is tried up to eight times.',
      permission: 'repo:write',
      find: open,
      body: CommitBody,
      bodyMaxBytes: commitBodyMaxBytes,
      reply: { 200: MadeCommit, 201: MadeCommit },
      status: 201,
      problems: [...opening, ...writeProblems, 'path_absent', 'path_conflict', 'nothing_changed'],
      handle: async ({ principal, found, body, clientSignal, setStatus }) => {
        const write = { principal, repository: found, signal: clientSignal() }
        const { commit, isRepeated } = await createCommit(write, body)
        if (isRepeated) setStatus(200)
        return commit
      },
    }),
    route('POST', '/repos/:name/merges', {
      operationId: 'createMerge',
      tag: 'writing',
      summary: 'Merge into a branch',
      description:
        'Merges a branch, a tag or a commit into a branch, without a clone. It is a push, with `via: "api"`. ' +
        'Permission: also `repo:read`.\n\n' +
        'A merge with conflicts changes nothing: 409 with `merge_conflict` has the files, with conflict markers. A ' +
        'branch that has all commits already is left as it is: the response is 200 with `merged: false`, otherwise ' +
        '201. When the branch moves meanwhile, a request without `expectedHead` is tried up to eight times.',
      permission: 'repo:write',
      find: open,
      body: MergeBody,
      reply: { 200: MadeMerge, 201: MadeMerge },
      status: 201,
      problems: mergeProblems,
      handle: async ({ principal, found, body, clientSignal, setStatus }) => {
        const write = { principal, repository: found, signal: clientSignal() }
        const merge = await mergeBranch(write, body)
        if (!merge.merged) setStatus(200)
        return merge
      },
    }),
    route('PUT', '/repos/:name/refs', {
      operationId: 'setRef',
      tag: 'writing',
      summary: 'Create or move a ref',
      description:
        'Points a branch, a tag or another ref at an object of the repository. It is a push, with `via: "api"`. ' +
        'Permission: also `repo:read`.\n\n' +
        'The response is 201 for a new ref, otherwise 200. A ref that has this value already is left as it is, and ' +
        '`pushId` is null.',
      permission: 'repo:write',
      find: open,
      query: RefQuery,
      body: RefBody,
      reply: { 200: ChangedRef, 201: ChangedRef },
      status: 201,
      problems: [...opening, ...writeProblems, 'tag_protected', 'not_fast_forward'],
      handle: async ({ principal, found, query, body, clientSignal, setStatus }) => {
        const write = { principal, repository: found, signal: clientSignal() }
        const changed = await changeRef.set(write, query.ref, body)
        if (changed.before !== zeroId) setStatus(200)
        return changed
      },
    }),
    route('DELETE', '/repos/:name/refs', {
      operationId: 'deleteRef',
      tag: 'writing',
      summary: 'Delete a ref',
      description:
        'Deletes a branch, a tag or another ref. It is a push, with `via: "api"`, and can be undone. Permission: also ' +
        '`repo:read`.',
      permission: 'repo:write',
      find: open,
      query: RefDeletionQuery,
      reply: { 204: nothing },
      problems: [
        ...opening,
        ...writeProblems,
        'ref_absent',
        'tag_protected',
        'default_branch_deletion',
      ],
      handle: async ({ principal, found, query, clientSignal }) => {
        const write = { principal, repository: found, signal: clientSignal() }
        await changeRef.delete(write, query.ref, query.expected)
        return undefined
      },
    }),
  ]
}
