import { idDigits as digitsOf, type ObjectFormat } from '#base/object-id.ts'

/** The object format of the repositories of test clients. */
export const objectFormat: ObjectFormat =
  process.env.SVC_TEST_OBJECT_FORMAT === 'sha256' ? 'sha256' : 'sha1'

/** The hexadecimal digits of their ids. */
export const idDigits = digitsOf(objectFormat)

/** What Git has in place of an id where there is none. */
export const gitZeros = '0'.repeat(idDigits)

/** A capability that a client of SHA-256 sends with its commands, after a space: without it, Git takes them for SHA-1. */
export const formatCapability = objectFormat === 'sha1' ? '' : ` object-format=${objectFormat}`
