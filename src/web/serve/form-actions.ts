import type { Clock } from '#base/clock.ts'
import { Problem } from '#base/problem.ts'
import { statusOf } from '#http/problem-response.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'
import { invalidLoginLink, loginCodeIn } from '#identity/sessions/login-links.ts'
import { type OpenSession, type Sessions, unlockedMs } from '#identity/sessions/sessions.ts'
import { toDonePage } from '../done.ts'
import { type PageAction, type PageContext, RawResponse, Redirect, type View } from '../page.ts'
import { unlockedForMs } from '../page-forms.ts'
import { problemNotice, setProblemHeaders } from '../problem-page.ts'
import { html } from '../render/html.ts'
import { toLogin, unlockView } from '../session-pages.ts'
import { formPageOf } from './page-list.ts'
import type { LimitPageRate } from './page-rates.ts'
import { readForm } from './read-form.ts'
import type { Visit } from './visits.ts'

type Dependencies = {
  sessions: Sessions
  limitRate: LimitPageRate
  /** The public address of SSH; null when it is off. */
  sshUrl: () => string | null
  bodyTimeoutMs: number
  clock: Clock
}

const otherHolder =
  'This token or login link does not belong to this session; use the one that you logged in with.'

/** Performs the operations of forms, and shows their problems on the pages of the forms. */
export function createFormActions({
  sessions,
  limitRate,
  sshUrl,
  bodyTimeoutMs,
  clock,
}: Dependencies) {
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
      if (holder.id !== principal.id) return new Problem('token_invalid', otherHolder)
      await sessions.unlock(session)
      return undefined
    } catch (error) {
      return problemOf(error)
    }
  }

  /** The session of a form, unlocked for its change; the page that asks for the token if it is not. */
  async function unlocked(
    exchange: PageExchange,
    route: PageAction,
    { open, context }: { open: OpenSession; context: PageContext },
  ): Promise<{ session: OpenSession['session'] } | { view: View }> {
    const { session } = open
    const token = context.fields.get('_token')
    context.fields.delete('_token')
    if (token !== null) {
      const problem = await unlock(exchange, open, token)
      return problem
        ? { view: unlockView(context, route, { problem, sshUrl: sshUrl() }) }
        : { session: { ...session, unlockedUntil: clock.now() + unlockedMs } }
    }
    return unlockedForMs(session, route.isSensitive, clock.now()) > 0
      ? { session }
      : { view: unlockView(context, route, { problem: undefined, sshUrl: sshUrl() }) }
  }

  /** The page of a form with the problem of what was sent. Throws the problem if it cannot be shown there. */
  async function showProblem(
    exchange: PageExchange,
    route: PageAction,
    context: PageContext,
    problem: Problem,
  ): Promise<View> {
    const page = formPageOf(route)
    if (!page || statusOf(problem) === 500) throw problem
    // A page that cannot be shown does not hide why the form was refused.
    const view = await page.show({ ...context, problem }).catch(() => undefined)
    if (!view || view instanceof RawResponse || view instanceof Redirect) throw problem
    setProblemHeaders(exchange, problem)
    // A cached page knows nothing of forms.
    const body = page.isCached ? html`${problemNotice({ problem })}${view.body}` : view.body
    return { ...view, body, status: statusOf(problem) }
  }

  return async (
    exchange: PageExchange,
    route: PageAction,
    begun: Visit,
  ): Promise<View | Redirect> => {
    const { fields, visit } = await readForm(exchange, begun, {
      timeoutMs: bodyTimeoutMs,
      maxBytes: begun.open && route.bodyMaxBytes,
    })
    const { open, to } = visit
    // What was typed is lost, but not where.
    if (!open) return toLogin(to, addressOf(route.formPage, visit.context.params))
    limitRate(visit, exchange, route.weight)
    const sent = { ...visit.context, fields }
    const result = await unlocked(exchange, route, { open, context: sent })
    if ('view' in result) return result.view
    const context = { ...sent, session: result.session }
    try {
      const { operation = route.operation, ...input } = await route.input(context)
      const { value } = await context.call(operation, input)
      const next = route.redirectTo(context, value)
      if (typeof next !== 'string') return next
      const { address, headers } = toDonePage(next, route, { context, value })
      return new Redirect(address, 303, headers)
    } catch (error) {
      return showProblem(exchange, route, context, await exchange.problemOf(error))
    }
  }
}

/** The address of a page by the parameters of its form; those for the rest of a path are still encoded. */
function addressOf(path: string, params: Record<string, string>): string {
  return path.replace(/:(\w+)(\*?)/g, (_, name, isRest) =>
    isRest
      ? (params[name] ?? '')
      : (params[name] ?? '').split('/').map(encodeURIComponent).join('/'),
  )
}
