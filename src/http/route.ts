import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { type Static, type TSchema, Type } from 'typebox'
import type { Access } from '../access/access-watch.ts'
import type { Permission } from '../access/permissions.ts'
import type { Principal } from '../access/principal.ts'
import type { ProblemCode } from '../base/problem.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** Objects that refuse fields they do not name. */
export const closed = { additionalProperties: false } as const

/** The parameters in a path template: `:name` is one segment, `:branch*` all that is left of the path. */
export type Params<Path extends string> = Path extends `${string}:${infer Rest}`
  ? Rest extends `${infer Name}/${infer Tail}`
    ? Record<Name, string> & Params<Tail>
    : Rest extends `${infer Name}*`
      ? Record<Name, string>
      : Record<Rest, string>
  : Record<never, never>

type AnyParams = Record<string, string>

/** What is known of a request before its body is read. */
export type FindRequest<P = AnyParams> = { principal: Principal; permission: Permission; params: P }

type Common = {
  method: Method
  path: string
  /** The name of the operation in the OpenAPI document, and so in generated clients: a verb and a noun. */
  operationId: string
  /** What its operation is listed under. */
  tag: string
  summary: string
  description?: string | undefined
  /** Problems that this route can answer beyond those that its other fields imply. */
  problems?: ProblemCode[] | undefined
  /** Whether clients call it again and again, so that the log says little of it. */
  isPolling?: boolean | undefined
}

type LongLived = {
  /**
   * Whether the response may last: a stream, or a wait for something to happen. It ends when its caller loses access to
   * what `find` returned, which is a repository or nothing.
   */
  isLongLived: boolean
}

type Context = {
  principal: Principal
  params: AnyParams
  query: unknown
  body: unknown
  found: unknown
  /** The address that was asked for: path and query, as it was sent. */
  url: string
  /** A header of the request; its name in lower case. */
  header: (name: string) => string | undefined
  setHeader: (name: string, value: string) => void
  /** Answers with another status of success than the first one. */
  setStatus: (status: number) => void
  /** Answers with another content type than the usual one. */
  setType: (type: string) => void
  /** A signal that is aborted when the client goes away, or the server gives up waiting. */
  untilGone: () => AbortSignal
  /** The same for who waits for something to happen: is aborted as soon as the server is to stop. Long-lived routes have it. */
  untilStopping: () => AbortSignal
  /** Makes a long-lived response depend on further access. */
  requireAccess: (access: Access) => void
}

/** A route that takes JSON, and answers with it, a text or a stream of either. Checks run in this order: token, permission, `find`, query, body. */
export type JsonRoute = Common &
  LongLived & {
    kind: 'json'
    /** Undefined where any token will do, `run` where it must be the one of a run; such routes have no `find`. */
    permission: Permission | 'run' | undefined
    find: ((asked: FindRequest) => Promise<unknown>) | undefined
    query: TSchema | undefined
    body: TSchema | undefined
    status: number
    /** Further statuses of success, with the same kind of answer. */
    otherStatuses: number[]
    produces: string
    /** The server-sent events that a client gets which accepts `text/event-stream`; undefined where there are none. */
    eventStream: string | undefined
    reply: TSchema | undefined
    handle: (context: Context) => Promise<unknown>
  }

/** A route that anybody may read, answered with a constant kind of content. */
export type PublicRoute = Common & {
  kind: 'public'
  produces: string
  reply: TSchema | undefined
  handle: () => unknown
}

/** A route whose bodies are streams and whose answers are written by its handler: Git's own protocol. */
export type StreamRoute = Common &
  LongLived & {
    kind: 'stream'
    permissionFor: (query: URLSearchParams) => Permission
    /** The parameters that its query may have. */
    parameters: readonly string[]
    /** Those of them that it may lack. */
    optionalParameters?: readonly string[]
    find: (asked: FindRequest) => Promise<{ id: string }>
    /** The content type that a body must have, and the most bytes it may have as it is sent. */
    consumes: string | undefined
    maxBytes: number
    /** The content type of a success; undefined for a route that only refuses. */
    produces: string | undefined
    /** How problems are written: as the text that Git shows, or as Git LFS reads them. */
    problemFormat?: 'git' | 'git-lfs'
    serve: (exchange: Exchange) => Promise<void>
  }

/** One request that is answered by streaming. */
type Exchange = {
  request: IncomingMessage
  response: ServerResponse
  query: URLSearchParams
  principal: Principal
  found: unknown
  /** Aborted when the client is gone or the server gives up waiting. */
  signal: AbortSignal
}

export type Route = JsonRoute | PublicRoute | StreamRoute

type Definition<P, Q extends TSchema, B extends TSchema, R extends TSchema, Found> = {
  operationId: string
  tag: string
  summary: string
  description?: string
  /** `any` where any token will do; `run` where only that of a run does, which its runner has. */
  permission: Permission | 'any' | 'run'
  /** Finds and authorises what the path names, before the body is read. */
  find?: (asked: FindRequest<P>) => Promise<Found>
  isLongLived?: boolean
  query?: Q
  body?: B
  /** The content type of an answer that is a text, not JSON. */
  produces?: string
  /** The server-sent events that a client gets which accepts `text/event-stream`. */
  eventStream?: string
  /** The statuses of success, the usual one first, with the one schema of their bodies; `nothing` for none. */
  reply: Record<number, R>
  problems?: ProblemCode[]
  isPolling?: boolean
  handle: (
    context: {
      principal: Principal
      params: P
      query: Static<Q>
      body: Static<B>
      found: Found
    } & Pick<
      Context,
      | 'url'
      | 'header'
      | 'setHeader'
      | 'setStatus'
      | 'setType'
      | 'untilGone'
      | 'untilStopping'
      | 'requireAccess'
    >,
  ) => Promise<Static<R> | Readable | undefined>
}

/** The content type of most answers. */
export const jsonContentType = 'application/json; charset=utf-8'

/** The schema of an answer without a body. */
export const nothing = Type.Void()

/** Declares a JSON route as data: what it takes, what it needs, what it answers. */
export function route<
  const Path extends string,
  Found = undefined,
  Q extends TSchema = TSchema,
  B extends TSchema = TSchema,
  R extends TSchema = TSchema,
>(method: Method, path: Path, definition: Definition<Params<Path>, Q, B, R, Found>): JsonRoute {
  const { operationId, tag, summary, description, permission } = definition
  const { find, query, body, problems, handle } = definition
  const { produces = jsonContentType, isLongLived = false } = definition
  const [[status, reply] = ['200', undefined], ...others] = Object.entries<TSchema>(
    definition.reply,
  )
  return {
    kind: 'json',
    isLongLived,
    method,
    path,
    operationId,
    tag,
    summary,
    description,
    permission: permission === 'any' ? undefined : permission,
    // The server hands a route the params of its own path, what its own `find` returned, and
    // a query and a body that match its own schemas: the types given up here hold by construction.
    find: find as JsonRoute['find'],
    query,
    body,
    status: Number(status),
    otherStatuses: others.map(([other]) => Number(other)),
    produces,
    eventStream: definition.eventStream,
    reply: reply === nothing ? undefined : reply,
    problems,
    isPolling: definition.isPolling,
    handle: handle as JsonRoute['handle'],
  }
}
