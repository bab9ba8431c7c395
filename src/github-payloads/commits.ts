import type { Json } from '../workflow-parser/scope.ts'

/** A commit as payloads show it; times are in ISO 8601. */
export type CommitSummary = {
  id: string
  treeId: string
  message: string
  author: Person
  committer: Person
  /** The paths that it changed, as far as they are known. */
  files?: ChangedFiles
  /** Whether its texts and files were read without omissions. */
  isWhole?: boolean
}

export type ChangedFiles = { added: string[]; removed: string[]; modified: string[] }

type Person = { name: string; email: string; at: string }

/** Formats the time of a commit, in seconds. An invalid one becomes the epoch. */
export function toTime(seconds: string): string {
  const at = new Date(Number(seconds) * 1000)
  return (Number.isNaN(at.getTime()) ? new Date(0) : at).toISOString()
}

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
