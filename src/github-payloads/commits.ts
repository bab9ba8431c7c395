import type { Json } from '../workflow-parser/scope.ts'

/** What is told of a commit; times are in ISO 8601. */
export type CommitSummary = {
  id: string
  treeId: string
  message: string
  author: Person
  committer: Person
  /** Paths that it changed, as far as they are known. */
  files?: ChangedFiles
  /** Whether nothing of its texts and files was left out as it was read. */
  isWhole?: boolean
}

export type ChangedFiles = { added: string[]; removed: string[]; modified: string[] }

type Person = { name: string; email: string; at: string }

/** The time of a commit, which git has in seconds, as far as it has any. */
export function toTime(seconds: string): string {
  const at = new Date(Number(seconds) * 1000)
  return (Number.isNaN(at.getTime()) ? new Date(0) : at).toISOString()
}

/** A commit of a push; a commit has no address of its own, so `url` is that of the push. */
export function toCommit(commit: CommitSummary, pushUrl: string): { [key: string]: Json } {
  return {
    ...toHeadCommit(commit),
    distinct: true,
    url: `${pushUrl}#${commit.id}`,
    ...commit.files,
  }
}

/** A commit as it is told of a run. */
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
