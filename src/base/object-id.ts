export const objectFormats = ['sha1', 'sha256'] as const

/** The hash function of a repository's object ids: gitglossary(7), "object format". */
export type ObjectFormat = (typeof objectFormats)[number]

/** The names of object formats in messages. */
export const objectFormatNames = { sha1: 'SHA-1', sha256: 'SHA-256' } as const

/** A pattern of a whole object id, for regular expressions: 40 digits in repositories of SHA-1, 64 in those of SHA-256. */
export const objectIdPattern = '[0-9a-f]{40}(?:[0-9a-f]{24})?'

const objectId = new RegExp(`^${objectIdPattern}$`)

/** Whether a text is a whole object id, in lowercase. */
export function isObjectId(text: string): boolean {
  return objectId.test(text)
}

/** The format of the repository that an object id is from. */
export function formatOf(id: string): ObjectFormat {
  return id.length === idDigits('sha256') ? 'sha256' : 'sha1'
}

/** The bytes of an object id, as trees and packs have it. */
export function idBytes(format: ObjectFormat): number {
  return format === 'sha256' ? 32 : 20
}

/** The hexadecimal digits of an object id. */
export function idDigits(format: ObjectFormat): number {
  return 2 * idBytes(format)
}
