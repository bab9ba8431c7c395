import type { Principal } from '#access/principal.ts'
import type { Problem } from '#base/problem.ts'
import type { OperationInput, OperationResult } from '#http/route.ts'
import type { CliLogins } from '#identity/logins/cli-logins.ts'
import type { Logins } from '#identity/logins/provider-logins.ts'
import type { Session, Sessions } from '#identity/sessions/sessions.ts'
import type { SessionCookie } from './cookies.ts'
import type { Links } from './links.ts'
import type { PageTime } from './page-time.ts'
import type { OperationValues, ReadOperation } from './read-operations.ts'
import type { Html } from './render/html.ts'
import type { Renderer } from './render/renderer.ts'
import type { StyleSheet } from './style-sheets.ts'

/** How much a page costs: rates are limited by it. */
export type Weight = 'light' | 'git' | 'heavy'

/** Who can open a page: anonymous readers of the current code, or of everything; else only people who have logged in. */
type Audience = 'code' | 'all' | 'members'

type Params = Record<string, string>

type Input = Partial<Omit<OperationInput, 'query'>> & {
  query?: Record<string, string | number | boolean | undefined>
}

/**
 * What a page that is cached for all its readers is made from. It reads only by operations of the API, with the rights of its
 * caller, and knows nothing else of who that is.
 */
export type SharedContext = {
  isLoggedIn: boolean
  params: Params
  query: URLSearchParams
  /** The address of the page, with its query, below the prefix of the service. */
  url: string
  to: Links
  time: PageTime
  version: string
  /** The public address of the service. */
  baseUrl: string
  /** Renders code and documents. */
  render: Renderer['render']
  /** Says that the page lacks something that a later view has, so it is not cached. */
  markProvisional: () => void
  /** The id from which a client resumes a stream of events. */
  lastEventId: string | undefined
  /** Aborted when the client disconnects. */
  signal: () => AbortSignal
  /**
   * Whether the caller may perform an operation, with the parameters of the page and these, which decides whether its form
   * is shown. It does not depend on what the form contains.
   */
  may: (operation: string, params?: Params) => Promise<boolean>
  /** Performs an operation of the API. Throws Problems. */
  call: (operation: string, input?: Input) => Promise<OperationResult>
  /** The value of an operation that reads JSON. Throws Problems. */
  read: <O extends ReadOperation>(operation: O, input?: Input) => Promise<OperationValues[O]>
  /** Like `read`; undefined where the caller may not, or there is nothing. */
  tryRead: <O extends ReadOperation>(
    operation: O,
    input?: Input,
  ) => Promise<OperationValues[O] | undefined>
  /** Like `read`, for lists: with the cursor of the next page. */
  readPage: <O extends ReadOperation>(
    operation: O,
    input?: Input,
  ) => Promise<{ value: OperationValues[O]; next: string | undefined }>
}

/** What a page is made from that is its caller's own. */
export type PageContext = SharedContext & {
  caller: Principal
  /** Undefined for anonymous readers. */
  session: Session | undefined
  /** The id of the request in the log. */
  requestId: string
  /** The problem of a form of this page that was just sent, and its fields. */
  problem: Problem | undefined
  fields: URLSearchParams
  /** The change that led to this page. */
  done: { text: string; at?: string; subject?: string } | undefined
  /** Whether a push that deletes something can be undone afterwards. */
  canUndo: boolean
  /** The entity tags of the responses that the client has. */
  ifNoneMatch: string | undefined
}

/** The tabs of a repository. */
export type Tab =
  | 'code'
  | 'commits'
  | 'changes'
  | 'branches'
  | 'tags'
  | 'pushes'
  | 'runs'
  | 'webhooks'
  | 'settings'

/** A page: its parts, which the frame puts together. */
export type View = {
  title: string
  /** Those of its page. */
  styles?: StyleSheet
  /** The name of the repository that it belongs to, and its tab. */
  repository?: string
  tab?: Tab
  /** The path to the page, in the header. The last one is the page itself. */
  crumbs?: { text: string; href?: string }[]
  body: Html
  /** What follows the body while the page is being sent. Without it, a page is sent as a whole. */
  more?: AsyncIterable<Html>
  /** The stream of server-sent events that keeps the page current; empty for none. Repositories have one of their pushes. */
  live?: string
  /** The same as JSON. */
  json?: string
  status?: number
  /** The address to which a browser goes on by itself. */
  continueAt?: string
  /** Whether search engines may not keep it. */
  isNoIndex?: boolean
}

/** A response that is no page: a file, a feed or a stream. */
export class RawResponse {
  readonly type: string
  readonly content: Buffer | string | NodeJS.ReadableStream
  readonly headers: Record<string, string>
  /** 304 if the client has it, by an entity tag in `headers`. */
  readonly status: 200 | 304

  constructor(
    type: string,
    content: Buffer | string | NodeJS.ReadableStream,
    headers: Record<string, string> = {},
    status: 200 | 304 = 200,
  ) {
    this.type = type
    this.content = content
    this.headers = headers
    this.status = status
  }
}

/** The response of an operation to a conditional request, with its file name; other headers are added. */
export function toRawResponse(
  type: string,
  { status, headers, value }: OperationResult,
  others: Record<string, string> = {},
): RawResponse {
  const { etag, 'content-length': length, 'content-disposition': disposition } = headers
  const own = {
    // Weak, since it is that of the compressed response, too.
    ...(etag !== undefined && { etag: `W/${etag}` }),
    ...(length !== undefined && { 'content-length': length }),
    ...(disposition !== undefined && { 'content-disposition': disposition }),
  }
  // Operations with other types than JSON answer with bytes.
  const content = value as Buffer | NodeJS.ReadableStream
  return status === 304
    ? new RawResponse(type, '', own, status)
    : new RawResponse(type, content, { ...others, ...own })
}

/** A redirection to another page, given by its path. */
export class Redirect {
  readonly location: string
  readonly status: number
  readonly headers: Record<string, string>

  constructor(location: string, status = 303, headers: Record<string, string> = {}) {
    this.location = location
    this.status = status
    this.headers = headers
  }
}

export type Page = UncachedPage | CachedPage

type CommonPage = {
  kind: 'page'
  path: string
  weight: Weight
  audience: Audience
  /** `base` unless given. */
  styles?: StyleSheet
  /** The operations that it calls (a test checks this). The first decides who may see it: its problem is that of the page. */
  operations: ReadOperation[]
}

export type UncachedPage = CommonPage & {
  isCached: false
  show: (context: PageContext) => Promise<View | RawResponse | Redirect>
}

/** A page whose body is in the page cache, for all readers with the same results. */
export type CachedPage = CommonPage & {
  isCached: true
  show: (context: SharedContext) => Promise<View | RawResponse | Redirect>
}

/** What a page says after a form has changed something, and the id of the element where it does. */
export type Done = {
  text: string
  at?: string
  /** What the page needs besides: what to offer to undo, or what it shows only once. */
  subject?: (context: PageContext, value: unknown) => string
}

type ActionInput = Input & { operation?: string }

/** A button or form: it calls an operation of the API, and goes on to a page. */
export type PageAction = {
  kind: 'action'
  path: string
  /** The operation of the API. */
  operation: string
  /** The path of the page with its form, which shows its problem. */
  formPage: string
  weight: Weight
  /** Whether the token must have been given moments ago. */
  isSensitive: boolean
  /** Fields with secrets and their labels: no page ever contains what was typed there. */
  secretFields: Record<string, string>
  /** The most that its fields may have; by default that of short fields. */
  bodyMaxBytes?: number
  /** Converts the fields of the form to the input of the operation, or of another one that it chooses. */
  input: (context: PageContext) => ActionInput | Promise<ActionInput>
  /** The address of the page that follows. A page may be shown at once instead, if it is the only chance to see something. */
  redirectTo: (context: PageContext, value: unknown) => string | View
  /** What that page says of the change; undefined if it is a page about the result. */
  done?: Done
}

/** A page about sessions, which is shown without one. */
export type SessionPage = {
  kind: 'session'
  method: 'GET' | 'POST'
  path: string
  /** `base` unless given. */
  styles?: StyleSheet
  /** What the page that follows says. */
  done?: Done
  serve: (context: PageContext, login: LoginParts) => Promise<View | Redirect | RawResponse>
}

/** What pages about sessions use besides the operations of the API. */
export type LoginParts = {
  sessions: Sessions
  cookie: SessionCookie
  /** Logins at the identity provider, if there is one. */
  logins: Logins | undefined
  cliLogins: CliLogins
  /** The cookie that binds such a login to the browser that began it, and the secrets in it. */
  attemptCookie: SessionCookie
  attemptSecrets: readonly string[]
  userAgent: string
  /** The public address of SSH; null when it is off. */
  sshUrl: string | null
  /** Returns the principal of a token. Throws `token_invalid` and `too_many_bad_tokens`. */
  authenticate: (token: string) => Promise<Principal>
  /** Counts an invalid login code like an invalid token; returns the Problem. */
  countInvalid: (detail: string) => Problem
}

export type PageRoute = Page | PageAction | SessionPage

/** Declares a page as data. */
export function page(
  path: string,
  operations: [ReadOperation, ...ReadOperation[]] | [],
  rest: Pick<UncachedPage, 'weight' | 'audience' | 'styles' | 'show'>,
): UncachedPage {
  return { kind: 'page', path, operations, isCached: false, ...rest }
}

/** The same for a page that is cached. Its type leaves nothing of its caller that could get into what others see. */
export function cachedPage(
  path: string,
  operations: [ReadOperation, ...ReadOperation[]],
  rest: Pick<CachedPage, 'weight' | 'audience' | 'styles' | 'show'>,
): CachedPage {
  return { kind: 'page', path, operations, isCached: true, ...rest }
}

type Usual = 'isSensitive' | 'secretFields' | 'weight'

/** Declares a form as data. */
export function action(
  path: string,
  operation: string,
  rest: Omit<PageAction, 'kind' | 'path' | 'operation' | Usual> & Partial<Pick<PageAction, Usual>>,
): PageAction {
  return {
    kind: 'action',
    path,
    operation,
    isSensitive: false,
    secretFields: {},
    weight: 'git',
    ...rest,
  }
}
