import { decodeText } from '#browse/text-content.ts'
import type { OperationValues } from '../read-operations.ts'

type ReadFile = OperationValues['getFile']

/** A file whose content is text, decoded from its `encoding`. */
export type TextFile = Pick<ReadFile, 'id' | 'size'> & { content: string; encoding: string }

/** The text of a file; undefined if it is binary, or the API does not have its content. */
export function textOf({ id, size, content, encoding, isBinary }: ReadFile): TextFile | undefined {
  if (content === null || isBinary !== false) return undefined
  if (encoding === 'utf-8') return { id, size, content, encoding }
  const { text, encoding: found } = decodeText(Buffer.from(content, 'base64'))
  return { id, size, content: text, encoding: found }
}

/** The path that a symbolic link leads to; undefined if that is not within the repository. */
export function linkedPath(folders: readonly string[], target: string): string | undefined {
  if (target.startsWith('/')) return undefined
  const parts = [...folders]
  for (const part of target.split('/')) {
    if (part === '..') {
      if (parts.pop() === undefined) return undefined
    } else if (part !== '' && part !== '.') parts.push(part)
  }
  return parts.join('/')
}
