import { toSize } from '#base/format.ts'
import { isObjectId } from '#base/object-id.ts'
import { Problem, type ProblemCode } from '#base/problem.ts'
import type { ApiPath } from '#browse/api-path.ts'
import { decodeText } from '#browse/text-content.ts'
import { shortId } from '../display-text.ts'
import { type PageTarget, parseTarget } from '../links.ts'
import type { OperationValues } from '../read-operations.ts'

/** The revision and path of the address of a page. Throws `route_not_found`. */
export function toTarget(address: string | undefined): PageTarget {
  // A folder may be given with a slash at its end.
  const target = parseTarget(address?.replace(/(?<=[^/:])\/+$/, '') ?? '')
  if (!target) throw new Problem('route_not_found', 'There is no such page.')
  return target
}

/** The query of an operation about a revision and path. */
export function toQuery(rev: string, path: ApiPath): Record<string, string> {
  if (path.pathBase64 !== undefined) return { rev, pathBase64: path.pathBase64 }
  return path.path === '' ? { rev } : { rev, path: path.path }
}

/** The folders above a path, outermost first. */
export function foldersAbove(path: ApiPath): (ApiPath & { name: string })[] {
  const raw = toBytes(path)
  const folders: (ApiPath & { name: string })[] = []
  for (let end = raw.indexOf('/'); end !== -1; end = raw.indexOf('/', end + 1)) {
    const above = fromBytes(raw.slice(0, end))
    folders.push({ ...above, name: lastNameOf(above) })
  }
  return folders
}

/** The last name of a path, for people. */
export function lastNameOf({ path }: ApiPath): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** Whether a revision is only the beginning of the id of its commit. */
export function isShortId(rev: string, commit: string): boolean {
  return rev.length < commit.length && /^[0-9a-f]{7,}$/.test(rev) && commit.startsWith(rev)
}

/** A revision for people: ids are shortened. */
export function toShort(rev: string): string {
  return isObjectId(rev) ? shortId(rev) : rev
}

/** A path whose characters are bytes. */
function toBytes({ path, pathBase64 }: ApiPath): string {
  const bytes = pathBase64 === undefined ? Buffer.from(path) : Buffer.from(pathBase64, 'base64')
  return bytes.toString('latin1')
}

function fromBytes(raw: string): ApiPath {
  const bytes = Buffer.from(raw, 'latin1')
  const path = bytes.toString('utf8')
  const isUtf8 = Buffer.from(path).equals(bytes)
  return isUtf8 ? { path } : { path, pathBase64: bytes.toString('base64') }
}

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

/** Texts up to this size are edited on pages. */
export const editedMaxBytes = 256 * 1024

/** Why the content of a file cannot be edited on a page; undefined if it can. */
export function editingFault(file: ReadFile): string | undefined {
  const { mode, size, lfs, isBinary, encoding, content } = file
  if (mode === '120000') return 'This is a symbolic link'
  if (lfs) return 'This file is in Git LFS'
  if (size > editedMaxBytes) return `This file has more than ${toSize(editedMaxBytes)}`
  // A form cannot have a NUL.
  if (isBinary !== false || content?.includes('\0')) return 'This is a binary file'
  return encoding === 'utf-8' ? undefined : 'The text of this file is not in UTF-8'
}

/** Whether a field of a form can have a path. */
export function isTypeable({ path, pathBase64 }: ApiPath): boolean {
  return pathBase64 === undefined && !/[\r\n]/.test(path)
}

/** Catches a problem with a code, and nothing else. */
export function unless(code: ProblemCode) {
  return (error: unknown): undefined => {
    if (error instanceof Problem && error.code === code) return undefined
    throw error
  }
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
