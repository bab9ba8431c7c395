import { Problem } from '#base/problem.ts'
import { statusOf } from '#http/problem-response.ts'
import type { OperationResult } from '#http/route.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'
import type { OpenSession } from '#identity/sessions/sessions.ts'
import type { PageContext } from '../page.ts'
import type { OperationValues, ReadOperation } from '../read-operations.ts'

export type PageCall = PageContext['call']
export type PageInput = NonNullable<Parameters<PageCall>[1]>

/** Creates what a page is made from, for a request. */
export function createContext(
  exchange: PageExchange,
  visit: Pick<
    PageContext,
    'params' | 'to' | 'caller' | 'baseUrl' | 'time' | 'version' | 'render' | 'canUndo'
  > & {
    open: OpenSession | undefined
  },
): PageContext {
  const { open, ...rest } = visit
  const { caller, params } = rest
  const { request, requestId, query, signal } = exchange

  const call: PageCall = (operation, input = {}) => {
    const { query: wanted = {}, body, ...options } = input
    const parameters = Object.entries(wanted)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]): [string, string] => [name, String(value)])
    return exchange.call(caller, operation, {
      ...options,
      params: { ...params, ...input.params },
      query: new URLSearchParams(parameters),
      body,
    })
  }

  return {
    ...rest,
    requestId,
    session: open?.session,
    isLoggedIn: open !== undefined,
    markProvisional() {},
    query,
    url: request.url ?? '',
    ifNoneMatch: request.headers['if-none-match'],
    may: (operation, own) => exchange.may(caller, operation, { ...params, ...own }),
    lastEventId: request.headers['last-event-id']?.toString(),
    problem: undefined,
    done: undefined,
    fields: new URLSearchParams(),
    signal,
    ...createReaders(call),
  }
}

/** The ways to read by operations of the API. */
export function createReaders(
  call: PageCall,
): Pick<PageContext, 'call' | 'read' | 'tryRead' | 'readPage'> {
  async function read<O extends ReadOperation>(
    operation: O,
    input?: PageInput,
  ): Promise<OperationValues[O]> {
    const { value } = await call(operation, input)
    // The server's own response, whose schema is that of the operation.
    return value as OperationValues[O]
  }

  return {
    call,
    read,
    tryRead: (operation, input) => read(operation, input).catch(ignoreAbsent),
    async readPage(operation, input) {
      const { value, headers } = await call(operation, input)
      return { value: value as OperationValues[typeof operation], next: nextCursorOf(headers) }
    },
  }
}

const absent = new Set([401, 403, 404])

function ignoreAbsent(error: unknown): undefined {
  if (error instanceof Problem && absent.has(statusOf(error))) return undefined
  throw error
}

function nextCursorOf({ link }: OperationResult['headers']): string | undefined {
  const [, query] = /^<[^>?]*\?([^>]*)>; rel="next"/.exec(link ?? '') ?? []
  return query === undefined ? undefined : (new URLSearchParams(query).get('cursor') ?? undefined)
}
