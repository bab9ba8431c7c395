import { type Problem, type ProblemCode, problems } from '#base/problem.ts'
import { problemHeaders, statusOf } from '#http/problem-response.ts'
import type { PageExchange } from '#http/serve/page-requests.ts'
import { counted } from './display-text.ts'
import { icon } from './icons.ts'
import type { PageContext, View } from './page.ts'
import { type Html, html } from './render/html.ts'

/** Problems of those who see the repository of a page, and miss something in it. */
const inRepository = new Set<ProblemCode>([
  'revision_not_found',
  'path_not_found',
  'run_not_found',
  'artifact_not_found',
  'push_not_found',
  'webhook_not_found',
  'delivery_not_found',
])

/**
 * The page of a problem: what happened, and how to go on. `provider` is where a person whose login was refused logs out, to
 * come as another one.
 */
export function problemView(
  problem: Problem,
  context: PageContext,
  provider?: { name: string; logoutAddress: string | undefined },
): View {
  const { to, session, requestId, params } = context
  const status = statusOf(problem)
  const { title } = problems[problem.code]
  const repository = inRepository.has(problem.code) ? params.name : undefined
  return {
    title: `${title} · svc`,
    status,
    isNoIndex: true,
    ...(repository !== undefined && { repository }),
    body: html`<section class="empty">
${icon('warning', 'large')}
<h1>${title}</h1>
<p>${problem.message}</p>
<p class="soft">${adviceFor(problem, requestId)}</p>
<p class="actions">${
      repository === undefined
        ? html`<a class="button" href="${to.home()}">Repositories</a>`
        : html`<a class="button" href="${to.repository(repository)}">${repository}</a>`
    }
${provider?.logoutAddress !== undefined && html`<a class="button" href="${provider.logoutAddress}">Log out of ${provider.name}, to come as another person</a>`}
${!session && (status < 500 || problem.code === 'provider_unavailable') && html`<a class="button primary" href="${to.own('login')}">Log in</a>`}</p>
</section>`,
  }
}

function adviceFor(problem: Problem, requestId: string): string {
  const { code, retryAfterSeconds } = problem
  const status = statusOf(problem)
  if (inRepository.has(code)) return 'It may have been renamed or deleted.'
  if (status === 404)
    return 'It may have been renamed or deleted, or your token does not give access to it.'
  if (code === 'login_refused') return 'You are not logged in.'
  if (code === 'provider_unavailable') return 'A token lets you in, too.'
  if (status === 403) return 'Log in with a token that has this permission, or ask the owner.'
  if (status === 429 || status === 503)
    return retryAfterSeconds === undefined
      ? 'Try again in a moment.'
      : `Try again in ${counted(Math.ceil(retryAfterSeconds), 'second')}.`
  if (status >= 500)
    return `The administrator finds the reason in the log by the id of this request, ${requestId}.`
  if (code === 'git_limit_exceeded')
    return 'Go back and open a smaller part: a folder, a file, or fewer commits.'
  return 'Go back and try again.'
}

export function setProblemHeaders({ response }: PageExchange, problem: Problem): void {
  for (const [name, value] of Object.entries(problemHeaders(problem)))
    response.setHeader(name, value)
}

/** A notice of the problem of a form, above it. With the focus, it is in view wherever on the page the form is. */
export function problemNotice(
  { problem }: Pick<PageContext, 'problem'>,
  { hasFocus = false } = {},
): Html | undefined {
  return (
    problem &&
    html`<div class="notice bad" role="alert"${hasFocus && html` tabindex="-1" autofocus`}>${icon('warning')}<p>${problem.message}</p></div>`
  )
}
