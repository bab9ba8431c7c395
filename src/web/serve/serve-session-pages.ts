import { statusOf } from '#http/problem-response.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'
import type { CliLogins } from '#identity/logins/cli-logins.ts'
import type { Logins } from '#identity/logins/provider-logins.ts'
import type { Sessions } from '#identity/sessions/sessions.ts'
import { clearDone } from '../done.ts'
import { RawResponse, Redirect, type SessionPage, type View } from '../page.ts'
import { setProblemHeaders } from '../problem-page.ts'
import { doneOf, pages } from './page-list.ts'
import type { LimitPageRate } from './page-rates.ts'
import { readForm } from './read-form.ts'
import type { Visit } from './visits.ts'

type Dependencies = {
  sessions: Sessions
  logins: Logins | undefined
  cliLogins: CliLogins
  limitRate: LimitPageRate
  /** The public address of SSH; null when it is off. */
  sshUrl: () => string | null
  bodyTimeoutMs: number
}

/** Serves the pages to log in and out; a problem of a form is shown on its page. */
export function createSessionPages(dependencies: Dependencies) {
  const { sessions, logins, cliLogins, limitRate, sshUrl, bodyTimeoutMs } = dependencies
  return async (
    exchange: PageExchange,
    route: SessionPage,
    begun: Visit,
  ): Promise<View | Redirect | RawResponse> => {
    const { cookie, attemptCookie } = begun
    const { authenticate, countInvalid, request } = exchange
    const parts = {
      sessions,
      logins,
      cliLogins,
      cookie,
      attemptCookie,
      attemptSecrets: attemptCookie.read(request.headers),
      authenticate,
      countInvalid,
      sshUrl: sshUrl(),
      userAgent: request.headers['user-agent'] ?? '',
    }
    limitRate(begun, exchange, 'light')
    if (route.method === 'GET') {
      const done = doneOf(request.headers)
      if (done) exchange.response.setHeader('set-cookie', clearDone(begun.context))
      return route.serve({ ...begun.context, done }, parts)
    }
    const { fields, visit } = await readForm(exchange, begun, { timeoutMs: bodyTimeoutMs })
    const { context } = visit
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
      return view instanceof Redirect || view instanceof RawResponse
        ? view
        : { ...view, status: statusOf(problem) }
    }
  }
}
