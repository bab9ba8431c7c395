/** A commit; times are in ISO 8601. */
export type CommitSummary = {
  id: string
  treeId: string
  message: string
  author: Person
  committer: Person
  /** The paths that it changed, as far as they are known. */
  files?: ChangedFiles
  /** Whether its texts and files were read without omissions. */
  isComplete?: boolean
}

export type ChangedFiles = { added: string[]; removed: string[]; modified: string[] }

type Person = { name: string; email: string; at: string }

/** Formats the time of a commit, in seconds. An invalid one becomes the epoch. */
export function toTime(seconds: string): string {
  const at = new Date(Number(seconds) * 1000)
  return (Number.isNaN(at.getTime()) ? new Date(0) : at).toISOString()
}
