import { LRUCache } from 'lru-cache'
import { type CommitObject, parseCommit } from '#git/objects/commit-object.ts'
import { type ObjectReader, ObjectTooLargeError } from '#git/objects/object-reader.ts'

/** Reads commits by id; undefined for what is no commit, or is damaged. */
export type CommitsById = (
  objects: Pick<ObjectReader, 'read'>,
  id: string,
) => CommitObject | Promise<CommitObject | undefined>

const maxLength = 16 * 1024 * 1024
const commitMaxBytes = 1024 * 1024
const messageMaxLength = 16 * 1024
/** Approximate memory of a parsed commit besides its texts. */
const objectBytes = 300

/** Caches parsed commits, which never change. */
export function createCommitsById(): CommitsById {
  const known = new LRUCache<string, CommitObject>({ maxSize: maxLength })

  async function read(objects: Pick<ObjectReader, 'read'>, id: string) {
    const found = await objects.read(id, commitMaxBytes).catch((error) => {
      // A commit with a message of a megabyte, or of thousands of parents, is no commit to show.
      if (error instanceof ObjectTooLargeError) return undefined
      throw error
    })
    if (found?.type !== 'commit') return undefined
    const commit = parseCommit(found.content)
    const shown = { ...commit, message: commit.message.slice(0, messageMaxLength) }
    // Parts of a text keep all of it in memory.
    known.set(id, shown, { size: objectBytes + found.content.length })
    return shown
  }

  return (objects, id) => known.get(id) ?? read(objects, id)
}
