import { headOfCommit } from '#git/objects/commit-object.ts'
import type { ObjectReader } from '#git/objects/object-reader.ts'

// Reading one takes 0.1 to 0.2 ms. Git processes look further in some 5 ms.
const maxCommits = 32
const commitMaxBytes = 64 * 1024

/**
 * Whether a commit is some commit, or among its nearest ancestors. False also when more would have to be read, or when
 * something cannot be read.
 */
export async function isNearby(
  reader: Pick<ObjectReader, 'read'>,
  from: string,
  wanted: string,
): Promise<boolean> {
  const seen = new Set([from])
  for (let generation = [from]; generation.length > 0; ) {
    if (seen.has(wanted)) return true
    if (seen.size > maxCommits) return false
    const read = await Promise.all(generation.map((id) => parentsOf(reader, id)))
    generation = []
    for (const parent of read.flat()) {
      if (seen.has(parent)) continue
      seen.add(parent)
      generation.push(parent)
    }
  }
  return false
}

async function parentsOf(reader: Pick<ObjectReader, 'read'>, id: string): Promise<string[]> {
  const commit = await reader.read(id, commitMaxBytes).catch(() => undefined)
  if (commit?.type !== 'commit') return []
  return headOfCommit(commit.content).parents
}
