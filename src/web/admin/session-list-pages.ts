import type { Session } from '#identity/sessions/sessions.ts'
import { doneNotice, toDonePage } from '../done.ts'
import { icon } from '../icons.ts'
import { type PageContext, Redirect, type SessionPage, type View } from '../page.ts'
import { askButton, formButton } from '../page-forms.ts'
import { html } from '../render/html.ts'
import { toLogin } from '../session-pages.ts'

const address = '/-/sessions'
const endOne = { path: '/-/sessions/:id/end', done: { text: 'The session is ended.' } }
const endOthers = {
  path: '/-/sessions/end-others',
  done: { text: 'All other sessions are ended.' },
}

// Ending a session never asks for the token: a session that is not one's own must be ended at once.
export const sessionListPages: SessionPage[] = [
  {
    kind: 'session',
    method: 'GET',
    path: address,
    styles: 'forms',
    serve: async (context, { sessions }) =>
      context.session
        ? sessionsView(context, context.session, await sessions.list(context.caller))
        : toLogin(context.to, address),
  },
  {
    kind: 'session',
    method: 'POST',
    ...endOthers,
    async serve(context, { sessions }) {
      if (!context.session) return toLogin(context.to, address)
      await sessions.endOthers(context.caller, context.session.id)
      return toList(context, endOthers)
    },
  },
  {
    kind: 'session',
    method: 'POST',
    ...endOne,
    async serve(context, { sessions }) {
      if (!context.session) return toLogin(context.to, address)
      await sessions.end(context.caller, context.params.id ?? '')
      return toList(context, endOne)
    },
  },
]

function toList(context: PageContext, form: typeof endOne): Redirect {
  const next = toDonePage(context.to.own('sessions'), form, { context, value: undefined })
  return new Redirect(next.address, 303, next.headers)
}

function sessionsView(context: PageContext, own: Session, sessions: Session[]): View {
  const { to, time, caller } = context
  const sorted = [...sessions].sort(
    (one, other) =>
      Number(other.id === own.id) - Number(one.id === own.id) || other.seenAt - one.seenAt,
  )
  return {
    title: 'Sessions · svc',
    crumbs: [{ text: 'Sessions' }],
    body: html`<div class="page-head"><h1>Sessions <span class="count">${sessions.length}</span></h1>
${sessions.length > 1 && askButton(context, { action: to.own('sessions/end-others'), verb: 'End', object: 'all others', isInRow: false, consequence: 'They must log in again.', className: '', isLocked: false })}
<p class="soft">Where <b>${caller.username}</b> is logged in. A session ends with its token, after 30 days, or after 7 days without a visit.</p></div>
${doneNotice(context)}
<ul class="card rows">
${sorted.map(({ id, userAgent, seenAt, createdAt, expiresAt, unlockedUntil, sshKeyId }) => {
  const device = deviceOf(userAgent)
  const isOwn = id === own.id
  return html`<li class="row">
<div class="grow"><h2 class="row-title">${device}${isOwn && html`<span class="badge accent">this session</span>`}</h2>
<p class="soft">seen ${time.age(isOwn ? time.at : seenAt)}, logged in ${time.age(createdAt)} with ${sshKeyId === null ? 'a token' : 'an SSH key'}, ends ${time.age(expiresAt)}</p></div>
<span class="soft nowrap">${icon(unlockedUntil > time.at ? 'key' : 'lock')} ${unlockedUntil > time.at ? html`can make changes, locks ${time.age(unlockedUntil)}` : 'read-only'}</span>
${isOwn ? formButton(to.own('logout'), 'Log out') : askButton(context, { action: to.own(`sessions/${id}/end`), verb: 'End', object: `the session of ${device}`, consequence: 'It must log in again.', isLocked: false })}
</li>`
})}
</ul>`,
  }
}

// In this order: most browsers also name those that they descend from.
const browsers: [RegExp, string][] = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bFirefox\/|\bFxiOS\//, 'Firefox'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/Chrom(?:e|ium)\/|\bCriOS\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
]

const systems: [RegExp, string][] = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bWindows\b/, 'Windows'],
  [/\bMacintosh\b|\bMac OS X\b/, 'macOS'],
  [/\bLinux\b|\bX11\b/, 'Linux'],
]

/** The browser and device that a User-Agent header names, in words: `Firefox on Linux`. */
export function deviceOf(userAgent: string): string {
  const browser = browsers.find(([shape]) => shape.test(userAgent))?.[1]
  const system = systems.find(([shape]) => shape.test(userAgent))?.[1]
  if (browser !== undefined) return system === undefined ? browser : `${browser} on ${system}`
  const program = /^[\w.-]{1,40}/.exec(userAgent)?.[0]
  if (program === undefined || program === 'Mozilla') return system ?? 'Unknown device'
  return program
}
