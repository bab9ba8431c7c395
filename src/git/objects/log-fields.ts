import { type ChangedFiles, type CommitSummary, toTime } from './commit-summary.ts'

/** A commit as git-log(1) prints it; `branches` point to it, if they were requested. */
export type LoggedCommit = Required<CommitSummary> & {
  parents: string[]
  branches: string[]
  /** Approximate length of its texts, in characters. */
  length: number
  /** Whether its message, names and files are complete. */
  isComplete: boolean
}

// Limits for one commit: files in each list, and characters of all their names.
const maxFiles = 1000
const filesMaxLength = 128 * 1024
const messageMaxBytes = 16 * 1024
// Parents and branches may be truncated.
const idsMaxBytes = 16 * 1024
const nameMaxBytes = 1024
const pathMaxBytes = 4096
// Fixed overhead of a commit.
const commitLength = 300
const nul = 0

const fieldCount = 11
const parentsAt = 2
const branchesAt = 9
const messageAt = 10
const lists = { A: 'added', D: 'removed', M: 'modified', T: 'modified' } as const

/** Parses the output of the `log…` commands: the fields of a commit, then a letter and a path for each of its files. */
export function createLogFields() {
  const commits: LoggedCommit[] = []
  let fields: string[] = []
  let isComplete = true
  let list: keyof ChangedFiles | undefined
  let filesLength = 0
  let length = 0
  // The field being read, up to its limit, and whether it was longer.
  let pieces: Buffer[] = []
  let size = 0
  let isCut = false

  function keep(piece: Buffer): void {
    const rest = Math.max(0, maxFieldBytes() - size)
    if (piece.length > rest) isCut = true
    if (rest > 0) pieces.push(piece.subarray(0, rest))
    size += Math.min(rest, piece.length)
  }

  function maxFieldBytes(): number {
    if (list !== undefined) return pathMaxBytes
    if (fields.length === messageAt) return messageMaxBytes
    return hasIds() ? idsMaxBytes : nameMaxBytes
  }

  function hasIds(): boolean {
    return fields.length === parentsAt || fields.length === branchesAt
  }

  function endField(): void {
    const field = toText(Buffer.concat(pieces), isCut)
    const commit = fields.length === 0 ? commits.at(-1) : undefined
    // A file's letter is in the position of a commit's id; the first one follows a newline.
    const [, letter] = /^\n?([A-Z])$/.exec(field) ?? []
    if (commit && list !== undefined) {
      takeFile(commit, list, field)
      list = undefined
    } else if (commit && letter !== undefined) list = listOf(letter)
    else takeField(field)
    pieces = []
    size = 0
    isCut = false
  }

  function takeField(field: string): void {
    isComplete &&= !isCut || hasIds()
    fields.push(field)
    if (fields.length < fieldCount) return
    const commit = toCommit(fields, isComplete)
    commits.push(commit)
    length += commit.length
    fields = []
    isComplete = true
    filesLength = 0
  }

  function takeFile(commit: LoggedCommit, name: keyof ChangedFiles, path: string): void {
    const paths = commit.files[name]
    filesLength += path.length
    const fits = !isCut && filesLength <= filesMaxLength && paths.length < maxFiles
    if (!fits) commit.isComplete = false
    else {
      paths.push(path)
      commit.length += path.length
      length += path.length
    }
  }

  return {
    push(chunk: Buffer): void {
      let start = 0
      for (let end = chunk.indexOf(nul); end !== -1; end = chunk.indexOf(nul, start)) {
        keep(chunk.subarray(start, end))
        endField()
        start = end + 1
      }
      keep(chunk.subarray(start))
    },

    /** Approximate number of characters kept. */
    length: () => length,

    /** The commits so far; the last one may be incomplete. */
    commits,
  }
}

// Invalid UTF-8 becomes U+FFFD, except a partial character at the point of truncation, which is dropped.
function toText(bytes: Buffer, isCut: boolean): string {
  if (!isCut) return bytes.toString()
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: true })
}

function listOf(letter: string): keyof ChangedFiles {
  return letter in lists ? lists[letter as keyof typeof lists] : 'modified'
}

function toCommit(fields: string[], isComplete: boolean): LoggedCommit {
  const [id = '', treeId = '', parents = '', name = '', email = '', at = '', ...rest] = fields
  const [byName = '', byEmail = '', byAt = '', branches = '', message = ''] = rest
  return {
    id,
    treeId,
    parents: words(parents, ' '),
    // Ref names contain no spaces. The last one of a truncated list is incomplete.
    branches: words(branches, ', ').slice(0, branches.length < idsMaxBytes ? undefined : -1),
    message: message.trimEnd(),
    author: { name, email, at: toTime(at) },
    committer: { name: byName, email: byEmail, at: toTime(byAt) },
    files: { added: [], removed: [], modified: [] },
    length: commitLength + message.length + name.length + byName.length,
    isComplete,
  }
}

function words(text: string, between: string): string[] {
  return text === '' ? [] : text.split(between)
}
