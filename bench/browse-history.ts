import { createRandom, line, toData } from './generators.ts'
import { keptHistory } from './kept-history.ts'
import type { Workspace } from './workspace.ts'

/** A history as large as git's own with as many tags, or a small one with the same shape. */
const historySizes = {
  large: { commits: 60_000, files: 4000, longLines: 5000, longCommits: 1500 },
  small: { commits: 3000, files: 4000, longLines: 2000, longCommits: 200 },
}

export type HistorySize = keyof typeof historySizes

/** A repository on which pages of repositories are measured; its paths are those of `pathsOf`. */
export type BrowsedHistory = {
  path: string
  /** Ids of the commits of its branch without those of its merged branches, oldest first. */
  commits: string[]
}

const rootFiles = 500
const rootFolders = 60
const largeFolder = 'folder-0'
const largeFolderFiles = 289
const fileLines = 20
const topicEvery = 5
const tagEvery = 60
const startSeconds = 1_100_000_000
const stepSeconds = 3600

export const longFile = 'long.c'
export const browsedFolder = largeFolder

/** Changed with the contents, so that histories of another version are not reused. */
const version = 3

/** Makes the history with git-fast-import(1), once: it is kept in the folder of temporary files. */
export async function makeBrowsedHistory(
  { git }: Workspace,
  size: HistorySize,
): Promise<BrowsedHistory> {
  const path = await keptHistory(`browse-${size}-${version}`, {
    what: `a history of ${historySizes[size].commits} commits`,
    async make(path) {
      await git(['init', '--quiet', '--bare', '--initial-branch=main', path])
      const inIt = ['-C', path]
      await git([...inIt, 'fast-import', '--quiet', '--date-format=raw'], { input: history(size) })
      await git([...inIt, 'repack', '-adfq', '--depth=50', '--window=10'])
      await git([...inIt, 'pack-refs', '--all'])
      await git([...inIt, 'commit-graph', 'write', '--reachable', '--changed-paths'])
    },
  })
  const { output } = await git(['-C', path, 'rev-list', '--reverse', '--first-parent', 'main'])
  return { path, commits: output.split('\n') }
}

/** The path of a file: a file of the root, of the folder with many files, or of another folder. */
export function filePath(index: number): string {
  if (index < rootFiles - 1) return `file-${index}.c`
  const rest = index - (rootFiles - 1)
  if (rest < largeFolderFiles) return `${largeFolder}/page-${rest}.txt`
  return `folder-${1 + (rest % (rootFolders - 1))}/part-${rest % 7}/file-${rest}.c`
}

function* history(size: HistorySize): Generator<string> {
  const { commits, files, longLines, longCommits } = historySizes[size]
  const random = createRandom(2)
  const contents = Array.from({ length: files }, (): string[] => [])
  const long = Array.from({ length: longLines }, () => line(random))
  const longEvery = Math.floor(commits / longCommits)
  let topic: { mark: number; changes: Map<number, string> } | undefined
  let main = 0

  function edit(index: number): string {
    const lines = contents[index] ?? []
    if (lines.length === 0)
      lines.push(...Array.from({ length: fileLines + random(100) }, () => line(random)))
    lines[random(lines.length)] = line(random)
    if (random(2) === 0) lines.splice(random(lines.length), 0, line(random))
    if (lines.length > 300) lines.splice(random(lines.length), 2)
    return toChange(filePath(index), lines)
  }

  /** Most changes are made to few files, as in a real project. Topics change those with odd numbers. */
  function pick(parity: 0 | 1): number {
    const share = random(1000) / 1000
    return Math.floor((share ** 3 * files) / 2) * 2 + parity
  }

  for (let mark = 1; mark <= commits; mark++) {
    const changes: string[] = []
    const from: string[] = []
    let ref = 'refs/heads/main'
    if (mark === 1) {
      for (let index = 0; index < files; index++) changes.push(edit(index))
      changes.push(toChange(longFile, long))
    } else if (topic && (topic.changes.size > 2 || mark === commits)) {
      // A merge has the changes of both sides.
      from.push(`from :${main}`, `merge :${topic.mark}`)
      changes.push(...topic.changes.values())
      topic = undefined
    } else if (topic ? random(2) === 0 : mark % topicEvery === 0) {
      const started: NonNullable<typeof topic> = topic ?? { mark: main, changes: new Map() }
      from.push(`from :${started.mark}`)
      ref = 'refs/heads/topic'
      const index = pick(1)
      const change = edit(index)
      started.changes.set(index, change)
      changes.push(change)
      topic = { mark, changes: started.changes }
    } else {
      from.push(`from :${main}`)
      for (let change = random(3); change >= 0; change--) changes.push(edit(pick(0)))
      // Topics begin at multiples of five.
      if (mark % longEvery === 3) {
        for (let change = 0; change < 3; change++) long[random(long.length)] = line(random)
        changes.push(toChange(longFile, long))
      }
    }
    if (ref === 'refs/heads/main') main = mark
    const when = `${startSeconds + mark * stepSeconds} +0000`
    const author = `Author ${mark % 97} <author-${mark % 97}@example.com>`
    const message = `Change ${mark}: ${line(random)}\n\n${line(random)}\n${line(random)}\n`
    yield [
      `commit ${ref}`,
      `mark :${mark}`,
      `author ${author} ${when}`,
      `committer Ada <ada@example.com> ${when}`,
      `${toData(message)}${[...from, ''].join('\n')}${changes.join('')}\n`,
    ].join('\n')
  }
  for (let mark = tagEvery; mark <= commits; mark += tagEvery) {
    yield [
      `tag v${mark / tagEvery}`,
      `from :${mark}`,
      `tagger Ada <ada@example.com> ${startSeconds + mark * stepSeconds} +0000`,
      toData(`Version ${mark / tagEvery}\n`),
    ].join('\n')
  }
  yield 'reset refs/heads/topic\nfrom 0000000000000000000000000000000000000000\n\n'
}

function toChange(path: string, lines: readonly string[]): string {
  return `M 100644 inline ${path}\n${toData(`${lines.join('\n')}\n`)}`
}
