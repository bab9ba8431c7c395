import { setImmediate } from 'node:timers/promises'
import { forEachConcurrently } from '../../base/for-each-concurrently.ts'
import { gitCommands } from '../process/commands.ts'
import { type Git, GitError } from '../process/git-process.ts'
import { zeroId } from './ref-name.ts'
import type { PushedUpdate, RefUpdate } from './refs.ts'

type Pair = Pick<RefUpdate, 'before' | 'after'>

/** Which of some pairs are known to be of one line of history, by `keyOf`. */
type Verdicts = Map<string, boolean>

const fewPairs = 4
const processesAtOnce = 4
const stepsAtMost = 20_000_000
const stepsAtOnce = 1_000_000

/**
 * Tells which updates were forced. What is no commit and was replaced counts as forced, since no history leads to it:
 * an annotated tag is an object of its own. So does what cannot be compared, or is missing.
 */
export async function findForced(
  git: Git,
  directory: string,
  updates: RefUpdate[],
): Promise<PushedUpdate[]> {
  const replacing = updates.filter(({ before, after }) => before !== zeroId && after !== zeroId)
  const pairs = [...new Map(replacing.map((update) => [keyOf(update), update])).values()]
  const verdicts: Verdicts =
    pairs.length > fewPairs
      ? await compareTogether(git, directory, pairs)
      : await findReplacedTags(git, directory, pairs)
  const rest = pairs.filter((pair) => !verdicts.has(keyOf(pair)))
  await forEachConcurrently(processesAtOnce, rest, async (pair) => {
    verdicts.set(keyOf(pair), await isAncestor(git, directory, pair))
  })
  return updates.map((update) => ({ ...update, forced: verdicts.get(keyOf(update)) === false }))
}

/** Those of some objects that a repository has, by the names that they were asked for. */
export async function findObjects(
  git: Git,
  directory: string,
  names: string[],
): Promise<Map<string, string>> {
  const input = names.map((name) => `${name}\n`).join('')
  const output = await git.run(gitCommands.findObjects(directory), { input })
  const found = new Map<string, string>()
  for (const [index, line] of output.trimEnd().split('\n').entries()) {
    if (/^[0-9a-f]{40}$/.test(line)) found.set(names[index] ?? '', line)
  }
  return found
}

/** The verdicts about what was no commit. Git has branches lead to commits, so nothing is asked about those. */
async function findReplacedTags(
  git: Git,
  directory: string,
  updates: RefUpdate[],
): Promise<Verdicts> {
  const others = updates.filter(({ ref }) => !ref.startsWith('refs/heads/'))
  if (others.length === 0) return new Map()
  const names = others.map(({ before }) => toCommit(before))
  const commits = await findObjects(git, directory, names)
  const tags = others.filter(({ before }) => commits.get(toCommit(before)) !== before)
  return new Map(tags.map((update) => [keyOf(update), false]))
}

async function isAncestor(git: Git, directory: string, { before, after }: Pair): Promise<boolean> {
  await using child = await git.start(gitCommands.isAncestor(directory, before, after))
  child.stdin.end()
  child.stdout.resume()
  const ended = await child.ended
  if (ended.exitCode === null) throw new GitError('merge-base', ended)
  return ended.exitCode === 0
}

/**
 * Compares many pairs with two processes, as far as the newest commits tell. Git lists each commit after
 * all that build on it: so whatever has one that is in the list in its history is in the list before it.
 */
async function compareTogether(git: Git, directory: string, pairs: Pair[]): Promise<Verdicts> {
  const ids = [...new Set(pairs.flatMap(({ before, after }) => [before, after]))]
  // An annotated tag is followed to its commit: what has that in its history was moved on to the tag.
  const commits = await findObjects(git, directory, ids.map(toCommit))
  const graph = await readGraph(git, directory, [...new Set(commits.values())])
  const verdicts: Verdicts = new Map()
  let pause = stepsAtOnce
  for (const pair of pairs) {
    const before = commits.get(toCommit(pair.before))
    const after = commits.get(toCommit(pair.after))
    if (before !== pair.before || after === undefined) verdicts.set(keyOf(pair), false)
    else {
      const isReached = graph.reaches(after, before)
      if (isReached !== undefined) verdicts.set(keyOf(pair), isReached)
    }
    if (graph.steps() < pause) continue
    // Others are to be served meanwhile.
    pause += stepsAtOnce
    await setImmediate()
  }
  return verdicts
}

/** The newest commits of some tips; none when git cannot walk their history. */
async function readGraph(git: Git, directory: string, tips: string[]) {
  const input = tips.map((id) => `${id}\n`).join('')
  const output = await git.run(gitCommands.listParents(directory), { input }).catch((error) => {
    if (error instanceof GitError && error.code === undefined) return ''
    throw error
  })
  const lines = output.split('\n').filter((line) => line !== '')
  const places = new Map(lines.map((line, place) => [line.slice(0, zeroId.length), place]))
  const parents = lines.map((line) =>
    line
      .split(' ')
      .slice(1)
      .map((id) => places.get(id) ?? lines.length),
  )
  const seen = new Uint32Array(lines.length)
  let walks = 0
  let steps = 0

  return {
    steps: () => steps,

    /** Whether a commit has another in its history; undefined when that cannot be told. */
    reaches(from: string, to: string): boolean | undefined {
      const [start, target] = [places.get(from), places.get(to)]
      if (start === undefined || target === undefined || steps > stepsAtMost) return undefined
      walks += 1
      const waiting = [start]
      for (let place = waiting.pop(); place !== undefined; place = waiting.pop()) {
        if (place === target) return true
        if (place > target || seen[place] === walks) continue
        seen[place] = walks
        steps += 1
        waiting.push(...(parents[place] ?? []))
      }
      return false
    },
  }
}

function toCommit(id: string): string {
  return `${id}^{commit}`
}

function keyOf({ before, after }: Pair): string {
  return `${before} ${after}`
}
