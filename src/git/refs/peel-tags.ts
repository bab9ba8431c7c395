import { gitCommands } from '../process/commands.ts'
import type { Git } from '../process/git-process.ts'

/** What tags stand for, by the ids of their objects; empty for what is no tag. */
export type Peeled = ReadonlyMap<string, string>

const keptAtMost = 50_000

/** Finds out what tags stand for, and remembers it: an object's id says all of it. */
export function createPeeler(git: Pick<Git, 'run'>) {
  const known = new Map<string, string>()
  const asked = new Map<string, Promise<Peeled | undefined>>()

  async function ask(directory: string, ids: string[]): Promise<Peeled | undefined> {
    const input = ids.map((id) => `info ${id}\ninfo ${id}^{}\n`).join('')
    const output = await git.run(gitCommands.readObjects(directory), { input })
    const lines = output.split('\n').map((line) => line.split(' '))
    const found = new Map<string, string>()
    for (const [index, id] of ids.entries()) {
      const [object, end] = [lines[2 * index], lines[2 * index + 1]]
      // Git says `missing` of an object that is not there.
      if (object?.[0] !== id || object.length !== 3 || end?.length !== 3) return undefined
      found.set(id, object[1] === 'tag' ? (end[0] ?? '') : '')
    }
    return found
  }

  return {
    /** What objects stand for; undefined when the repository lacks one of them. */
    async peel(directory: string, ids: string[]): Promise<Peeled | undefined> {
      const missing = [...new Set(ids)].filter((id) => !known.has(id))
      const peeled = new Map(ids.map((id) => [id, known.get(id) ?? '']))
      if (missing.length === 0) return peeled
      const key = `${directory} ${missing}`
      const answer = asked.get(key) ?? ask(directory, missing)
      asked.set(key, answer)
      const found = await answer.finally(() => asked.delete(key))
      if (!found) return undefined
      if (known.size + found.size > keptAtMost) known.clear()
      for (const [id, value] of found) {
        known.set(id, value)
        peeled.set(id, value)
      }
      return peeled
    },
  }
}

/** For those who do not ask. */
export const noTags: Peeled = new Map()
