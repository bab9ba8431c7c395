import { hashMatching } from '../sandbox/hash-matching-files.ts'
import type { Workspace } from '../sandbox/sandbox.ts'
import type { Scope } from '../workflow-parser/scope.ts'
import { createGlob } from './glob.ts'

// As much as the runner may look at while all else waits, its other runs, too.
const entriesMax = 200_000
const bytesMax = 128 * 1024 ** 2
// Of characters, which the lengths of patterns and paths bound.
const comparisonsMax = 1_000_000_000

/**
 * hashFiles() of expressions, over the workspace of a room. All its calls have one allowance: make another one
 * after each step that has run, not for each expression.
 */
export function createHashFiles(room: Workspace): Scope['hashFiles'] {
  const left = { entries: entriesMax, bytes: bytesMax }
  let comparisonsLeft = comparisonsMax
  return (patterns) => {
    const matches = createGlob(patterns, room.inside.workspace)
    const length = patterns.join().length
    const matchesWithin = (path: string) => {
      comparisonsLeft -= length * path.length
      if (comparisonsLeft < 0) throw new Error('there are too many patterns for so many files.')
      return matches(path)
    }
    return hashMatching(room.outside.workspace, matchesWithin, left)
  }
}
