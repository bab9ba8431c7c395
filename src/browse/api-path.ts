import { Type } from 'typebox'
import { field } from '#base/schema-options.ts'
import { invalid, ofQuery } from '#http/validation.ts'

/**
 * A path or name in a response. Git treats names as bytes: where they are not UTF-8, `path` has U+FFFD in place of the
 * invalid ones, and `pathBase64` has all bytes.
 */
export type ApiPath = { path: string; pathBase64?: string }

/** A path whose characters are bytes (latin1), without a slash at either end. */
export type RawPath = string

const maxPathBytes = 4096

const pathBytes = `a string of at most ${maxPathBytes} bytes in UTF-8`

const pathQuery = (description: string) => ({
  path: Type.Optional(
    Type.String({
      description: `${description}; ${pathBytes}`,
      'x-form': pathBytes,
      maxLength: maxPathBytes,
    }),
  ),
  pathBase64: Type.Optional(
    Type.String({
      description: 'The bytes of a path that is not UTF-8, in base64',
      maxLength: Math.ceil(maxPathBytes / 3) * 4,
    }),
  ),
})

export const PathQuery = pathQuery('Path in the repository; the root without it')
export const FilePathQuery = pathQuery('Path of the file; required without `pathBase64`')
export const ChangedPathQuery = pathQuery(
  'A changed file or folder, whose diff is then returned alone, with larger limits',
)

/** Properties of the schema of a path. */
export const pathProperties = {
  path: field.text('Path in the repository'),
  pathBase64: Type.Optional(field.text('The bytes of the path in base64, if it is not UTF-8')),
}

export function toApiPath(raw: RawPath): ApiPath {
  // Most paths: their bytes are their characters.
  if (/^[ -~]*$/.test(raw)) return { path: raw }
  const bytes = Buffer.from(raw, 'latin1')
  const path = bytes.toString('utf8')
  return isUtf8Of(path, bytes) ? { path } : { path, pathBase64: bytes.toString('base64') }
}

/** The path of a file that a query names. Throws `invalid_request`. */
export function toRawFilePath(query: { path?: string; pathBase64?: string }): RawPath {
  const raw = toRawPath(query)
  if (raw !== '') return raw
  throw invalid([ofQuery('path', 'is required; it must be the path of a file.')])
}

/** The path that a query names. Throws `invalid_request`. */
export function toRawPath({ path, pathBase64 }: { path?: string; pathBase64?: string }): RawPath {
  if (path !== undefined && pathBase64 !== undefined)
    throw invalid([ofQuery('pathBase64', 'cannot be given with `path`.')])
  const bytes =
    pathBase64 === undefined ? Buffer.from(path ?? '', 'utf8') : Buffer.from(pathBase64, 'base64')
  // Node ignores what is not base64.
  if (pathBase64 !== undefined && bytes.toString('base64') !== pathBase64)
    throw invalid([
      ofQuery('pathBase64', 'must be base64 (RFC 4648, section 4), with its padding.'),
    ])
  // A slash at the end, as shells complete the names of folders, is no part of the path.
  const raw = bytes.toString('latin1').replace(/\/$/, '')
  const isComplete = raw === '' || raw.split('/').every((name) => !['', '.', '..'].includes(name))
  if (isComplete && raw.length <= maxPathBytes && !raw.includes('\0')) return raw
  const name = pathBase64 === undefined ? 'path' : 'pathBase64'
  const detail = 'must be a path within the repository, such as src/main.c, without "." or "..".'
  throw invalid([ofQuery(name, detail)])
}

function isUtf8Of(text: string, bytes: Buffer): boolean {
  return !text.includes('\ufffd') || Buffer.from(text, 'utf8').equals(bytes)
}
