import type { PageTarget } from '../links.ts'

/** The parameters of the API for the path of an address. */
export function pathQuery({ path, pathBase64 }: PageTarget['path']) {
  if (pathBase64 !== undefined) return { pathBase64 }
  return path === '' ? {} : { path }
}
