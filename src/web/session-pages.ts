import { Problem } from '#base/problem.ts'
import { invalidLoginLink } from '#identity/sessions/login-links.ts'
import { icon } from './icons.ts'
import { nextOf, startSession } from './new-session.ts'
import {
  type LoginParts,
  type PageAction,
  type PageContext,
  Redirect,
  type SessionPage,
  type View,
} from './page.ts'
import { confirmLink } from './page-forms.ts'
import { problemNotice } from './problem-page.ts'
import { providerPages } from './provider-pages.ts'
import { html } from './render/html.ts'

export const sessionPages: SessionPage[] = [
  ...providerPages,
  {
    kind: 'session',
    method: 'GET',
    path: '/-/login',
    serve: async (context, { sshUrl, logins }) => {
      const next = nextOf(context)
      if (context.session && !context.problem) return new Redirect(next)
      return loginView(context, { next, sshUrl, logins })
    },
  },
  {
    kind: 'session',
    method: 'POST',
    path: '/-/login',
    serve: async (context, parts) => {
      const token = context.fields.get('token')?.trim() ?? ''
      if (token === '') throw new Problem('token_required', 'Enter an API token.')
      return logIn(context, parts, token)
    },
  },
  { kind: 'session', method: 'GET', path: '/-/login/:code', serve: codeView },
  {
    kind: 'session',
    method: 'POST',
    path: '/-/login/:code',
    serve: async (context, parts) => {
      const principal = await parts.sessions.redeemCode(context.params.code ?? '')
      if (!principal) return invalidCodeView(context, parts)
      const next = context.to.home()
      return startSession(context, parts, { principal, next, means: 'login-link' })
    },
  },
  {
    kind: 'session',
    method: 'POST',
    path: '/-/logout',
    serve: async ({ caller, session, to }, { sessions, cookie, logins }) => {
      if (session) await sessions.end(caller, session.id)
      const isOfProvider = session?.loginId !== undefined && logins !== undefined
      return new Redirect(to.own(isOfProvider ? 'logged-out' : 'login'), 303, {
        'set-cookie': cookie.clear(),
        'clear-site-data': '"cache", "cookies"',
      })
    },
  },
]

/** Leads to the login, and from there to a page. */
export function toLogin(to: PageContext['to'], next: string): Redirect {
  const query = next === '/' ? '' : `?${new URLSearchParams({ next })}`
  return new Redirect(`${to.own('login')}${query}`)
}

async function logIn(context: PageContext, parts: LoginParts, token: string): Promise<Redirect> {
  const principal = await parts.authenticate(token)
  if (principal.kind !== 'token')
    throw new Problem('token_invalid', 'The token of a run is valid only for that run.')
  return startSession(context, parts, { principal, next: nextOf(context), means: 'token' })
}

/** Asks whether to log in, so that a link alone, which a browser or a chat may load ahead, does nothing. */
async function codeView(context: PageContext, parts: LoginParts): Promise<View> {
  const { params, to, session, caller } = context
  const code = params.code ?? ''
  const principal = await parts.sessions.peekCode(code)
  if (!principal) return invalidCodeView(context, parts)
  const { username } = principal
  return {
    title: 'Log in · svc',
    isNoIndex: true,
    body: html`<section class="narrow">
<h1>Log in as ${username}?</h1>
<p class="soft">${
      principal.kind === 'ssh-key'
        ? 'With the rights of the SSH key that asked for this address.'
        : 'With the rights of the token that asked for this address.'
    } If it was not you, close this page.</p>
${session && html`<p class="soft">This ends the session of <b>${caller.username}</b> in this browser.</p>`}
<form method="post" action="${to.own(`login/${code}`)}" class="stack">
<button class="primary">Log in</button>
</form>
</section>`,
  }
}

function invalidCodeView({ to }: PageContext, { countInvalid, sshUrl }: LoginParts): View {
  const problem = countInvalid(invalidLoginLink)
  if (problem.code !== 'token_invalid') throw problem
  return {
    title: 'Login link not valid · svc',
    isNoIndex: true,
    status: 401,
    body: html`<section class="empty">
${icon('warning', 'large')}
<h1>This login link is not valid</h1>
<p>It was used, has expired or is mistyped: each works once, within a minute.</p>
<p class="soft">${newLinkHelp(sshUrl)}</p>
<p class="actions"><a class="button primary" href="${to.own('login')}">Log in with a token</a></p>
</section>`,
  }
}

/** Where login links come from. */
function newLinkHelp(sshUrl: string | null) {
  return html`<code>svc login --web</code>${sshUrl !== null && html` or, with your SSH key, <code>ssh ${sshUrl} login</code>`} prints one.`
}

function loginView(
  context: PageContext,
  { next, sshUrl, logins }: { next: string } & Pick<LoginParts, 'sshUrl' | 'logins'>,
): View {
  const { to } = context
  return {
    title: 'Log in · svc',
    isNoIndex: true,
    body: html`<section class="narrow">
<h1>Log in</h1>
${logins && html`<p class="actions"><a class="button primary" href="${to.own(`login/provider?${new URLSearchParams({ next: next.slice(to.prefix.length) })}`)}">Log in with ${logins.name}</a></p>`}
<p class="soft">${logins ? 'Or with' : 'With'} an API token. What you can see and do here is what the token allows.</p>
${problemNotice(context)}
<form method="post" action="${to.own('login')}" class="stack">
<input type="hidden" name="next" value="${next.slice(to.prefix.length)}">
<input type="text" name="username" value="token" autocomplete="username" hidden>
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required${!logins && html` autofocus`} spellcheck="false" placeholder="svc_…">
<button${!logins && html` class="primary"`}>Log in${logins && ' with a token'}</button>
</form>
<details class="hint"><summary>Without pasting a token</summary>
<p>${newLinkHelp(sshUrl)}</p></details>
<details class="hint"><summary>Where do I get a token?</summary>
<p>From an administrator, or on the server with <code>svc tokens create --username NAME</code>.</p></details>
</section>`,
  }
}

/** Asks for the token again before a change; the form that was sent goes on from here. */
export function unlockView(
  context: PageContext,
  route: PageAction,
  { problem, sshUrl }: { problem: Problem | undefined; sshUrl: string | null },
): View {
  const { fields, url, caller, to, session } = context
  const { isSensitive, secretFields } = route
  const plain = [...fields].filter(([name]) => !Object.hasOwn(secretFields, name))
  const secrets = Object.entries(secretFields).filter(([name]) => fields.get(name))
  const isKey = session?.sshKeyId !== null
  const isOfProvider = session?.loginId !== undefined
  const again = isOfProvider ? 'your login again' : isKey ? 'a new login link' : 'the token again'
  return {
    title: 'Confirm · svc',
    isNoIndex: true,
    status: problem ? 401 : 200,
    body: html`<section class="narrow">
<h1>${icon('lock')} Confirm it is you</h1>
<p class="soft">${
      isSensitive
        ? `This change asks for ${again}.`
        : `Changes are possible for an hour after ${isKey || isOfProvider ? 'the login' : 'the token was given'}.`
    } You are logged in as <b>${caller.username}</b>.</p>
${problem && problemNotice({ ...context, problem })}
<form method="post" action="${to.api(url)}" class="stack">
${plain.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
${secrets.map(
  ([name, label]) => html`<label for="again-${name}">${label}</label>
<textarea id="again-${name}" name="${name}" required autocomplete="off" spellcheck="false" rows="3"></textarea>
<p class="help">Enter it again: pages never contain secrets.</p>`,
)}
${
  isOfProvider
    ? confirmLink(to)
    : html`<label for="token">${isKey ? 'Login link' : 'Token'}</label>
<input id="token" name="_token" type="password" autocomplete="${isKey ? 'off' : 'current-password'}" required autofocus spellcheck="false">
${isKey && sshUrl !== null && html`<p class="help">The address that <code>ssh ${sshUrl} login</code> prints, with the same key.</p>`}`
}
<button class="primary">Continue</button>
</form>
</section>`,
  }
}
