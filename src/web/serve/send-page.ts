import { newId } from '#base/ids.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'
import { eventStreamType } from '#http/server-sent-events.ts'
import type { createAssets } from '../assets.ts'
import { renderFrame } from '../frame.ts'
import { RawResponse, Redirect, type View } from '../page.ts'
import { pageHeaders } from '../page-headers.ts'
import { trusted } from '../render/html.ts'
import { namesCommit } from './audience.ts'
import type { CachedView } from './page-cache.ts'
import { PageBody, sendGrowing, sendHtml, sendRaw, sendRedirect } from './responses.ts'
import { withNofollow } from './robots.ts'
import type { createSessionWatch } from './session-watch.ts'
import type { Visit } from './visits.ts'

/** What the routes of pages result in. */
export type PageResult = View | CachedView | RawResponse | Redirect

type Dependencies = {
  assets: ReturnType<typeof createAssets>
  sessionWatch: ReturnType<typeof createSessionWatch>
}

/** Where the body is in the frame. Random, so that no text of a page contains it. */
const bodyMark = trusted(newId())

/** Sends the results of pages, with the headers that all of them have. */
export function createPageSender({ assets, sessionWatch }: Dependencies) {
  /** Ends a response that is still being sent when its session has ended. */
  function watchSession({ response }: PageExchange, { secret, open }: Visit): void {
    if (open && secret !== undefined) sessionWatch.add(secret, response)
  }

  function sendBare(exchange: PageExchange, result: RawResponse | Redirect): void | Promise<void> {
    setPageHeaders(exchange)
    return result instanceof Redirect ? sendRedirect(exchange, result) : sendRaw(exchange, result)
  }

  return {
    /** Sends what is no page. */
    sendBare,

    async send(exchange: PageExchange, visit: Visit, result: PageResult): Promise<void> {
      const { response } = exchange
      const { to, context } = visit
      if (namesCommit(context)) response.setHeader('x-robots-tag', 'noindex')
      if (result instanceof Redirect || result instanceof RawResponse) {
        const isStream = result instanceof RawResponse && result.type === eventStreamType
        if (isStream) watchSession(exchange, visit)
        return sendBare(exchange, result)
      }
      setPageHeaders(exchange)
      if ('continueAt' in result && result.continueAt !== undefined)
        response.setHeader('refresh', `0; url=${result.continueAt}`)
      const asset = (name: string) => assets.addressOf(to, name)
      const body = result.body instanceof PageBody ? result.body : new PageBody(result.body)
      const plain = renderFrame({ ...result, body: bodyMark }, { ...context, asset })
      const frame = visit.open ? plain : withNofollow(plain, to.prefix)
      const [start = '', end = ''] = frame.text.split(bodyMark.text)
      if (result.more) {
        watchSession(exchange, visit)
        return sendGrowing(exchange, { start, body, end }, result.more)
      }
      await sendHtml(exchange, { start, body, end }, result.status ?? 200)
    },
  }
}

function setPageHeaders({ response }: PageExchange): void {
  for (const [name, value] of Object.entries(pageHeaders)) response.setHeader(name, value)
}
