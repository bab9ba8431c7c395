import { objectIdPattern } from '#base/object-id.ts'
import { trimEndOf } from '#base/trim-end.ts'
import { isRefName } from './ref-name.ts'

/**
 * Refs and HEAD as they are stored: object ids, or `ref:` and the name of another ref. Git treats names as bytes, so
 * each character here is a byte (latin1).
 */
export type RawRefs = Map<string, string>

/** Converts a name to the encoding of raw refs. */
export function toRawName(name: string): string {
  return isAscii(name) ? name : Buffer.from(name, 'utf8').toString('latin1')
}

/** Converts a name from the encoding of raw refs. */
export function fromRawName(name: string): string {
  return isAscii(name) ? name : Buffer.from(name, 'latin1').toString('utf8')
}

/** Whether bytes are a full ref name. */
export function isRawRefName(name: string): boolean {
  return isRefName(fromRawName(name))
}

/** Returns the target of a symbolic ref's value. */
export function targetOf(value: string | undefined): string | undefined {
  return value?.startsWith('ref:') ? value.slice('ref:'.length) : undefined
}

const storedId = new RegExp(`^(${objectIdPattern})(?:[ \\t-\\r]|$)`)

/** Parses the file of a ref as git does, which ignores text after an id; undefined for anything else. */
export function parseRefFile(text: string): string | undefined {
  const [, id] = storedId.exec(text) ?? []
  if (id !== undefined || !text.startsWith('ref:')) return id
  // Not `trim`, which would also remove bytes of multibyte characters.
  const target = trimEndOf(text.slice('ref:'.length), ' \t\r\n').replace(/^[ \t-\r]+/, '')
  // Security: in a repository of unknown origin, this may be any path on the server, or a pipe.
  return isRawRefName(target) ? `ref:${target}` : undefined
}

export function isAscii(text: string): boolean {
  return /^[\0-\x7f]*$/.test(text)
}
