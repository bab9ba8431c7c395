import { Problem } from '../base/problem.ts'
import { html } from '../render/html.ts'
import { icon } from './icons.ts'
import {
  type LoginParts,
  type PageAction,
  type PageContext,
  Redirect,
  type SessionPage,
  type View,
} from './page.ts'
import { problemNotice } from './problem-page.ts'

export const sessionPages: SessionPage[] = [
  {
    kind: 'session',
    method: 'GET',
    path: '/-/login',
    serve: async (context) => {
      const next = nextOf(context)
      return context.session && !context.problem ? new Redirect(next) : loginView(context, next)
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
  {
    kind: 'session',
    method: 'POST',
    path: '/-/logout',
    serve: async ({ caller, session, to }, { sessions, cookie }) => {
      if (session) await sessions.end(caller, session.id)
      return new Redirect(to.own('login'), 303, {
        'set-cookie': cookie.clear(),
        'clear-site-data': '"cache", "cookies"',
      })
    },
  },
]

async function logIn(context: PageContext, parts: LoginParts, token: string): Promise<Redirect> {
  const principal = await parts.authenticate(token)
  if (principal.kind !== 'token')
    throw new Problem('token_invalid', 'The token of a run is valid only for that run.')
  const { secret, session } = await parts.sessions.create(principal, parts.userAgent)
  const seconds = Math.max(0, Math.floor((session.expiresAt - context.now) / 1000))
  return new Redirect(nextOf(context), 303, { 'set-cookie': parts.cookie.set(secret, seconds) })
}

/** Where to go after the login: a path of this service, and never another host. */
function nextOf({ fields, query, to }: PageContext): string {
  const next = fields.get('next') ?? query.get('next') ?? ''
  return /^\/(?![/\\])[\x21-\x7e]*$/.test(next) ? to.prefix + next : to.home()
}

function loginView(context: PageContext, next: string): View {
  const { to } = context
  return {
    title: 'Log in · svc',
    isNoIndex: true,
    body: html`<section class="narrow">
<h1>Log in</h1>
<p class="soft">With an API token. What you can see and do here is what the token allows.</p>
${problemNotice(context)}
<form method="post" action="${to.own('login')}" class="stack">
<input type="hidden" name="next" value="${next.slice(to.prefix.length)}">
<input type="text" name="username" value="token" autocomplete="username" hidden>
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus spellcheck="false" placeholder="svc_…">
<button class="primary">Log in</button>
</form>
<details class="hint"><summary>Where do I get a token?</summary>
<p>From an administrator, or on the server with <code>svc tokens create --username NAME</code>.</p></details>
</section>`,
  }
}

/** Asks for the token again before a change; the form that was sent goes on from here. */
export function unlockView(
  context: PageContext,
  route: PageAction,
  problem: Problem | undefined,
): View {
  const { fields, url, caller, to } = context
  const { isSensitive, secretFields } = route
  const plain = [...fields].filter(([name]) => !Object.hasOwn(secretFields, name))
  const secrets = Object.entries(secretFields).filter(([name]) => fields.get(name))
  return {
    title: 'Confirm · svc',
    isNoIndex: true,
    status: problem ? 401 : 200,
    body: html`<section class="narrow">
<h1>${icon('lock')} Confirm it is you</h1>
<p class="soft">${
      isSensitive
        ? 'This change asks for the token again.'
        : 'Changes are possible for an hour after the token was given.'
    } You are logged in as <b>${caller.username}</b>.</p>
${problem && problemNotice({ ...context, problem })}
<form method="post" action="${to.api(url)}" class="stack">
${plain.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
${secrets.map(
  ([name, label]) => html`<label for="again-${name}">${label}</label>
<textarea id="again-${name}" name="${name}" required autocomplete="off" spellcheck="false" rows="3"></textarea>
<p class="help">Once more, since secrets are kept in no page.</p>`,
)}
<label for="token">Token</label>
<input id="token" name="_token" type="password" autocomplete="current-password" required autofocus spellcheck="false">
<button class="primary">Go on</button>
</form>
</section>`,
  }
}
