import { type ObjectReader, ObjectTooLargeError } from '#git/objects/object-reader.ts'
import { parseTag, type TagObject } from '#git/objects/tag-object.ts'
import { createObjectCache, type ObjectCache } from '../object-cache.ts'

/** The object of a tag: its type, the commit to which it leads, and for an annotated tag its tagger and message. */
type TagTarget = TagObject & { type: string; commit: string | undefined }

const maxLength = 16 * 1024 * 1024
const tagMaxBytes = 1024 * 1024
const messageMaxLength = 16 * 1024

/** Reads what tags point to by id; undefined for an object that is missing. */
export function createTagsById(): ObjectCache<TagTarget> {
  const sizeCalculation = ({ message, tagger }: TagTarget) =>
    300 + message.length + (tagger?.name.length ?? 0)
  return createObjectCache({ maxSize: maxLength, sizeCalculation }, async (objects, id) => {
    const found = await objects.find(id)
    return found && targetOf(objects, found)
  })
}

async function targetOf(
  objects: ObjectReader,
  { id, type }: { id: string; type: string },
): Promise<TagTarget> {
  const unannotated = { tagger: undefined, message: '', signature: undefined }
  if (type !== 'tag') return { ...unannotated, type, commit: type === 'commit' ? id : undefined }
  const [peeled, tag] = await Promise.all([
    objects.find(`${id}^{}`),
    objects.read(id, tagMaxBytes).catch((error) => {
      if (error instanceof ObjectTooLargeError) return undefined
      throw error
    }),
  ])
  const { tagger, message, signature } = tag ? parseTag(tag.content) : unannotated
  const commit = peeled?.type === 'commit' ? peeled.id : undefined
  return { type, commit, tagger, message: message.slice(0, messageMaxLength), signature }
}
