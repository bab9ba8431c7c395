import { anonymousFrom, type Principal } from '#access/principal.ts'
import type { Clock } from '#base/clock.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'
import type { OpenSession, Sessions } from '#identity/sessions/sessions.ts'
import { createSessionCookie } from '../cookies.ts'
import { createLinks } from '../links.ts'
import type { PageContext } from '../page.ts'
import { PageTime } from '../page-time.ts'
import type { Renderer } from '../render/renderer.ts'
import { createContext } from './page-context.ts'

/** A request for a page, with the session of its cookie. */
export type Visit = {
  open: OpenSession | undefined
  secret: string | undefined
  caller: Principal
  cookie: SessionCookie
  attemptCookie: SessionCookie
  to: PageContext['to']
  context: PageContext
  /** Opens it again: its session may have ended while a form was waited for. */
  reopen: () => Promise<Visit>
}

type SessionCookie = ReturnType<typeof createSessionCookie>

type Dependencies = {
  sessions: Pick<Sessions, 'open'>
  /** The public address of the service. */
  baseUrl: () => string
  version: string
  clock: Clock
  render: Renderer['render']
  canUndo: boolean
}

type OpenOne = (secret: string) => Promise<OpenSession | undefined>

export function createVisits({ sessions, baseUrl, version, clock, render, canUndo }: Dependencies) {
  function publicAddress({ publicOrigin }: PageExchange): { address: URL; prefix: string } {
    const address = new URL(publicOrigin() ?? baseUrl())
    return { address, prefix: address.pathname.replace(/\/$/, '') }
  }

  async function openWith(
    openSession: OpenOne,
    exchange: PageExchange,
    params: Record<string, string>,
    readsAll: boolean,
  ): Promise<Visit> {
    const { address, prefix } = publicAddress(exchange)
    const scope = { isHttps: address.protocol === 'https:', prefix }
    const cookie = createSessionCookie(scope)
    const attemptCookie = createSessionCookie(scope, 'svc-login')
    const { open, secret } = await openFirst(cookie.read(exchange.request.headers), openSession)
    const anonymous = anonymousFrom(exchange.address, readsAll)
    const caller = withOrigin(open?.principal ?? anonymous, exchange.address)
    if (open) exchange.identify(caller)
    const to = createLinks(prefix)
    const context = createContext(exchange, {
      open,
      caller,
      params,
      to,
      baseUrl: address.href.replace(/\/$/, ''),
      time: new PageTime(clock.now()),
      version,
      render,
      canUndo,
    })
    const reopen = () => openWith(openSession, exchange, params, readsAll)
    return { open, secret, caller, cookie, attemptCookie, to, context, reopen }
  }

  return {
    /** The path of the public address of the service, without a slash at its end. */
    prefixOf: (exchange: PageExchange): string => publicAddress(exchange).prefix,

    /** Opens a visit. Without a session, it sees public repositories, or all if it `readsAll`. */
    open: (exchange: PageExchange, params: Record<string, string>, readsAll: boolean) =>
      openWith(sessions.open, exchange, params, readsAll),

    /** Opens a visit without looking for its session. */
    openAnonymous: (exchange: PageExchange) => openWith(async () => undefined, exchange, {}, false),
  }
}

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

function withOrigin(principal: Principal, address: string): Principal {
  return { ...principal, origin: { via: 'api', address } }
}
