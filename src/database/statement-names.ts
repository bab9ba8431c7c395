import { LRUCache } from 'lru-cache'

const minUses = 3
// Each connection of PostgreSQL keeps some 10 to 50 kB for a prepared statement.
const maxNames = 200
const maxCounted = 1000
const maxLength = 8192

/**
 * Names the statements that recur: PostgreSQL prepares a named one once for each connection. Statements whose text depends on
 * the number of their values stay without names, unless they recur.
 */
export function createStatementNames() {
  const names = new Map<string, string>()
  const uses = new LRUCache<string, number>({ max: maxCounted })
  let generation = 0

  return {
    /** Gives all statements other names from now on. */
    renew(): void {
      generation += 1
      names.clear()
    },

    /** Called for each execution of a statement. */
    nameOf(text: string): string | undefined {
      const known = names.get(text)
      if (known !== undefined || names.size >= maxNames || text.length > maxLength) return known
      const count = (uses.get(text) ?? 0) + 1
      if (count < minUses) {
        uses.set(text, count)
        return undefined
      }
      uses.delete(text)
      const name = `svc_${generation}_${names.size}`
      names.set(text, name)
      return name
    },
  }
}
