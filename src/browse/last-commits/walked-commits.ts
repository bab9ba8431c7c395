import { chunksOf } from '#base/chunks.ts'
import { gitCommands } from '#git/process/commands.ts'
import { type Git, GitError } from '#git/process/git-process.ts'
import type { RawPath } from '../api-path.ts'
import type { WalkedCommit } from './last-commit-walk.ts'

type Walked = WalkedCommit & { tree: string }

type Options = { directory: string; from: Iterable<string>; path: RawPath; signal: AbortSignal }

/**
 * Walks history from some commits, each commit after those that reach it. Commits that do not change the path are left out
 * where that is possible. Throws the signal's reason, and GitErrors.
 */
export async function* walkCommits(
  git: Git,
  { directory, from, path, signal }: Options,
): AsyncGenerator<Walked, void, undefined> {
  const name = toPathspec(path)
  const command =
    name === undefined
      ? gitCommands.walkTrees(directory)
      : gitCommands.walkTreesOfPath(directory, name)
  await using child = await git.start(command)
  child.stdin.end([...from].map((id) => `${id}\n`).join(''))
  let rest = ''
  for await (const chunk of chunksOf(child.stdout, signal)) {
    const lines = (rest + chunk.toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    // Two lines a commit: `commit <id> <parent>…`, and the id of its tree.
    if (lines.length % 2 === 1) rest = `${lines.pop()}\n${rest}`
    for (let at = 0; at < lines.length; at += 2) {
      const [, id = '', ...parents] = lines[at]?.split(' ') ?? []
      yield { id, parents, tree: lines[at + 1] ?? '' }
    }
  }
  const ended = await child.ended
  if (ended.exitCode !== 0) throw ended.exceeded ?? new GitError('rev-list', ended)
}

/** The path as text: undefined for the root, and for bytes that are not UTF-8. */
function toPathspec(path: RawPath): string | undefined {
  if (path === '') return undefined
  const bytes = Buffer.from(path, 'latin1')
  const text = bytes.toString('utf8')
  return Buffer.from(text, 'utf8').equals(bytes) ? text : undefined
}

/** Reads ahead: `prepare` is called with each item, up to `count` items before it is yielded. */
export async function* prepareAhead<T>(
  items: AsyncIterable<T>,
  count: number,
  prepare: (item: T) => void,
): AsyncGenerator<T, void, undefined> {
  const ahead: T[] = []
  for await (const item of items) {
    prepare(item)
    ahead.push(item)
    const next = ahead.length > count ? ahead.shift() : undefined
    if (next !== undefined) yield next
  }
  yield* ahead
}
