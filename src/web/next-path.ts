import { isPagePath } from '#http/serve/page-requests.ts'

// The host does not matter: it shows only whether a path leads to another one.
const base = 'http://svc.invalid'

/** The address of a page of this service, below its prefix, as a browser would request it; undefined for anything else. */
export function toNextPath(given: string): string | undefined {
  if (!/^\/[\x21-\x7e]*$/.test(given) || !URL.canParse(given, base)) return undefined
  const { origin, pathname, search } = new URL(given, base)
  return origin === base && isPagePath(pathname) ? pathname + search : undefined
}
