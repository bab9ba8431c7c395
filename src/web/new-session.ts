import type { Principal } from '#access/principal.ts'
import type { LoginMeans } from '#events/audit/record.ts'
import { isPagePath } from '#http/serve/page-requests.ts'
import { type LoginParts, type PageContext, Redirect } from './page.ts'

type NewSession = {
  principal: Principal
  means: LoginMeans
  /** The page that follows. */
  next: string
}

/** Begins a session, in place of the one that the browser has. */
export async function startSession(
  { session: former, caller, time }: PageContext,
  { sessions, cookie, userAgent }: LoginParts,
  { principal, means, next }: NewSession,
): Promise<Redirect> {
  const { secret, session } = await sessions.create(
    { ...principal, origin: caller.origin },
    userAgent,
    { means },
  )
  if (former) await sessions.end(caller, former.id)
  const seconds = Math.max(0, Math.floor((session.expiresAt - time.at) / 1000))
  return new Redirect(next, 303, { 'set-cookie': cookie.set(secret, seconds) })
}

/** Where to go after the login: a path of this service, and never another host. */
export function nextOf({ fields, query, to }: PageContext): string {
  const next = toNextPath(fields.get('next') ?? query.get('next') ?? '')
  return next === undefined ? to.home() : to.prefix + next
}

// The host does not matter: it shows only whether a path leads to another one.
const base = 'http://svc.invalid'

/** The address of a page of this service, below its prefix, as a browser would request it; undefined for anything else. */
export function toNextPath(given: string): string | undefined {
  if (!/^\/[\x21-\x7e]*$/.test(given) || !URL.canParse(given, base)) return undefined
  const { origin, pathname, search } = new URL(given, base)
  return origin === base && isPagePath(pathname) ? pathname + search : undefined
}
