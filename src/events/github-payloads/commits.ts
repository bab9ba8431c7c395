import type { Json } from '#base/json.ts'
import type { CommitSummary } from '#git/objects/commit-object.ts'
import { type About, urlOf } from './about.ts'

/** A commit of a push. Its `url` is an address of the API. */
export function toPayloadCommit(commit: CommitSummary, about: About): { [key: string]: Json } {
  return {
    ...toHeadCommit(commit),
    distinct: true,
    url: `${urlOf(about)}/commits/${commit.id}`,
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
