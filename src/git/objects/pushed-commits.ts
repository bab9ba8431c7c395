import { chunksOf } from '#base/chunks.ts'
import { gitCommands } from '../process/commands.ts'
import { type Git, GitError } from '../process/git-process.ts'
import { createLogFields, type LoggedCommit } from './log-fields.ts'

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
