import type { ServerResponse } from 'node:http'
import { anonymousFrom, type Principal } from '../access/principal.ts'
import type { Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { networkOf } from '../base/network.ts'
import { Problem } from '../base/problem.ts'
import { createRateLimiter } from '../concurrency/rate-limiter.ts'
import type { PlainSettings } from '../config/settings.ts'
import { endUnread } from '../http/connections.ts'
import { collectBody } from '../http/json-body.ts'
import type { PageExchange, ServePage } from '../http/page-requests.ts'
import { problemHeaders, statusOf } from '../http/problem-response.ts'
import { eventStreamType } from '../http/server-sent-events.ts'
import { html, trusted } from '../render/html.ts'
import { createRenderer } from '../render/renderer.ts'
import { invalidLoginLink, loginCodeIn } from '../sessions/login-links.ts'
import { type OpenSession, type Sessions, unlockedMs } from '../sessions/sessions.ts'
import { createAssets } from './assets.ts'
import { isOpenToAnonymous, namesCommit } from './audience.ts'
import { createSessionCookie } from './cookies.ts'
import { renderFrame } from './frame.ts'
import { gitRedirect } from './git-redirect.ts'
import { createLinks } from './links.ts'
import { matchPage, type PageRoute } from './match.ts'
import {
  type Page,
  type PageAction,
  type PageContext,
  RawResponse,
  Redirect,
  type SessionPage,
  type View,
  type Weight,
} from './page.ts'
import { PageBody } from './page-body.ts'
import { type CachedView, createPageCache } from './page-cache.ts'
import { createContext } from './page-context.ts'
import { pageHeaders } from './page-headers.ts'
import { pages } from './page-list.ts'
import { PageTime } from './page-time.ts'
import { problemNotice, problemView } from './problem-page.ts'
import { sendGrowing, sendHtml, sendRaw, sendRedirect } from './responses.ts'
import { robotsText, withNofollow } from './robots.ts'
import { assertSameOrigin } from './same-origin.ts'
import { unlockView } from './session-pages.ts'
import { createSessionWatch } from './session-watch.ts'
import { unlockedForMs } from './unlock.ts'

type Dependencies = {
  sessions: Sessions
  settings: Pick<PlainSettings, 'baseUrl' | 'webAnonymousRead' | 'bodySeconds' | 'pagesCacheBytes'>
  /** The public address of the service. */
  baseUrl: () => string
  /** The public address of SSH; null when it is off. */
  sshUrl: () => string | null
  version: string
  clock: Clock
  log: Log
}

const weights: Record<Weight, number> = { light: 1, git: 5, heavy: 20 }
const weightPerSecond = 20
const weightBurst = 200
const otherHolder =
  'This token or login link does not belong to this session; use the one that you logged in with.'
const formMaxBytes = 64 * 1024
/** Where the body is in the frame. Random, so that no text of a page contains it. */
const bodyMark = trusted(newId())

/** Creates the server of pages. */
export function createWeb({
  sessions,
  settings,
  baseUrl,
  sshUrl,
  version,
  clock,
  log,
}: Dependencies): ServePage {
  const assets = createAssets()
  const sessionWatch = createSessionWatch(sessions)
  const { render } = createRenderer({ log })
  const showCached = createPageCache({ maxBytes: settings.pagesCacheBytes })
  const rates = createRateLimiter({ perSecond: weightPerSecond, burst: weightBurst, clock })

  /** Limits the rate of a token or key, or without a session of a network. */
  function limitRate({ open }: Visit, { address }: PageExchange, weight: Weight): void {
    const key = open?.principal.id ?? `anonymous ${networkOf(address)}`
    const retryAfterSeconds = rates.acquire(key, weights[weight])
    if (retryAfterSeconds <= 0) return
    const from = open ? 'in this session' : 'from this address'
    throw new Problem('too_many_requests', `Too many requests for pages ${from}.`, {
      retryAfterSeconds,
    })
  }

  function publicAddress({ publicOrigin }: PageExchange): { address: URL; prefix: string } {
    const address = new URL(publicOrigin() ?? baseUrl())
    return { address, prefix: address.pathname.replace(/\/$/, '') }
  }

  /** What all responses to a request share; `openSession` returns the session of the secret of its cookie. */
  async function openVisit(
    exchange: PageExchange,
    params: Record<string, string>,
    openSession: OpenOne = sessions.open,
  ) {
    const { address, prefix } = publicAddress(exchange)
    const cookie = createSessionCookie({ isHttps: address.protocol === 'https:', prefix })
    const { open, secret } = await openFirst(cookie.read(exchange.request.headers), openSession)
    const caller = withOrigin(open?.principal ?? anonymousFrom(exchange.address), exchange.address)
    if (open) exchange.identify(caller)
    const to = createLinks(prefix)
    const base = address.href.replace(/\/$/, '')
    const context = createContext(exchange, {
      open,
      caller,
      params,
      to,
      baseUrl: base,
      time: new PageTime(clock.now()),
      version,
      render,
    })
    return { open, secret, caller, cookie, to, context }
  }

  type Visit = Awaited<ReturnType<typeof openVisit>>

  /** Ends a response that is still being sent when its session has ended. */
  function watchSession({ secret, open }: Visit, response: ServerResponse): void {
    if (open && secret !== undefined) sessionWatch.add(secret, response)
  }

  async function answer(exchange: PageExchange, route: PageRoute, visit: Visit) {
    switch (route.kind) {
      case 'session':
        return serveSessionPage(exchange, route, visit)
      case 'action':
        return perform(exchange, route, visit)
      case 'page':
        return show(exchange, route, visit)
    }
  }

  async function show(exchange: PageExchange, route: Page, visit: Visit) {
    const { open, context, to } = visit
    if (!open && !isOpenToAnonymous(route, settings.webAnonymousRead, context)) {
      return toLogin(to, exchange.request.method === 'GET' ? context.url : '/')
    }
    limitRate(visit, exchange, route.weight)
    const shown = open ? route : forSearchEngines(route, to.prefix)
    return shown.isCached ? showCached(shown, context) : shown.show(context)
  }

  async function perform(exchange: PageExchange, route: PageAction, visit: Visit) {
    const { open, context, to } = visit
    assertSameOrigin(exchange.request, context.baseUrl)
    const fields = await readForm(exchange)
    // What was typed is lost, but not where.
    if (!open) return toLogin(to, addressOf(route.formPage, context.params))
    limitRate(visit, exchange, route.weight)
    const token = fields.get('_token')
    fields.delete('_token')
    const filled = { ...context, fields }
    if (token !== null) {
      const problem = await unlock(exchange, open, token)
      if (problem) return unlockView(filled, route, { problem, sshUrl: sshUrl() })
      filled.session = { ...open.session, unlockedUntil: clock.now() + unlockedMs }
    } else if (unlockedForMs(open.session, route.isSensitive, clock.now()) <= 0) {
      return unlockView(filled, route, { problem: undefined, sshUrl: sshUrl() })
    }
    try {
      const { value } = await context.call(route.operation, route.input(filled))
      const next = route.redirectTo(filled, value)
      return typeof next === 'string' ? new Redirect(next) : next
    } catch (error) {
      const problem = await exchange.problemOf(error)
      const page = pages.find((one) => one.kind === 'page' && one.path === route.formPage)
      if (page?.kind !== 'page' || statusOf(problem) >= 500) throw problem
      // A page that cannot be shown does not hide why the form was refused.
      const view = await page.show({ ...filled, problem }).catch(() => undefined)
      if (!view || view instanceof RawResponse || view instanceof Redirect) throw problem
      setProblemHeaders(exchange, problem)
      // A cached page knows nothing of forms.
      const body = page.isCached ? html`${problemNotice({ problem })}${view.body}` : view.body
      return { ...view, body, status: statusOf(problem) }
    }
  }

  /** Unlocks a session with its token, or with a login link of its token or key; returns why not. */
  async function unlock(
    { authenticate, countInvalid, problemOf }: PageExchange,
    { session, principal }: OpenSession,
    given: string,
  ): Promise<Problem | undefined> {
    try {
      const code = loginCodeIn(given)
      const holder = code ? await sessions.redeemCode(code) : await authenticate(given.trim())
      if (!holder) return countInvalid(invalidLoginLink)
      if (holder.id !== principal.id) {
        return new Problem('token_invalid', otherHolder)
      }
      await sessions.unlock(session)
      return undefined
    } catch (error) {
      return problemOf(error)
    }
  }

  async function serveSessionPage(exchange: PageExchange, route: SessionPage, visit: Visit) {
    const { cookie, context } = visit
    const { authenticate, countInvalid, request } = exchange
    const parts = {
      sessions,
      cookie,
      authenticate,
      countInvalid,
      sshUrl: sshUrl(),
      userAgent: request.headers['user-agent'] ?? '',
    }
    limitRate(visit, exchange, 'light')
    if (route.method === 'GET') return route.serve(context, parts)
    assertSameOrigin(request, context.baseUrl)
    const fields = await readForm(exchange)
    try {
      return await route.serve({ ...context, fields }, parts)
    } catch (error) {
      const problem = await exchange.problemOf(error)
      const form = pages.find(
        (one) => one.kind === 'session' && one.path === route.path && one.method === 'GET',
      )
      if (form?.kind !== 'session' || statusOf(problem) >= 500) throw problem
      const view = await form.serve({ ...context, fields, problem }, parts)
      setProblemHeaders(exchange, problem)
      return view instanceof Redirect ? view : { ...view, status: statusOf(problem) }
    }
  }

  async function readForm({ request }: PageExchange): Promise<URLSearchParams> {
    if (
      !/^application\/x-www-form-urlencoded *(;|$)/i.test(request.headers['content-type'] ?? '')
    ) {
      throw new Problem('unsupported_media_type', 'This address takes a form.')
    }
    const limits = { maxBytes: formMaxBytes, timeoutMs: settings.bodySeconds * 1000 }
    return new URLSearchParams((await collectBody(request, limits)).toString('utf8'))
  }

  async function send(
    exchange: PageExchange,
    visit: Visit | undefined,
    result: View | CachedView | RawResponse | Redirect,
  ): Promise<void> {
    const { response } = exchange
    for (const [name, value] of Object.entries(pageHeaders)) response.setHeader(name, value)
    if (visit && namesCommit(visit.context)) response.setHeader('x-robots-tag', 'noindex')
    if (result instanceof Redirect) return sendRedirect(exchange, result)
    if (result instanceof RawResponse) {
      if (result.type === eventStreamType && visit) watchSession(visit, response)
      return sendRaw(exchange, result)
    }
    if (!visit) throw new Error('a page needs a visit')
    const { to, caller, context } = visit
    const asset = (name: string) => assets.addressOf(to, name)
    const body = result.body instanceof PageBody ? result.body : new PageBody(result.body)
    const plain = renderFrame({ ...result, body: bodyMark }, { ...context, caller, asset })
    const frame = visit.open ? plain : withNofollow(plain, to.prefix)
    const [start = '', end = ''] = frame.text.split(bodyMark.text)
    if (result.more) {
      watchSession(visit, response)
      return sendGrowing(exchange, { start, body, end }, result.more)
    }
    await sendHtml(exchange, { start, body, end }, result.status ?? 200)
  }

  return async (exchange) => {
    const { request, response, path } = exchange
    if (await assets.serve(exchange)) return '/-/assets'
    let visit: Visit | undefined
    let template = 'page'
    try {
      const { prefix } = publicAddress(exchange)
      const redirect = gitRedirect(request.method, path, exchange.query, prefix)
      if (redirect) {
        await send(exchange, undefined, redirect)
        return '/r/:name/info/refs'
      }
      if (path === '/robots.txt' && (request.method === 'GET' || request.method === 'HEAD')) {
        await send(exchange, undefined, robotsText(settings.webAnonymousRead, prefix))
        return path
      }
      const match = matchPage(pages, request.method ?? '', path)
      template = match?.route.path ?? template
      visit = await openVisit(exchange, match?.params ?? {})
      if (match === undefined) throw new Problem('route_not_found', 'There is no such page.')
      await send(exchange, visit, await answer(exchange, match.route, visit))
    } catch (error) {
      const problem = await exchange.problemOf(error)
      if (response.headersSent || response.destroyed) {
        response.destroy()
        return template
      }
      setProblemHeaders(exchange, problem)
      endUnread(request, response, statusOf(problem))
      // Of a request that was refused before; without the database there is no session.
      visit ??= await openVisit(exchange, {}).catch(() =>
        openVisit(exchange, {}, async () => undefined),
      )
      await send(exchange, visit, problemView(problem, visit.context))
    }
    return template
  }
}

type OpenOne = (secret: string) => Promise<OpenSession | undefined>

/** The first session of some secrets that is open. */
async function openFirst(
  secrets: string[],
  openSession: OpenOne,
): Promise<{ open?: OpenSession; secret?: string }> {
  for (const secret of secrets) {
    const open = await openSession(secret)
    if (open) return { open, secret }
  }
  return {}
}

/** A page as it is shown without a session, such as to a search engine. */
function forSearchEngines(page: Page, prefix: string): Page {
  const limit =
    <C>(show: (context: C) => Promise<View | RawResponse | Redirect>) =>
    async (context: C) => {
      const result = await show(context)
      if (result instanceof RawResponse || result instanceof Redirect) return result
      return { ...result, body: withNofollow(result.body, prefix) }
    }
  return page.isCached ? { ...page, show: limit(page.show) } : { ...page, show: limit(page.show) }
}

function setProblemHeaders({ response }: PageExchange, problem: Problem): void {
  for (const [name, value] of Object.entries(problemHeaders(problem)))
    response.setHeader(name, value)
}

function withOrigin(principal: Principal, address: string): Principal {
  return { ...principal, origin: { via: 'api', address } }
}

/** Leads to the login, and from there to a page. */
function toLogin(to: PageContext['to'], next: string): Redirect {
  const query = next === '/' ? '' : `?${new URLSearchParams({ next })}`
  return new Redirect(`${to.own('login')}${query}`)
}

/** The address of a page by the parameters of its form; those for the rest of a path are still encoded. */
function addressOf(path: string, params: Record<string, string>): string {
  return path.replace(/:(\w+)(\*?)/g, (_, name, isRest) =>
    isRest ? (params[name] ?? '') : encodeURIComponent(params[name] ?? ''),
  )
}
