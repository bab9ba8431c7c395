import { LRUCache } from 'lru-cache'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import { forEachConcurrently } from '#base/for-each-concurrently.ts'
import { Problem } from '#base/problem.ts'
import { gitCommands } from '#git/process/commands.ts'
import { GitError } from '#git/process/git-process.ts'
import type { GitTasks, Requester } from '../git-tasks.ts'
import { type AheadBehind, countSides } from './count-sides.ts'

/**
 * Compares commits with a base. Returns what is known after a limited time; what has been begun goes on, so that a later
 * call knows more.
 */
export type CompareWithBase = (
  requester: Requester,
  base: string,
  ids: readonly string[],
) => Promise<ReadonlyMap<string, AheadBehind>>

type Options = {
  tasks: GitTasks
  /** How long a call waits. */
  waitMs?: number
}

const maxKnown = 50_000
const perCall = 2
/** More commits than this are compared in one walk of history. */
const fewIds = 4
const perGroup = 50

export function createAheadBehind({ tasks, waitMs = 1000 }: Options): CompareWithBase {
  // By size, because `max` would allocate all at once. `tooMany`: git took longer than its limit.
  const known = new LRUCache<string, AheadBehind | 'tooMany'>({
    maxSize: maxKnown,
    sizeCalculation: () => 1,
  })
  const share = createSingleFlight<void>()

  async function count(requester: Requester, range: string): Promise<void> {
    const { repository } = requester
    try {
      const output = await tasks.run(requester, {
        command: gitCommands.countAheadBehind(repository.path, range),
        read: readAll,
      })
      const [ahead, behind] = output.trim().split('\t').map(Number)
      if (ahead !== undefined && behind !== undefined) known.set(range, { ahead, behind })
    } catch (error) {
      // A commit may be missing, and git may be busy or take too long.
      if (!(error instanceof Problem || error instanceof GitError)) throw error
      const isTooMany = error instanceof Problem && error.code === 'git_limit_exceeded'
      if (isTooMany) known.set(range, 'tooMany')
    }
  }

  /** Compares commits by one walk of the newest part of their histories, which costs about as much as comparing one of them. */
  async function countTogether(
    requester: Requester,
    base: string,
    ids: readonly string[],
  ): Promise<void> {
    const command = gitCommands.listParents(requester.repository.path)
    const input = [base, ...ids].map((id) => `${id}\n`).join('')
    const read = (output: AsyncIterable<Buffer>) => countSides(output, base, ids)
    try {
      const counted = await tasks.run(requester, { command, input, read })
      for (const [id, counts] of counted) known.set(`${id}...${base}`, counts)
    } catch (error) {
      // They are compared one by one then: a commit may be missing, or there are too many.
      if (!(error instanceof Problem || error instanceof GitError)) throw error
    }
  }

  async function countAll(
    requester: Requester,
    base: string,
    { ids, isOver }: { ids: readonly string[]; isOver: AbortSignal },
  ): Promise<void> {
    if (ids.length > fewIds)
      await forEachConcurrently(perCall, groupsOf(ids), async (group) => {
        const key = `${group}...${base}`
        if (!isOver.aborted) await share(key, () => countTogether(requester, base, group))
      })
    const ranges = ids.map((id) => `${id}...${base}`).filter((range) => !known.has(range))
    await forEachConcurrently(perCall, ranges, async (range) => {
      if (!isOver.aborted) await share(range, () => count(requester, range))
    })
  }

  return async ({ principal, repository, signal }, base, ids) => {
    const rangeOf = (id: string) => `${id}...${base}`
    const missing = [...new Set(ids)].filter((id) => id !== base && !known.has(rangeOf(id)))
    if (missing.length > 0) {
      const isOver = AbortSignal.any([AbortSignal.timeout(waitMs), signal])
      // Not the signal of the request: what has begun is of use to the next one.
      const requester = { principal, repository, signal: new AbortController().signal }
      const counting = countAll(requester, base, { ids: missing, isOver })
      // Also when it goes on beyond this call.
      counting.catch(() => {})
      await Promise.race([counting, untilAborted(isOver)])
    }
    const found = new Map<string, AheadBehind>()
    for (const id of ids) {
      const result = id === base ? { ahead: 0, behind: 0 } : known.get(rangeOf(id))
      if (result && result !== 'tooMany') found.set(id, result)
    }
    return found
  }
}

function groupsOf(ids: readonly string[]): string[][] {
  const count = Math.ceil(ids.length / perGroup)
  return Array.from({ length: count }, (_, at) => ids.slice(at * perGroup, (at + 1) * perGroup))
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

async function readAll(output: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of output) chunks.push(chunk)
  return Buffer.concat(chunks).toString('latin1')
}
