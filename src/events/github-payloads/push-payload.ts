import type { CommitSummary } from '#git/objects/commit-object.ts'
import { type About, type Payload, toCommon, urlOf } from './about.ts'
import { toPayloadCommit } from './commits.ts'

/** A ref update. An all-zero `before` means that the ref is new, an all-zero `after` that it was deleted. */
type Update = { ref: string; before: string; after: string; forced: boolean; pushId?: string }

/**
 * The address that shows an update: the history of a new ref, the comparison of the two commits of a branch, otherwise
 * the push, or the repository if the push is not recorded.
 */
function compareUrlOf(
  { ref, before, after, pushId }: Update,
  head: CommitSummary | undefined,
  about: About,
): string {
  const url = urlOf(about)
  if (head && isZero(before)) return `${url}/commits?rev=${head.id}`
  // Only branches certainly point to commits.
  if (head && ref.startsWith('refs/heads/')) return `${url}/compare?base=${before}&head=${after}`
  return pushId === undefined ? url : `${url}/pushes/${pushId}`
}

type PushedCommits = {
  /** Oldest first. */
  commits: CommitSummary[]
  /** The commit that the ref points to, directly or through a tag. */
  head: CommitSummary | undefined
  /** The full name of the branch that a new ref was created from. */
  baseRef?: string | undefined
}

/** The payload of a `push`, for one ref. */
export function pushPayload(
  update: Update,
  { commits, head, baseRef }: PushedCommits,
  about: About,
): Payload {
  const { ref, before, after, forced } = update
  const { repository, ...common } = toCommon(about)
  return {
    ref,
    before,
    after,
    created: isZero(before),
    deleted: isZero(after),
    forced,
    base_ref: baseRef ?? null,
    compare: compareUrlOf(update, head, about),
    commits: commits.map((commit) => toPayloadCommit(commit, about)),
    head_commit: head ? toPayloadCommit(head, about) : null,
    // As on GitHub, in seconds in this payload only.
    repository: {
      ...Object(repository),
      created_at: Math.floor(about.repository.createdAt / 1000),
      master_branch: about.repository.defaultBranch,
    },
    pusher: { name: about.sender },
    ...common,
  }
}

function isZero(id: string): boolean {
  return /^0+$/.test(id)
}
