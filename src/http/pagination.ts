import { type Static, Type } from 'typebox'
import { idPattern } from '#base/ids.ts'
import { listAll, type PageRequest } from '#base/list-all.ts'
import { textForm } from '#base/schema-options.ts'

/** Schema options of a cursor. */
export function cursorForm(pattern: string) {
  return textForm('the cursor in the `Link` header of the previous page', pattern)
}

/** The query parameters of a paginated list. */
export const PageQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({ description: 'the page size, 1 to 1000', minimum: 1, maximum: 1000 }),
  ),
  cursor: Type.Optional(
    Type.String({
      ...cursorForm(`^${idPattern}$`),
      maxLength: 26,
    }),
  ),
})

type Paged = {
  query: Static<typeof PageQuery>
  url: string
  setHeader: (name: string, value: string) => void
}

/**
 * Returns a page of a list that is ordered by id, with a `Link` header (RFC 8288) to the next page if there is one; the
 * whole list without a limit.
 */
export async function paged<T extends { id: string }>(
  { query, url, setHeader }: Paged,
  list: (page: PageRequest) => Promise<T[]>,
): Promise<T[]> {
  const { limit, cursor: after = '' } = query
  if (limit === undefined) return listAll(after, list)
  const rows = await list({ after, limit: limit + 1 })
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  if (rows.length > limit && last) setHeader('link', linkToNext(url, { limit, cursor: last.id }))
  return page
}

/** Creates a `Link` header to the next page: the current address with some parameters changed. */
export function linkToNext(url: string, changed: Record<string, string | number>): string {
  const [path, query] = url.split('?', 2)
  const next = new URLSearchParams(query)
  for (const [name, value] of Object.entries(changed)) next.set(name, String(value))
  return `<${path}?${next}>; rel="next"`
}
