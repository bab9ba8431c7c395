import { chunksOf } from '#base/chunks.ts'
import { isObjectId } from '#base/object-id.ts'
import { gitCommands } from '../process/commands.ts'
import type { Git } from '../process/git-process.ts'

/** A new commit: the object by whose name it was found, and the files that differ from all of its parents. */
export type NewCommit = { id: string; source: string; files: NewFile[] }

type NewFile = {
  path: string
  /** The id of its content; zeros when the commit deletes it. */
  after: string
  /** The ids of what it had in the parents. */
  before: string[]
}

const outputMaxBytes = 64 * 1024 * 1024
const timeoutMs = 60_000

/**
 * Lists the commits that are reachable from some ids and from no ref, each after its descendants, with the files that they change.
 * Only commits with a wanted content have their files. It stops early after a time and at a size; then, and when an object is missing, the list is incomplete.
 */
export async function listNewFiles(
  git: Git,
  directory: string,
  ids: readonly string[],
  wanted: ReadonlySet<string>,
): Promise<NewCommit[]> {
  const signal = AbortSignal.timeout(timeoutMs)
  const parser = createNewFilesParser(wanted)
  await using child = await git.start(gitCommands.logNewFiles(directory))
  child.stdin.end(ids.map((id) => `${id}\n`).join(''))
  let bytes = 0
  try {
    for await (const chunk of chunksOf(child.stdout, signal)) {
      bytes += chunk.length
      if (bytes > outputMaxBytes) break
      parser.push(chunk)
    }
  } catch (error) {
    if (error !== signal.reason) throw error
  }
  return parser.end()
}

/** Parses the output of `logNewFiles`: a line for each commit, and a line and a path for each file, all ended by NULs. */
export function createNewFilesParser(wanted: ReadonlySet<string>) {
  const commits: NewCommit[] = []
  let rest = ''
  let ids: string[] | undefined

  function take(field: string): void {
    const commit = commits.at(-1)
    if (ids !== undefined && commit) {
      const after = ids.at(-1) ?? ''
      commit.files.push({ path: toPath(field), after, before: ids.slice(0, -1) })
      ids = undefined
      return
    }
    const line = field.replace(/^\n/, '')
    const [word = '', ...words] = line.split(' ')
    if (word === 'commit') {
      forgetFiles()
      commits.push({ id: words[0] ?? '', source: words[1] ?? '', files: [] })
    } else if (word.startsWith(':')) ids = words.filter(isObjectId)
  }

  /** Forgets the files of the last commit unless a wanted content is among them. */
  function forgetFiles(): void {
    const last = commits.at(-1)
    if (last && !last.files.some(({ after }) => wanted.has(after))) last.files = []
  }

  return {
    push(chunk: Buffer): void {
      const fields = (rest + chunk.toString('latin1')).split('\0')
      rest = fields.pop() ?? ''
      for (const field of fields) take(field)
    },
    end(): NewCommit[] {
      forgetFiles()
      return commits
    },
  }
}

function toPath(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString('utf8')
}
