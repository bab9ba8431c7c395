import { chunksOf } from '#base/chunks.ts'
import { gitCommands } from '../process/commands.ts'
import { type Git, GitError } from '../process/git-process.ts'
import { type ChangedFiles, type CommitSummary, toTime } from './commit-object.ts'

/** The commits that a push added to a ref. */
export type PushedCommits = {
  /** Parents first; the newest 2,048 at most. */
  commits: LoggedCommit[]
  /** The commit that the ref points to; undefined when it is gone, or the ref points to another type of object. */
  head: LoggedCommit | undefined
  /** Branches that point to that commit; for new refs only. */
  branches: string[]
  /** Whether the lists are complete. */
  isComplete: boolean
}

type Ends = {
  /** All zeros when the ref is new. */
  before: string
  after: string
  /** The tip of the default branch, whose history a new ref does not add; undefined when there is none. */
  known: string | undefined
}

/** Newest first. `cut`: a limit or the timeout was reached. `failed`: objects are missing or damaged. */
type Log = { commits: LoggedCommit[]; length: number; end: 'whole' | 'cut' | 'failed' }

const maxCommits = 2048
// The size limit of a webhook's body.
const keptMaxLength = 1024 * 1024
// A commit may have millions of files.
const outputMaxBytes = 8 * 1024 * 1024
const readTimeoutMs = 7000
// A small tree object can contain itself many times over, and git collects all changes of a commit before it prints any.
const limits = { memoryMaxBytes: 512 * 1024 * 1024, fileMaxBytes: 2 ** 40 }
const temporaryErrors = /Too many open files|Resource temporarily unavailable|No space left/

/**
 * Reads which commits a push added to a ref, with one short git process for an existing ref, and two for a new one.
 * Throws only for temporary errors; missing or damaged objects are omitted.
 */
export async function readPushedCommits(
  git: Git,
  directory: string,
  { before, after, known }: Ends,
): Promise<PushedCommits> {
  if (!/^0+$/.test(before)) {
    const { commits, isComplete } = await readRange(git, directory, [after, `^${before}`])
    const [newest] = commits
    const tip = newest ? { head: newest, isComplete } : await readTip(git, directory, after)
    const pushed = { commits: parentsFirst(commits), head: tip.head, branches: [] }
    return { ...pushed, isComplete: isComplete && tip.isComplete }
  }
  const tip = await readTip(git, directory, after)
  const { head } = tip
  if (!head) return { commits: [], head, branches: [], isComplete: tip.isComplete }
  const { branches } = head
  if (head.id === known) return { commits: [], head, branches, isComplete: head.isComplete }
  const ends = known === undefined ? [after] : [after, `^${known}`]
  const { commits, isComplete } = await readRange(git, directory, ends)
  return {
    commits: parentsFirst(commits),
    head,
    branches,
    isComplete: isComplete && tip.isComplete,
  }
}

/** Reads the commit that an object is or peels to; undefined when there is none. */
export async function readHead(
  git: Git,
  directory: string,
  id: string,
): Promise<LoggedCommit | undefined> {
  return (await readLog(git, gitCommands.logAlone(directory, '1', '0', id), 1)).commits[0]
}

async function readTip(git: Git, directory: string, after: string) {
  const { commits, end } = await readLog(git, gitCommands.logTip(directory, after), keptMaxLength)
  const [head] = commits
  if (head) return { head, isComplete: head.isComplete && end === 'whole' }
  // Git may have failed on the commit's files only.
  return {
    head: end === 'whole' ? head : await readHead(git, directory, after),
    isComplete: end === 'whole',
  }
}

async function readRange(git: Git, directory: string, ends: string[]) {
  // One more than the limit shows whether there are more.
  const maxCount = maxCommits + 1
  const first = await readLog(
    git,
    gitCommands.logWithFiles(directory, String(maxCount), ...ends),
    keptMaxLength,
  )
  const { commits } = first
  if (first.end !== 'whole' && commits.length < maxCount) {
    const [wanted, skipped] = [String(maxCount - commits.length), String(commits.length)]
    const command = gitCommands.logAlone(directory, wanted, skipped, ...ends)
    commits.push(...(await readLog(git, command, keptMaxLength - first.length)).commits)
  }
  const isComplete =
    first.end === 'whole' &&
    commits.length < maxCount &&
    commits.every((commit) => commit.isComplete)
  return { commits: commits.slice(0, maxCommits), isComplete }
}

async function readLog(git: Git, command: readonly string[], maxLength: number): Promise<Log> {
  const fields = createLogFields()
  await using child = await git.start(command, { limits })
  child.stdin.end()
  const signal = AbortSignal.timeout(readTimeoutMs)
  let received = 0
  try {
    for await (const chunk of chunksOf(child.stdout, signal)) {
      fields.push(chunk)
      received += chunk.length
      if (received > outputMaxBytes || fields.length() > maxLength) return toLog(fields, 'cut')
    }
  } catch (error) {
    if (error !== signal.reason) throw error
    return toLog(fields, 'cut')
  }
  const ended = await child.ended
  if (ended.exitCode === 0) return toLog(fields, 'whole')
  if (ended.exitCode === null || temporaryErrors.test(ended.errorOutput))
    throw new GitError('log', ended)
  return toLog(fields, 'failed')
}

function toLog(fields: ReturnType<typeof createLogFields>, end: Log['end']): Log {
  const { commits } = fields
  const last = commits.at(-1)
  if (end !== 'whole' && last) last.isComplete = false
  return { commits, length: fields.length(), end }
}

// Git sorts by the commits' dates, and a parent's date may be later than its child's.
function parentsFirst(commits: LoggedCommit[]): LoggedCommit[] {
  const waiting = new Map(commits.map((commit) => [commit.id, commit]))
  const sorted: LoggedCommit[] = []
  const stack = commits.slice()
  for (let commit = stack.pop(); commit; commit = stack.pop()) {
    if (!waiting.has(commit.id)) continue
    const parents = commit.parents.flatMap((id) => waiting.get(id) ?? [])
    if (parents.length > 0) stack.push(commit, ...parents)
    else {
      waiting.delete(commit.id)
      sorted.push(commit)
    }
  }
  return sorted
}

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
