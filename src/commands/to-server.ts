import { Sensitive } from '../base/sensitive.ts'
import { isTokenString } from '../base/token-string.ts'
import { parseBaseUrl } from '../config/setting-values.ts'
import { UsageError } from './usage-error.ts'

/** The server of a command, and the token for it. */
export type ServerAccess = { url: URL; token: Sensitive<string> }

/** The server of SVC_URL and SVC_TOKEN. Throws a UsageError. */
export function toServer(environment: Record<string, string | undefined>): ServerAccess {
  const { SVC_URL: address = '', SVC_TOKEN: token = '' } = environment
  if (address === '' || token === '') {
    throw new UsageError('Set SVC_URL to the address of the service, and SVC_TOKEN to a token.')
  }
  const url = parseBaseUrl(address)
  if (url === undefined) {
    throw new UsageError(
      'SVC_URL takes the http or https address of the service, without user, query or fragment.',
    )
  }
  if (!isTokenString(token)) {
    throw new UsageError(
      'The token in SVC_TOKEN is mistyped: a token begins with svc_ and has 40 characters.',
    )
  }
  return { url: new URL(url), token: new Sensitive(token) }
}
