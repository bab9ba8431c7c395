import { chunksOf } from '../process/chunks.ts'
import { gitCommands } from '../process/commands.ts'
import { type Git, GitError } from '../process/git-process.ts'
import { createLogFields, type LoggedCommit } from './log-fields.ts'

/** What a push brought to a ref. */
export type PushedCommits = {
  /** The oldest first, each after its parents; at most 2,048, the newest ones. */
  commits: LoggedCommit[]
  /** The commit that the ref leads to; undefined when it is gone, or when the ref leads to something else. */
  head: LoggedCommit | undefined
  /** Branches that lead to that commit; told of new refs alone. */
  branches: string[]
  /** Whether nothing was left out. */
  isWhole: boolean
}

type Ends = {
  /** All zeros when the ref is new. */
  before: string
  after: string
  /** What a new ref does not bring: the tip of the default branch; undefined when there is none. */
  known: string | undefined
}

/** The newest first. `cut`: there was enough, or no more time. `failed`: something is missing or damaged. */
type Log = { commits: LoggedCommit[]; length: number; end: 'whole' | 'cut' | 'failed' }

const commitsAtMost = 2048
// Nobody is told more than a body can hold.
const keptMaxLength = 1024 * 1024
// What git writes beyond this is not read: a commit may have very many files.
const outputMaxBytes = 8 * 1024 * 1024
const readMostMs = 7000
// A small tree can list itself many times over, and git collects all that a commit changes before it tells.
const limits = { memoryMaxBytes: 512 * 1024 * 1024, fileMaxBytes: 2 ** 40 }
const passing = /Too many open files|Resource temporarily unavailable|No space left/

/**
 * Reads which commits a push brought to a ref, by one short git for a ref that went on, and two for a new one. Throws
 * only what passes by itself; what is damaged or gone is left out.
 */
export async function readPushedCommits(
  git: Git,
  directory: string,
  { before, after, known }: Ends,
): Promise<PushedCommits> {
  if (!/^0+$/.test(before)) {
    const { commits, isWhole } = await readRange(git, directory, [after, `^${before}`])
    const [newest] = commits
    const tip = newest ? { head: newest, isWhole } : await readTip(git, directory, after)
    const told = { commits: parentsFirst(commits), head: tip.head, branches: [] }
    return { ...told, isWhole: isWhole && tip.isWhole }
  }
  const tip = await readTip(git, directory, after)
  const { head } = tip
  if (!head) return { commits: [], head, branches: [], isWhole: tip.isWhole }
  const { branches } = head
  if (head.id === known) return { commits: [], head, branches, isWhole: head.isWhole }
  const ends = known === undefined ? [after] : [after, `^${known}`]
  const { commits, isWhole } = await readRange(git, directory, ends)
  return { commits: parentsFirst(commits), head, branches, isWhole: isWhole && tip.isWhole }
}

/** The commit that an object is or leads to; undefined when there is none. */
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
  if (head) return { head, isWhole: head.isWhole && end === 'whole' }
  // Its files may be what git cannot tell.
  return {
    head: end === 'whole' ? head : await readHead(git, directory, after),
    isWhole: end === 'whole',
  }
}

async function readRange(git: Git, directory: string, ends: string[]) {
  // One more than is told shows whether there are more.
  const most = commitsAtMost + 1
  const first = await readLog(
    git,
    gitCommands.logWithFiles(directory, String(most), ...ends),
    keptMaxLength,
  )
  const { commits } = first
  if (first.end !== 'whole' && commits.length < most) {
    const [wanted, skipped] = [String(most - commits.length), String(commits.length)]
    const command = gitCommands.logAlone(directory, wanted, skipped, ...ends)
    commits.push(...(await readLog(git, command, keptMaxLength - first.length)).commits)
  }
  const isWhole =
    first.end === 'whole' && commits.length < most && commits.every((commit) => commit.isWhole)
  return { commits: commits.slice(0, commitsAtMost), isWhole }
}

async function readLog(git: Git, command: readonly string[], maxLength: number): Promise<Log> {
  const fields = createLogFields()
  await using child = await git.start(command, { limits })
  child.stdin.end()
  const signal = AbortSignal.timeout(readMostMs)
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
  if (ended.exitCode === null || passing.test(ended.complaint)) throw new GitError('log', ended)
  return toLog(fields, 'failed')
}

function toLog(fields: ReturnType<typeof createLogFields>, end: Log['end']): Log {
  const { commits } = fields
  const last = commits.at(-1)
  if (end !== 'whole' && last) last.isWhole = false
  return { commits, length: fields.length(), end }
}

// Git goes by the times that commits claim, in which a parent may be the younger one.
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
