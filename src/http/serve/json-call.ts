import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { AccessWatch } from '#access/access-watch.ts'
import type { Principal } from '#access/principal.ts'
import type { Caller } from '../connection/client-limits.ts'
import type { OpenRequests } from '../connection/connections.ts'
import type { JsonRoute, PublicOrigin, Route } from '../route.ts'
import type { Admit } from './admission.ts'
import type { RequestLog } from './request-log.ts'

/** What calls of JSON routes need of the server. */
export type JsonCallParts = {
  routes: Route[]
  admit: Admit
  openRequests: Pick<OpenRequests, 'controllerOf'>
  accessWatch: AccessWatch
  /** Throws a Problem when the disk is nearly full. */
  requireSpace: () => Promise<void>
  requestLog: RequestLog
  /** Aborted when the server stops. */
  stopping: AbortSignal
}

/** A call of a JSON route: by a request, or by the handler of another route on behalf of its caller. */
export type JsonCall = PublicOrigin & {
  requestId: string
  /** Whether only the headers of the response are sent. */
  isHead: boolean
  headers: IncomingMessage['headers']
  /** The caller of a page; undefined for calls with a token. */
  pageCaller?: Principal | undefined
  caller: Caller
  /** The response of the request; its end aborts the call. */
  response: ServerResponse
  /** The path and query. */
  url: string
  params: Record<string, string>
  query: URLSearchParams
  readBody: () => Promise<unknown>
  /** Opens a body of another content type than JSON. Throws `unsupported_media_type`. */
  openBody: (contentType: string) => Readable
  setStatus: (status: number) => void
  setType: (type: string) => void
  setHeader: (name: string, value: string) => void
}

/** Performs a call of a JSON route. Throws Problems. */
export type PerformCall = (route: JsonRoute, call: JsonCall) => Promise<unknown>
