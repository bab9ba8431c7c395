import { type About, type Payload, toCommon, urlOf } from './about.ts'
import { type CommitSummary, toCommit } from './commits.ts'

/** All zeros before or after it mean that there was no such ref. */
type Update = { ref: string; before: string; after: string; forced: boolean; pushId?: string }

/** The address of a push; of one that is not on record, that of its repository. */
export function pushUrlOf({ pushId }: Pick<Update, 'pushId'>, about: About): string {
  const url = urlOf(about)
  return pushId === undefined ? url : `${url}/pushes/${pushId}`
}

type Brought = {
  /** The oldest first. */
  commits: CommitSummary[]
  /** The commit that the ref leads to. */
  head: CommitSummary | undefined
  /** The full name of a branch that a new ref was made from. */
  baseRef?: string | undefined
}

/** Of a change of one ref. */
export function pushPayload(
  update: Update,
  { commits, head, baseRef }: Brought,
  about: About,
): Payload {
  const { ref, before, after, forced } = update
  const url = pushUrlOf(update, about)
  const { repository, ...common } = toCommon(about)
  return {
    ref,
    before,
    after,
    created: isZero(before),
    deleted: isZero(after),
    forced,
    base_ref: baseRef ?? null,
    compare: url,
    commits: commits.map((commit) => toCommit(commit, url)),
    head_commit: head ? toCommit(head, url) : null,
    // Of all payloads, this one has the time in seconds.
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
