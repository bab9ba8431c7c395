import { LRUCache } from 'lru-cache'
import { createSingleFlight } from '#base/concurrency/single-flight.ts'
import { gitCommands } from '../process/commands.ts'
import type { Git } from '../process/git-process.ts'
import type { Peeled } from './ref-snapshot.ts'

const maxCached = 50_000

/** Peels tags, and caches the results, which never change: objects are immutable. */
export function createPeeler(git: Pick<Git, 'run'>) {
  // By size, because `max` would allocate all at once.
  const known = new LRUCache<string, string>({ maxSize: maxCached, sizeCalculation: () => 1 })
  const share = createSingleFlight<Peeled | undefined>()

  async function readPeeled(directory: string, ids: string[]): Promise<Peeled | undefined> {
    const input = ids.map((id) => `info ${id}\ninfo ${id}^{}\n`).join('')
    const output = await git.run(gitCommands.readObjects(directory), { input })
    const lines = output.split('\n').map((line) => line.split(' '))
    const found = new Map<string, string>()
    for (const [index, id] of ids.entries()) {
      const [object, end] = [lines[2 * index], lines[2 * index + 1]]
      // Git prints `<id> missing` for a missing object.
      if (object?.[0] !== id || object.length !== 3 || end?.length !== 3) return undefined
      found.set(id, object[1] === 'tag' ? (end[0] ?? '') : '')
    }
    return found
  }

  return {
    /** Peels objects; undefined when the repository lacks one of them. */
    async peel(directory: string, ids: string[]): Promise<Peeled | undefined> {
      const peeled = new Map<string, string>()
      const missing = new Set<string>()
      for (const id of ids) {
        const value = known.get(id)
        if (value === undefined) missing.add(id)
        else peeled.set(id, value)
      }
      if (missing.size === 0) return peeled
      const unknown = [...missing]
      const found = await share(`${directory} ${unknown}`, () => readPeeled(directory, unknown))
      if (!found) return undefined
      for (const [id, value] of found) {
        known.set(id, value)
        peeled.set(id, value)
      }
      return peeled
    },
  }
}
