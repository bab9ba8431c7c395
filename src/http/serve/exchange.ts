import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Caller } from '../connection/client-limits.ts'
import type { PublicOrigin } from '../route.ts'

/** A request, and what is known of it before its route serves it. */
export type Exchange = PublicOrigin & {
  request: IncomingMessage
  response: ServerResponse
  requestId: string
  /** The path as sent, with its percent-encoding. */
  path: string
  query: URLSearchParams
  /** What the path has for the parameters of its route, decoded; empty for pages. */
  params: Record<string, string>
  caller: Caller
}
