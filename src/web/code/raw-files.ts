import type { ApiPath } from '#browse/api-path.ts'
import { type PageContext, type RawResponse, toRawResponse } from '../page.ts'
import { lastNameOf, toQuery, toTarget } from './code-target.ts'

const imageTypes = new Map([
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['gif', 'image/gif'],
  ['webp', 'image/webp'],
  ['avif', 'image/avif'],
  ['svg', 'image/svg+xml'],
])

/** The type of an image that browsers show, by the name of its file. */
export function imageTypeOf(path: string): string | undefined {
  return imageTypes.get(path.slice(path.lastIndexOf('.') + 1).toLowerCase())
}

// An image in SVG that is opened by itself has its styles, and can do nothing.
const sandbox = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
const bytesType = 'application/octet-stream'

/**
 * The bytes of a file; of one in Git LFS those of its object, or with `plain` its pointer. Never HTML: images and text are
 * shown, everything else is downloaded.
 */
export async function rawFile({
  params,
  query,
  call,
  ifNoneMatch,
}: PageContext): Promise<RawResponse> {
  const { rev, path } = toTarget(params.target)
  const result = await call('getFile', {
    query: { ...toQuery(rev, path), lfs: !query.has('plain') },
    accept: '*/*',
    ...(ifNoneMatch !== undefined && { ifNoneMatch }),
  })
  const type = imageTypeOf(path.path) ?? result.headers['content-type'] ?? bytesType
  return toRawResponse(type, result, {
    'content-security-policy': sandbox,
    'content-disposition': type === bytesType ? attachment(path) : 'inline',
    'x-robots-tag': 'noindex',
  })
}

/** The name of a download: RFC 6266, with the encoding of RFC 8187. */
function attachment(path: ApiPath): string {
  const encoded = encodeURIComponent(lastNameOf(path).toWellFormed()).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename*=UTF-8''${encoded}`
}
