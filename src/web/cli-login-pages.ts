import { Problem } from '#base/problem.ts'
import { type CliRequest, cliTokenEnd } from '#identity/logins/cli-logins.ts'
import { icon } from './icons.ts'
import {
  type LoginParts,
  type PageContext,
  RawResponse,
  type SessionPage,
  type View,
} from './page.ts'
import { confirmLink, unlockedForMs } from './page-forms.ts'
import { problemNotice } from './problem-page.ts'
import { html } from './render/html.ts'
import { toLogin } from './session-pages.ts'

/** The pages by which `svc login` gets a token: for a person who consents, and for the command line itself. */
export const cliLoginPages: SessionPage[] = [
  {
    kind: 'session',
    method: 'GET',
    path: '/-/cli',
    styles: 'forms',
    async serve(context, parts) {
      const { session, to, url, query, fields } = context
      if (!session) return toLogin(to, url)
      const loopback = loopbackOf(fields) ?? loopbackOf(query)
      if (loopback) return consentView(context, { loopback, request: requestOf(loopback, context) })
      const userCode = fields.get('code')
      return userCode === null ? codeView(context) : showRequest(context, parts, userCode)
    },
  },
  {
    kind: 'session',
    method: 'POST',
    path: '/-/cli',
    styles: 'forms',
    async serve(context, parts) {
      const { session, to, fields, caller } = context
      if (!session) return toLogin(to, '/-/cli')
      const loopback = loopbackOf(fields)
      const userCode = fields.get('code') ?? ''
      if (!fields.has('consent')) return showRequest(context, parts, userCode)
      await requireFresh(context, parts)
      const { cliLogins } = parts
      const consenter = { principal: caller, sessionId: session.id }
      if (loopback) {
        const { challenge } = loopback
        const code = await cliLogins.authorize(consenter, {
          ...requestOf(loopback, context),
          challenge,
        })
        return doneView(
          `http://127.0.0.1:${loopback.port}/?${new URLSearchParams({ code, state: loopback.state })}`,
        )
      }
      if (!(await cliLogins.consent(consenter, userCode))) throw parts.countInvalid(invalidCode)
      return doneView()
    },
  },
  {
    kind: 'session',
    method: 'POST',
    path: '/-/cli/codes',
    async serve({ fields, caller, baseUrl }, { cliLogins, logins }) {
      const challenge = fields.get('challenge') ?? ''
      // Without one, it asks how people log in here.
      if (!challengeShape.test(challenge)) return json({ provider: logins?.name ?? null })
      const address = caller.origin?.address ?? ''
      const machine = machineOf(fields)
      const { userCode, expiresAt } = await cliLogins.request({ challenge, machine, address })
      return json({ userCode, expiresAt, url: `${baseUrl}/-/cli` })
    },
  },
  {
    kind: 'session',
    method: 'POST',
    path: '/-/cli/token',
    async serve({ fields }, { cliLogins, countInvalid }) {
      const [code, verifier] = [fields.get('code') ?? '', fields.get('verifier') ?? '']
      const token = await cliLogins.redeem(code, verifier)
      if (token === undefined) throw countInvalid(invalidCode)
      return json(token === 'pending' ? { pending: true } : { token })
    },
  },
]

const invalidCode = 'The code is mistyped, has expired or was used. Start svc login again.'
const hourMs = 3_600_000
const challengeShape = /^[\w-]{43}$/
const machineMaxLength = 60

/** A command line on the machine of the browser, which waits at a port there. */
type Loopback = { challenge: string; port: number; state: string; machine: string }

function loopbackOf(fields: URLSearchParams): Loopback | undefined {
  const [challenge, state] = [fields.get('challenge') ?? '', fields.get('state') ?? '']
  const port = Number(fields.get('port'))
  const isPort = Number.isInteger(port) && port > 0 && port < 65_536
  if (!isPort || !challengeShape.test(challenge) || !challengeShape.test(state)) return undefined
  return { challenge, port, state, machine: machineOf(fields) }
}

/** The name of a machine, without what it could use to look like another text. */
function machineOf(fields: URLSearchParams): string {
  const name = (fields.get('machine') ?? '').replace(/[^\w.-]/g, '').slice(0, machineMaxLength)
  return name === '' ? 'a machine without a name' : name
}

function requestOf({ machine }: Loopback, { caller, time }: PageContext): CliRequest {
  return { machine, address: caller.origin?.address ?? '', expiresAt: time.at }
}

async function showRequest(
  context: PageContext,
  parts: LoginParts,
  userCode: string,
): Promise<View> {
  const request = await parts.cliLogins.find(userCode)
  if (request) return consentView(context, { userCode, request })
  const problem = parts.countInvalid(invalidCode)
  if (problem.code !== 'token_invalid') throw problem
  return { ...codeView({ ...context, problem }), status: 401 }
}

/** Throws unless the person has logged in, or confirmed, moments ago: a stolen session must not become a token. */
async function requireFresh(context: PageContext, parts: LoginParts): Promise<void> {
  const { session, caller, fields, time } = context
  if (caller.kind !== 'token')
    throw new Problem(
      'token_limited',
      'You are logged in with an SSH key; log in with a token instead.',
    )
  if (session && unlockedForMs(session, true, time.at) > 0) return
  const given = fields.get('_token')
  if (given === null || session?.loginId !== undefined)
    throw new Problem('token_required', 'Confirm that it is you.')
  const { id } = await parts.authenticate(given.trim())
  if (id !== caller.id) throw new Problem('token_invalid', 'This is not the token of this session.')
  if (session) await parts.sessions.unlock(session)
}

function codeView(context: PageContext): View {
  const { to } = context
  return {
    title: 'Log in a command line · svc',
    isNoIndex: true,
    body: html`<section class="narrow">
<h1>Log in a command line</h1>
<p class="soft">Enter the code that <code>svc login</code> shows. Enter no code that you were sent.</p>
${problemNotice(context)}
<form method="post" action="${to.own('cli')}" class="stack">
<label for="code">Code</label>
<input id="code" name="code" required autofocus autocomplete="off" spellcheck="false" maxlength="20" placeholder="XXXX-XXXX">
<button class="primary">Continue</button>
</form>
</section>`,
  }
}

type Consent = { request: CliRequest } & ({ loopback: Loopback } | { userCode: string })

/** Shows exactly what is granted, and to which machine, so that a code that was sent to the person is recognized. */
function consentView(context: PageContext, consent: Consent): View {
  const { to, caller, session, time } = context
  const { machine, address } = consent.request
  const isLoopback = 'loopback' in consent
  const own = caller.origin?.address ?? ''
  const hidden = isLoopback ? Object.entries(consent.loopback) : [['code', consent.userCode]]
  const isFresh = session !== undefined && unlockedForMs(session, true, time.at) > 0
  const isOfProvider = session?.loginId !== undefined
  return {
    title: 'Log in a command line · svc',
    isNoIndex: true,
    body: html`<section class="narrow">
<h1>Log in svc on ${machine}?</h1>
${problemNotice(context)}
<div class="notice bad">${icon('warning')}<p>Only if you have just started <code>svc login</code> on this machine yourself. ${
      isLoopback
        ? 'A program on this computer asks, and gets all of the rights below, also if a link led you here.'
        : 'Who sent you the code would get all of the rights below.'
    }</p></div>
<dl class="facts"><dt>User</dt><dd>${caller.username}</dd>
<dt>Machine</dt><dd>${machine}, as it calls itself</dd>
<dt>Address</dt><dd>${address}${address === own ? ', as this browser' : html` <b>(this browser has ${own})</b>`}</dd>
<dt>Rights</dt><dd class="badges">${[...caller.permissions].map((one) => html`<span class="badge ${one === 'admin' ? 'accent' : ''}">${one}</span>`)}</dd>
<dt>Lasts</dt><dd>${lifetimeText(cliTokenEnd(caller, time.at) - time.at)} at most</dd></dl>
<form method="post" action="${to.own('cli')}" class="stack">
${hidden.map(([name, value]) => html`<input type="hidden" name="${String(name)}" value="${String(value)}">`)}
<input type="hidden" name="consent" value="yes">
${
  !isFresh &&
  (isOfProvider
    ? confirmLink(to)
    : html`<label for="token">Your token</label>
<input id="token" name="_token" type="password" required autocomplete="current-password" spellcheck="false">`)
}
<div class="actions"><button class="primary">Log in ${machine}</button> <a class="button" href="${to.home()}">Cancel</a></div>
</form>
</section>`,
  }
}

function lifetimeText(ms: number): string {
  const hours = Math.ceil(ms / hourMs)
  return hours < 48 ? `${hours} hours` : `${Math.ceil(hours / 24)} days`
}

function doneView(address?: string): View {
  return {
    title: 'Logged in · svc',
    isNoIndex: true,
    ...(address !== undefined && { continueAt: address }),
    body: html`<section class="empty">
${icon('check', 'large')}
<h1>Go on in the terminal</h1>
<p>${address === undefined ? 'The command line is logged in.' : html`If it does not go on by itself: <a href="${address}">hand over the login</a>.`} You can close this tab.</p>
</section>`,
  }
}

function json(value: object): RawResponse {
  return new RawResponse('application/json', JSON.stringify(value), { 'cache-control': 'no-store' })
}
