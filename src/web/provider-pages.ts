import { Problem } from '#base/problem.ts'
import { attemptMs, type Logins } from '#identity/logins/provider-logins.ts'
import { icon } from './icons.ts'
import { nextOf, startSession } from './new-session.ts'
import { type LoginParts, type PageContext, Redirect, type SessionPage, type View } from './page.ts'
import { html } from './render/html.ts'

/** The pages between which a browser goes to the identity provider and comes back. */
export const providerPages: SessionPage[] = [
  {
    kind: 'session',
    method: 'GET',
    path: '/-/login/provider',
    serve: (context, parts) => begin(context, parts, { next: nextOf(context), isConfirmed: false }),
  },
  {
    kind: 'session',
    method: 'GET',
    path: '/-/login/confirm',
    serve: (context, parts) =>
      begin(context, parts, { next: context.to.home(), isConfirmed: true }),
  },
  {
    kind: 'session',
    method: 'GET',
    path: '/-/login/callback',
    serve: complete,
  },
  {
    kind: 'session',
    method: 'GET',
    path: '/-/logged-out',
    async serve(context, { logins }) {
      if (context.session) return new Redirect(context.to.home())
      const { name = '', logoutAddress } = (await logoutOf(logins, context)) ?? {}
      return loggedOutView(context, name, logoutAddress)
    },
  },
]

/** Where a browser without a session logs out of the provider, too; nothing of it matters here, so it may be down. */
export async function logoutOf(
  logins: Logins | undefined,
  { baseUrl, session }: Pick<PageContext, 'baseUrl' | 'session'>,
): Promise<{ name: string; logoutAddress: string | undefined } | undefined> {
  if (!logins || session) return undefined
  const address = logins.logoutAddress(`${baseUrl}/-/login`)
  return { name: logins.name, logoutAddress: await address.catch(() => undefined) }
}

function requireLogins({ logins }: LoginParts): Logins {
  if (logins) return logins
  throw new Problem('route_not_found', 'This service has no identity provider.')
}

async function begin(
  { baseUrl, session }: PageContext,
  parts: LoginParts,
  { next, isConfirmed }: { next: string; isConfirmed: boolean },
): Promise<Redirect> {
  const logins = requireLogins(parts)
  if (isConfirmed && session === undefined) throw new Problem('token_required', 'Log in first.')
  const { address, browserSecret } = await logins.begin({
    redirectUri: callbackAddress(baseUrl),
    next,
    browserSecret: parts.attemptSecrets[0],
    session: isConfirmed ? session : undefined,
  })
  const cookie = parts.attemptCookie.set(browserSecret, attemptMs / 1000)
  return new Redirect(address, 303, { 'set-cookie': cookie })
}

async function complete(context: PageContext, parts: LoginParts): Promise<View | Redirect> {
  const logins = requireLogins(parts)
  const { baseUrl, query, session, caller } = context
  const callback = new URL(callbackAddress(baseUrl))
  callback.search = query.toString()
  const login = await logins.complete({
    ...{ callback, session, caller },
    browserSecrets: parts.attemptSecrets,
  })
  if ('confirmed' in login) return confirmedView()
  const { principal, next } = login
  return startSession(context, parts, { principal, next, means: 'identity-provider' })
}

/** The redirection address, which the provider knows. */
function callbackAddress(baseUrl: string): string {
  return `${baseUrl}/-/login/callback`
}

function confirmedView(): View {
  return {
    title: 'Confirmed · svc',
    isNoIndex: true,
    body: html`<section class="empty">
${icon('check', 'large')}
<h1>Confirmed</h1>
<p>Close this tab, and go on with your change in the other one.</p>
</section>`,
  }
}

function loggedOutView({ to }: PageContext, name: string, address: string | undefined): View {
  return {
    title: 'Logged out · svc',
    isNoIndex: true,
    ...(address !== undefined && { continueAt: address }),
    body: html`<section class="empty">
<h1>Logged out</h1>
<p>The session in this browser is ended.</p>
<p class="actions">${address !== undefined && html`<a class="button" href="${address}">Log out of ${name}, too</a>`}
<a class="button primary" href="${to.own('login')}">Log in</a></p>
</section>`,
  }
}
