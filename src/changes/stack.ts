import type { ChangeRow, Db } from '#database/schema.ts'
import { gitCommands } from '#git/process/commands.ts'
import type { Git } from '#git/process/git-process.ts'
import { zeroId } from '#git/refs/ref-name.ts'
import { readRefs } from '#git/refs/refs.ts'
import type { LandedChange } from '#git-server/push/proposal.ts'
import type { Repository } from '#repositories/repositories.ts'
import { listOpenFor } from './change-store.ts'

type Dependencies = { db: Db; git: Git }

/** Open changes for the same branch that have the commits of one below, or above it; by their numbers. */
type Stack = { below: ChangeRow[]; above: ChangeRow[] }

const graphMaxBytes = 16 * 1024 * 1024

/** How open changes build on each other. */
export function createStacks({ db, git }: Dependencies) {
  /** The open changes for a branch, and the parents of each commit that they have and the branch has not. */
  async function read({ id, path }: Pick<Repository, 'id' | 'path'>, target: string) {
    const open = await listOpenFor(db, { repositoryId: id, target })
    const tip = (await readRefs(path, [target])).get(target) ?? zeroId
    if (open.length < 2 || tip === zeroId) return { open, parents: new Map<string, string[]>() }
    const input = [`^${tip}`, ...new Set(open.map(({ commitId }) => commitId)), ''].join('\n')
    const output = await git.runUpTo(graphMaxBytes, gitCommands.listParents(path), { input })
    const lines = output?.toString('latin1').split('\n') ?? []
    return { open, parents: new Map(lines.map((line) => toParents(line.split(' ')))) }
  }

  return {
    /** The changes that an open change is built on, and those that are built on it. */
    async stackOf(repository: Pick<Repository, 'id' | 'path'>, change: ChangeRow): Promise<Stack> {
      const { open, parents } = await read(repository, change.target)
      const others = open.filter(({ commitId }) => commitId !== change.commitId)
      const own = historyOf(change.commitId, parents)
      return {
        below: others.filter(({ commitId }) => own.has(commitId)),
        above: others.filter(({ commitId }) => historyOf(commitId, parents).has(change.commitId)),
      }
    },

    /** Adds to the changes that are about to land those that they are built on, which land with them. */
    async withBelow(
      repository: Pick<Repository, 'id' | 'path'>,
      changes: readonly (LandedChange & Pick<ChangeRow, 'commitId' | 'target'>)[],
    ): Promise<LandedChange[]> {
      const [first] = changes
      if (!first) return []
      const { open, parents } = await read(repository, first.target)
      const landing = new Map<number, LandedChange>()
      for (const { commitId, target: _, ...landed } of changes) {
        const own = historyOf(commitId, parents)
        const isBelow = (one: ChangeRow) => one.commitId !== commitId && own.has(one.commitId)
        for (const { number, version } of open.filter(isBelow)) {
          if (landing.has(number)) continue
          const { by, commit } = landed
          const note = `It landed with change ${landed.number}, which is built on it.`
          landing.set(number, { number, version, by, commit, note, within: landed.number })
        }
        landing.set(landed.number, landed)
      }
      return [...landing.values()]
    },
  }
}

function toParents([id = '', ...parents]: string[]): [string, string[]] {
  return [id, parents]
}

/** The commits of a history, as far as their parents are known. */
function historyOf(commitId: string, parents: ReadonlyMap<string, string[]>): Set<string> {
  const seen = new Set<string>()
  const rest = [commitId]
  for (let id = rest.pop(); id !== undefined; id = rest.pop()) {
    const known = parents.get(id)
    if (!known || seen.has(id)) continue
    seen.add(id)
    rest.push(...known)
  }
  return seen
}

export type Stacks = ReturnType<typeof createStacks>
