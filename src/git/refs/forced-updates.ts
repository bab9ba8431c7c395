import { setImmediate } from 'node:timers/promises'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { findObjects } from '../objects/object-stream.ts'
import { gitCommands } from '../process/commands.ts'
import { type Git, GitError } from '../process/git-process.ts'
import { zeroId } from './ref-name.ts'
import type { PushedUpdate, RefUpdate } from './refs.ts'

type Pair = Pick<RefUpdate, 'before' | 'after'>

/** Whether `before` is an ancestor of `after`, for the pairs compared so far, by `keyOf`. */
type AncestryByPair = Map<string, boolean>

const fewPairs = 4
const maxProcesses = 4
const maxSteps = 20_000_000
const stepsPerTick = 1_000_000

/**
 * Finds out which updates were forced, that is not fast-forwards. Replacing anything but a commit, such as an annotated
 * tag, counts as forced, and so does an update whose objects are missing or cannot be compared.
 */
export async function findForced(
  git: Git,
  directory: string,
  updates: RefUpdate[],
): Promise<PushedUpdate[]> {
  const replacing = updates.filter(({ before, after }) => before !== zeroId && after !== zeroId)
  const pairs = [...new Map(replacing.map((update) => [keyOf(update), update])).values()]
  const ancestry: AncestryByPair =
    pairs.length > fewPairs
      ? await compareTogether(git, directory, pairs)
      : await findReplacedTags(git, directory, pairs)
  const rest = pairs.filter((pair) => !ancestry.has(keyOf(pair)))
  await forEachConcurrently(maxProcesses, rest, async (pair) => {
    ancestry.set(keyOf(pair), await isAncestor(git, directory, pair))
  })
  return updates.map((update) => ({ ...update, forced: ancestry.get(keyOf(update)) === false }))
}

/** Finds replaced objects that are not commits. Branches always point to commits, so they are skipped. */
async function findReplacedTags(
  git: Git,
  directory: string,
  updates: RefUpdate[],
): Promise<AncestryByPair> {
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
 * Compares many pairs with two processes, among the newest commits. Git lists each commit after its descendants, so all
 * descendants of a listed commit are listed before it.
 */
async function compareTogether(
  git: Git,
  directory: string,
  pairs: Pair[],
): Promise<AncestryByPair> {
  const ids = [...new Set(pairs.flatMap(({ before, after }) => [before, after]))]
  // Annotated tags are peeled to commits: moving a ref forward to a tag is a fast-forward.
  const commits = await findObjects(git, directory, ids.map(toCommit))
  const graph = await readGraph(git, directory, [...new Set(commits.values())])
  const ancestry: AncestryByPair = new Map()
  let pause = stepsPerTick
  for (const pair of pairs) {
    const before = commits.get(toCommit(pair.before))
    const after = commits.get(toCommit(pair.after))
    if (before !== pair.before || after === undefined) ancestry.set(keyOf(pair), false)
    else {
      const isReached = graph.reaches(after, before)
      if (isReached !== undefined) ancestry.set(keyOf(pair), isReached)
    }
    if (graph.steps() < pause) continue
    // Yields to other requests.
    pause += stepsPerTick
    await setImmediate()
  }
  return ancestry
}

/** Reads the graph of the newest commits below some tips; empty when git cannot walk their history. */
async function readGraph(git: Git, directory: string, tips: string[]) {
  const input = tips.map((id) => `${id}\n`).join('')
  const output = await git.run(gitCommands.listParents(directory), { input }).catch((error) => {
    if (error instanceof GitError && error.code === undefined) return ''
    throw error
  })
  const lines = output.split('\n').filter((line) => line !== '')
  const positions = new Map(lines.map((line, index) => [line.split(' ', 1)[0], index]))
  const parents = lines.map((line) =>
    line
      .split(' ')
      .slice(1)
      .map((id) => positions.get(id) ?? lines.length),
  )
  const seen = new Uint32Array(lines.length)
  let walks = 0
  let steps = 0

  return {
    steps: () => steps,

    /** Whether a commit has another one in its history; undefined when the graph is too small or the walk too long. */
    reaches(from: string, to: string): boolean | undefined {
      const [start, target] = [positions.get(from), positions.get(to)]
      if (start === undefined || target === undefined || steps > maxSteps) return undefined
      walks += 1
      const waiting = [start]
      for (let position = waiting.pop(); position !== undefined; position = waiting.pop()) {
        if (position === target) return true
        if (position > target || seen[position] === walks) continue
        seen[position] = walks
        steps += 1
        waiting.push(...(parents[position] ?? []))
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
