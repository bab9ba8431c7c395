import type { PlainSettings } from '#config/settings.ts'
import type { StreamExchange } from '#http/route.ts'

/**
 * The origin of links for a client: the configured one, or the one that the client has called, which works for this client
 * even where the server does not know its public address.
 */
export function originOf(
  { request, publicOrigin }: Pick<StreamExchange, 'request' | 'publicOrigin'>,
  settings: Pick<PlainSettings, 'baseUrl'>,
  baseUrl: () => string,
): string {
  if (settings.baseUrl !== undefined) return settings.baseUrl
  const origin = publicOrigin() ?? `http://${request.headers.host}`
  return URL.canParse(origin) && request.headers.host ? new URL(origin).origin : baseUrl()
}
