import { type Static, Type } from 'typebox'

/** The query of a list: all of it, or a page after a cursor. */
export const PageQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({ description: 'a page size from 1 to 1000', minimum: 1, maximum: 1000 }),
  ),
  cursor: Type.Optional(
    Type.String({
      description: 'the cursor in the `Link` header of the page before',
      pattern: '^[0-9a-hjkmnp-tv-z]{26}$',
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
 * Answers a list that is ordered by id. A page that is not the last gets a `Link: <…>; rel="next"`
 * header (RFC 8288) with the address of the next one.
 */
export async function paged<T extends { id: string }>(
  { query, url, setHeader }: Paged,
  list: (page: { after: string; limit: number | undefined }) => Promise<T[]>,
): Promise<T[]> {
  const { limit, cursor: after = '' } = query
  if (limit === undefined) return list({ after, limit })
  const rows = await list({ after, limit: limit + 1 })
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  if (rows.length > limit && last) setHeader('link', linkToNext(url, { limit, cursor: last.id }))
  return page
}

/** A `Link` header to the next page: the address of this one, with other values of some parameters. */
export function linkToNext(url: string, changed: Record<string, string | number>): string {
  const [path, asked] = url.split('?', 2)
  // The next page keeps all other parameters.
  const next = new URLSearchParams(asked)
  for (const [name, value] of Object.entries(changed)) next.set(name, String(value))
  return `<${path}?${next}>; rel="next"`
}
