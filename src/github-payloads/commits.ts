import type { Json } from '../base/json.ts'
import type { CommitSummary } from '../git/objects/commit-summary.ts'

/** A commit of a push. There is no page for a commit, so `url` is that of the push. */
export function toCommit(commit: CommitSummary, pushUrl: string): { [key: string]: Json } {
  return {
    ...toHeadCommit(commit),
    distinct: true,
    url: `${pushUrl}#${commit.id}`,
    ...commit.files,
  }
}

/** The `head_commit` of a run. */
export function toHeadCommit(commit: CommitSummary): { [key: string]: Json } {
  const { id, treeId, message, author, committer } = commit
  return {
    id,
    tree_id: treeId,
    message,
    timestamp: committer.at,
    author: { name: author.name, email: author.email },
    committer: { name: committer.name, email: committer.email },
  }
}
