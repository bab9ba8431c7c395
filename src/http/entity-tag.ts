/**
 * Whether an `If-None-Match` header has an entity tag, by the weak comparison: RFC 9110, sections 8.8.3.2 and 13.1.2. Not
 * for `*`, since the tag is known before it is known whether there is a response.
 */
export function matchesTag(header: string | undefined, entityTag: string): boolean {
  const tags = (header ?? '').split(',').map((tag) => withoutWeakness(tag.trim()))
  return tags.includes(withoutWeakness(entityTag))
}

function withoutWeakness(tag: string): string {
  return tag.startsWith('W/') ? tag.slice('W/'.length) : tag
}
