import { type CommitObject, parseCommit } from '#git/objects/commit-object.ts'
import { ObjectTooLargeError } from '#git/objects/object-reader.ts'
import { createObjectCache, type ObjectCache } from './object-cache.ts'

/** Reads commits by id; undefined for what is no commit, or is damaged. */
export type CommitsById = ObjectCache<CommitObject>

const maxLength = 16 * 1024 * 1024
const commitMaxBytes = 1024 * 1024
const messageMaxLength = 16 * 1024
/** Approximate memory of a parsed commit besides its message, and of a parent. */
const objectBytes = 600
const parentBytes = 90

export function createCommitsById(): CommitsById {
  const sizeCalculation = ({ message, parents }: CommitObject) =>
    objectBytes + message.length + parentBytes * parents.length
  return createObjectCache({ maxSize: maxLength, sizeCalculation }, async (objects, id) => {
    const found = await objects.read(id, commitMaxBytes).catch((error) => {
      // A commit with a message of a megabyte, or of thousands of parents, is no commit to show.
      if (error instanceof ObjectTooLargeError) return undefined
      throw error
    })
    if (found?.type !== 'commit') return undefined
    const commit = parseCommit(found.content)
    return { ...commit, message: commit.message.slice(0, messageMaxLength) }
  })
}
