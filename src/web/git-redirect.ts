import { Redirect } from './page.ts'

const advertisement = /^\/r\/([^/]+?)(?:\.git)?\/info\/refs$/
const services = new Set(['git-upload-pack', 'git-receive-pack'])

/**
 * Sends Git from the address of a page to the address of the repository: Git goes on there with all further requests
 * (`http.followRedirects`). It is the same for every name, and before authentication.
 */
export function gitRedirect(
  method: string | undefined,
  path: string,
  query: URLSearchParams,
  prefix: string,
): Redirect | undefined {
  const [, name] = advertisement.exec(path) ?? []
  const service = query.get('service') ?? ''
  if (name === undefined || method !== 'GET' || !services.has(service)) return undefined
  return new Redirect(`${prefix}/repos/${name}.git/info/refs?service=${service}`, 307)
}
