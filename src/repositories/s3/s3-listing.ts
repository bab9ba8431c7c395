import { S3Error } from './s3-error.ts'
import { readBodyText, type S3Requests } from './s3-requests.ts'
import { elementsOf, elementText } from './xml-elements.ts'

/** An object in a listing; the time is in milliseconds since 1970, by the store's clock. */
export type ListedObject = { key: string; bytes: number; modifiedAt: number }

// A page has at most 1000 keys of at most 1024 bytes, each of them escaped.
const maxPageBytes = 16 * 1024 * 1024

/** Lists the objects whose keys begin with a prefix. */
export async function* listStoredObjects(
  requests: S3Requests,
  prefix: string,
): AsyncGenerator<ListedObject, void, undefined> {
  let token: string | undefined
  do {
    const page = await listPage(requests, prefix, { ...(token && { 'continuation-token': token }) })
    for (const content of elementsOf(page, 'Contents')) yield toListed(content)
    const isTruncated = elementText(page, 'IsTruncated') === 'true'
    const next = isTruncated ? elementText(page, 'NextContinuationToken') : undefined
    if (isTruncated && (next === undefined || next === token)) {
      throw new S3Error('rejected', `The listing of ${prefix} has no next page.`)
    }
    token = next
  } while (token !== undefined)
}

/** Requests a page of a listing; the answer is XML. */
export function listPage(
  requests: S3Requests,
  prefix: string,
  query: Record<string, string>,
): Promise<string> {
  const request = { operation: 'ListObjectsV2', method: 'GET', key: '' } as const
  return requests.send({ ...request, query: { 'list-type': '2', prefix, ...query } }, (response) =>
    readBodyText(response.body, maxPageBytes),
  )
}

function toListed(content: string): ListedObject {
  return {
    key: elementText(content, 'Key') ?? '',
    bytes: Number(elementText(content, 'Size')),
    modifiedAt: Date.parse(elementText(content, 'LastModified') ?? ''),
  }
}
