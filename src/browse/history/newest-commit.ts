import { Problem } from '#base/problem.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'
import type { Repository } from '#repositories/repositories.ts'
import type { RawPath } from '../api-path.ts'
import type { BrowseParts } from '../browse-parts.ts'
import { treeMode } from '../trees.ts'
import { type ListedCommit, mustRead } from '../walk-by-date.ts'

type Parts = Pick<BrowseParts, 'trees' | 'commits' | 'lastCommits'>

type Place = {
  repository: Pick<Repository, 'id' | 'path'>
  objects: ObjectReader
  /** The commit whose history it is. */
  tip: string
  path: RawPath
}

/**
 * Finds the newest commit of a path, and whether there are older ones, without starting git; undefined where git is needed,
 * or faster. The page of each file and folder shows it.
 */
export async function findNewest(
  { trees, commits, lastCommits }: Parts,
  { repository, objects, tip, path }: Place,
): Promise<{ commit: ListedCommit; hasOlder: boolean } | undefined> {
  const slash = path.lastIndexOf('/')
  const [above, name] = [path.slice(0, Math.max(0, slash)), path.slice(slash + 1)]

  async function entryIn(commit: string, wanted: RawPath) {
    const { tree } = (await mustRead(objects, commits, commit)).commit
    return trees.find(objects, tree, wanted)
  }

  try {
    const folder = await entryIn(tip, above)
    if (folder.mode !== treeMode) return undefined
    await trees.find(objects, folder.id, name)
    const at = { repository, objects, commit: tip, path: above, tree: folder.id }
    const id = await lastCommits.ofEntry(at, name)
    if (id === undefined) return undefined
    const commit = await mustRead(objects, commits, id)
    const { parents } = commit.commit
    for (const parent of parents) {
      const isThere = await entryIn(parent, path).then(() => true, isAbsent)
      if (isThere) return { commit, hasOlder: true }
    }
    // Where it was added, only git finds out whether it was there at another time before.
    return parents.length === 0 ? { commit, hasOlder: false } : undefined
  } catch (error) {
    // What is missing, damaged or too large, git may still list.
    if (error instanceof Problem) return undefined
    throw error
  }
}

function isAbsent(error: unknown): false {
  if (error instanceof Problem && error.code === 'path_not_found') return false
  throw error
}
