import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { type Static, type TSchema, Type } from 'typebox'
import type { Permission } from '#access/permissions.ts'
import type { Origin, Principal } from '#access/principal.ts'
import type { ProblemCode } from '#base/problem.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** The parameters of a path template: `:name` is one segment, `:branch*` the rest of the path. */
export type Params<Path extends string> = Path extends `${string}:${infer Rest}`
  ? Rest extends `${infer Name}/${infer Tail}`
    ? Record<Name, string> & Params<Tail>
    : Rest extends `${infer Name}*`
      ? Record<Name, string>
      : Record<Rest, string>
  : Record<never, never>

type AnyParams = Record<string, string>

/** The part of a request that is known before its body is read. */
export type FindRequest<P = AnyParams> = { principal: Principal; permission: Permission; params: P }

type Common = {
  method: Method
  path: string
  /** A verb and a noun; generated clients name their functions after it. */
  operationId: string
  /** The OpenAPI tag, which groups operations. */
  tag: string
  summary: string
  description?: string | undefined
  /** Problems of this route beyond those that its other fields imply. */
  problems?: ProblemCode[] | undefined
  /** Whether clients poll it; successful requests are then logged at debug level. */
  isPolling?: boolean | undefined
  /** Whether its responses have an `ETag`: the handler calls `notModified`. */
  isConditional?: boolean | undefined
}

type LongLived = {
  /**
   * Whether the response may take long: a stream, or a wait for an event. It ends when the caller loses access to what
   * `find` returned, which is a repository or nothing.
   */
  isLongLived: boolean
}

export type PublicOrigin = {
  /**
   * Returns the origin that the client called, such as `https://git.example.com`, if a trusted proxy says so.
   * Undefined with SVC_BASE_URL, which is then used in all links.
   */
  publicOrigin: () => string | undefined
}

/** The input of an operation that another one performs for its caller; `body` is JSON. */
export type OperationInput = {
  params: AnyParams
  query: URLSearchParams
  body: unknown
  /** The accepted content type; by default JSON. */
  accept?: string
  /** The preferences of the caller: RFC 7240. */
  prefer?: string
  /** Entity tags of responses that the caller has: RFC 9110, section 13.1.2. Status 304 and no value for one of them. */
  ifNoneMatch?: string
}

/** JSON that was serialized before, in UTF-8; of a page of a list, with the cursor of the next one if there is one. */
export class SerializedJson {
  readonly bytes: Buffer
  readonly nextCursor: string | undefined

  constructor(bytes: Buffer, nextCursor?: string) {
    this.bytes = bytes
    this.nextCursor = nextCursor
  }
}

/** Its value is JSON, text or a stream. */
export type OperationResult = {
  status: number
  headers: Record<string, string>
  value: unknown
}

/** A body that is read as it arrives. */
export type BodyStream = {
  /** Its size by its Content-Length; undefined when it is sent in chunks. */
  declaredBytes: number | undefined
  /** Starts reading it; a client with `Expect: 100-continue` sends it from then on. Throws `unsupported_media_type`. */
  open: () => Readable
}

type Context = PublicOrigin & {
  principal: Principal
  params: AnyParams
  query: unknown
  body: unknown
  found: unknown
  /** The path and query, as sent. */
  url: string
  /** Whether only the headers of the response are sent: a long-lived route need not start its work. */
  isHead: boolean
  /** Returns a header of the request by its lower-case name. */
  header: (name: string) => string | undefined
  /** The body of a route that `consumes` another content type than JSON. */
  bodyStream: BodyStream
  setHeader: (name: string, value: string) => void
  /** Sets one of the other success statuses. */
  setStatus: (status: number) => void
  /** Overrides the content type. */
  setType: (type: string) => void
  /**
   * Sets the entity tag of the response, unquoted: RFC 9110, section 8.8.3. True when the client has this response: the
   * handler then returns undefined, which sends 304.
   */
  notModified: (entityTag: string) => boolean
  /**
   * Admits the caller again, by handlers that have waited for others, such as name servers, before they change anything.
   * Throws the Problem that a new request would get now.
   */
  admitAgain: () => Promise<void>
  /** Aborted when the client disconnects, or the server stops waiting for running requests. */
  clientSignal: () => AbortSignal
  /** For long-lived routes that wait for events: also aborted as soon as the server begins to stop. */
  waitSignal: () => AbortSignal
  /** Performs another JSON operation with the token of this request, as if its client had sent a request. */
  subcall: (operationId: string, input: OperationInput) => Promise<OperationResult>
}

/** A JSON API route; the response may also be text or a stream. Checks run in this order: token, permission, `find`, query, body. */
export type JsonRoute = Common &
  LongLived & {
    kind: 'json'
    /** Undefined if any token suffices, `run` for the token of a run; such routes have no `find`. */
    permission: Permission | 'run' | undefined
    find: ((request: FindRequest) => Promise<unknown>) | undefined
    /** Whether a route without `find` accepts tokens that are limited to some repositories, and applies the limit itself. */
    allowsLimited: boolean
    /** Whether it is served when the disk is nearly full, although its method is one that writes. */
    isServedWhenFull: boolean
    query?: TSchema | undefined
    body?: TSchema | undefined
    /** The maximum size of the body in bytes, where more than SVC_JSON_BODY_MAX is useful. */
    bodyMaxBytes?: number
    /** The content type of a body that is not JSON: the handler streams it, and limits its size. */
    consumes?: string
    /** The usual one of several success statuses. */
    status: number
    /** The schemas of the bodies of further success statuses; undefined for no body. */
    otherReplies: Record<number, TSchema | undefined>
    produces: string
    /** Further content types of such a response. */
    otherTypes: string[]
    /** The schema for clients that accept `application/json`, of a route that otherwise responds with something else. */
    jsonReply?: TSchema
    /** Describes the server-sent events for clients that accept `text/event-stream`. */
    eventStream?: string
    reply: TSchema | undefined
    handle: (context: Context) => Promise<unknown>
  }

/** A route without authentication. */
export type PublicRoute = Common & {
  kind: 'public'
  /** The fields of its body, which is a form; the handler checks them. */
  form?: TSchema | undefined
  produces: string
  reply: TSchema | undefined
  /** Headers in place of those of all responses. */
  headers?: Record<string, string>
  handle: (request: PublicRequest) => unknown
}

export type PublicRequest = PublicOrigin & {
  /** How and from where the request came, and its host and port as the client names them. */
  origin: Origin
  host: string
  /** The fields of its form; empty for routes without one. */
  fields: URLSearchParams
}

/** A route with streaming bodies, whose handler writes the response itself: Git's protocol. */
export type StreamRoute = Common & {
  kind: 'stream'
  /** As of other routes; `body` if the request ends only while its body is received, and what follows is never cut short. */
  isLongLived: LongLived['isLongLived'] | 'body'
  /** Undefined when only the body determines it: `serve` then calls `find`. */
  permissionFor: (query: URLSearchParams) => Permission | undefined
  /** The accepted query parameters. */
  parameters: readonly string[]
  /** Those that are optional. */
  optionalParameters?: readonly string[]
  find: (request: FindRequest) => Promise<{ id: string }>
  /** The required content type of the body, and its maximum size as sent. */
  consumes: string | undefined
  maxBytes: number
  /** The content type of a successful response; undefined for a route that always fails. */
  produces: string | undefined
  /** The format of problems: plain text, which Git shows, or that of Git LFS. */
  problemFormat?: 'git' | 'git-lfs'
  /** Whether a public repository may be read without a token. */
  allowsAnonymous?: boolean
  /** Whether tokens of SSH keys are accepted: for a day after they have expired, too, or not at all by default. */
  allowsKeys?: true | 'expired'
  serve: (exchange: StreamExchange) => Promise<void>
}

/** A request of a streaming route. */
export type StreamExchange = PublicOrigin & {
  request: IncomingMessage
  response: ServerResponse
  query: URLSearchParams
  params: AnyParams
  principal: Principal
  found: unknown
  /** Calls the route's `find` with a permission, which it requires first. */
  find: (permission: Permission) => Promise<{ id: string }>
  /**
   * Admits the request again, for a short route whose body was waited for; `principal` and `found` are those of then.
   * Throws the Problem of what has changed.
   */
  admitAgain: () => Promise<void>
  /** Aborted when the client disconnects, or the server stops waiting for running requests. */
  signal: AbortSignal
}

export type Route = JsonRoute | PublicRoute | StreamRoute

/** What a JSON route may leave out: it is JSON in both directions, short, and as usual in all else. */
type Usual =
  | 'description'
  | 'problems'
  | 'isPolling'
  | 'isConditional'
  | 'isLongLived'
  | 'allowsLimited'
  | 'isServedWhenFull'
  | 'bodyMaxBytes'
  | 'consumes'
  | 'status'
  | 'produces'
  | 'otherTypes'
  | 'jsonReply'
  | 'eventStream'

type Definition<P, Q extends TSchema, B extends TSchema, R extends TSchema, Found> = Pick<
  JsonRoute,
  'operationId' | 'tag' | 'summary'
> &
  Partial<Pick<JsonRoute, Usual>> & {
    /** `any` for any token; `run` for the token of a run, which its runner has. */
    permission: Permission | 'any' | 'run'
    /** Finds and authorizes the resource of the path, before the body is read. */
    find?: (request: FindRequest<P>) => Promise<Found>
    query?: Q
    body?: B
    /** The success statuses with the schemas of their bodies; `nothing` for no body. The lowest is the usual one. */
    reply: Record<number, R>
    handle: (
      context: Omit<Context, 'params' | 'query' | 'body' | 'found'> & {
        params: P
        query: Static<Q>
        body: Static<B>
        found: Found
      },
    ) => Promise<Static<R> | SerializedJson | Buffer | Readable | undefined>
  }

export const jsonContentType = 'application/json; charset=utf-8'

/** The schema of a response without a body. */
export const nothing = Type.Void()

/** Declares a JSON route as data. */
export function route<
  const Path extends string,
  Found = undefined,
  Q extends TSchema = TSchema,
  B extends TSchema = TSchema,
  R extends TSchema = TSchema,
>(method: Method, path: Path, definition: Definition<Params<Path>, Q, B, R, Found>): JsonRoute {
  const { permission, find, reply, handle } = definition
  const statuses = Object.keys(reply).map(Number)
  const { status = statuses[0] ?? 200 } = definition
  const replies = statuses.map((one) => [one, withoutNothing(reply[one])] as const)
  return {
    isLongLived: false,
    allowsLimited: false,
    isServedWhenFull: false,
    produces: jsonContentType,
    otherTypes: [],
    ...definition,
    kind: 'json',
    method,
    path,
    permission: permission === 'any' ? undefined : permission,
    status,
    otherReplies: Object.fromEntries(replies.filter(([other]) => other !== status)),
    reply: withoutNothing(reply[status]),
    // The server passes a route the params of its path, the result of its `find`, and a query and body that match its
    // schemas, so the types that are erased here hold by construction.
    find: find as JsonRoute['find'],
    handle: handle as JsonRoute['handle'],
  }
}

function withoutNothing(schema: TSchema | undefined): TSchema | undefined {
  return schema === nothing ? undefined : schema
}
