import { hashMatching } from '../sandbox/hash-matching-files.ts'
import type { Workspace } from '../sandbox/sandbox.ts'
import type { Scope } from '../workflow-parser/scope.ts'
import { createGlob } from './glob.ts'

// Hashing is synchronous: it blocks the runner's event loop, and so its other runs.
const maxEntries = 200_000
const maxBytes = 128 * 1024 ** 2
// Character comparisons, bounded by the lengths of patterns and paths.
const maxComparisons = 1_000_000_000

/**
 * Creates hashFiles() for a workspace. All calls share one budget, so create another one after each step, not for each
 * expression.
 */
export function createHashFiles(workspace: Workspace): Scope['hashFiles'] {
  const left = { entries: maxEntries, bytes: maxBytes }
  let comparisonsLeft = maxComparisons
  return (patterns) => {
    const matches = createGlob(patterns, workspace.inside.workspace)
    const length = patterns.join().length
    const matchesWithin = (path: string) => {
      comparisonsLeft -= length * path.length
      if (comparisonsLeft < 0) throw new Error('there are too many patterns and files.')
      return matches(path)
    }
    return hashMatching(workspace.outside.workspace, matchesWithin, left)
  }
}
