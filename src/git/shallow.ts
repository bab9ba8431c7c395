import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** Whether a repository lacks parents of its commits: git then begins what it says with a list of those. */
export function isShallow(directory: string): boolean {
  return existsSync(join(directory, 'shallow'))
}
