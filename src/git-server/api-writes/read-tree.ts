import { Problem } from '#base/problem.ts'
import { type ObjectReader, ObjectTooLargeError } from '#git/objects/object-reader.ts'

// About 400,000 entries.
const treeMaxBytes = 16 * 1024 * 1024

/** Reads a tree. Throws `git_limit_exceeded` for one that is too large. */
export async function readTree(objects: ObjectReader, id: string): Promise<Buffer> {
  const tree = await objects.read(id, treeMaxBytes).catch((error) => {
    if (!(error instanceof ObjectTooLargeError)) throw error
    const detail = `A directory on the way has more than ${treeMaxBytes} bytes of names; change it with git.`
    throw new Problem('git_limit_exceeded', detail)
  })
  if (tree?.type !== 'tree') throw new Problem('repository_damaged', `The tree ${id} is missing.`)
  return tree.content
}
