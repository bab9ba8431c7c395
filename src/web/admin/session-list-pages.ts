import { html } from '../../render/html.ts'
import type { Session } from '../../sessions/sessions.ts'
import { icon } from '../icons.ts'
import { type PageContext, Redirect, type SessionPage, type View } from '../page.ts'
import { formButton } from '../page-forms.ts'
import { toLogin } from '../session-pages.ts'
import { deviceOf } from './user-agent.ts'

const address = '/-/sessions'

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
    path: '/-/sessions/end-others',
    async serve(context, { sessions }) {
      if (!context.session) return toLogin(context.to, address)
      await sessions.endOthers(context.caller, context.session.id)
      return new Redirect(context.to.own('sessions'))
    },
  },
  {
    kind: 'session',
    method: 'POST',
    path: '/-/sessions/:id/end',
    async serve(context, { sessions }) {
      if (!context.session) return toLogin(context.to, address)
      await sessions.end(context.caller, context.params.id ?? '')
      return new Redirect(context.to.own('sessions'))
    },
  },
]

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
${sessions.length > 1 && formButton(to.own('sessions/end-others'), 'End all others', { className: 'danger' })}
<p class="soft">Where <b>${caller.username}</b> is logged in. A session ends with its token, after 30 days, or after 7 days without a visit.</p></div>
<ul class="card rows">
${sorted.map(({ id, userAgent, seenAt, createdAt, expiresAt, unlockedUntil, sshKeyId }) => {
  const device = deviceOf(userAgent)
  const isOwn = id === own.id
  return html`<li class="row">
<div class="grow"><h2 class="row-title">${device}${isOwn && html`<span class="badge accent">this session</span>`}</h2>
<p class="soft">seen ${time.age(isOwn ? time.at : seenAt)}, logged in ${time.age(createdAt)} with ${sshKeyId === null ? 'a token' : 'an SSH key'}, ends ${time.age(expiresAt)}</p></div>
<span class="soft nowrap">${icon(unlockedUntil > time.at ? 'key' : 'lock')} ${unlockedUntil > time.at ? html`can make changes, locks ${time.age(unlockedUntil)}` : 'read-only'}</span>
${isOwn ? formButton(to.own('logout'), 'Log out') : formButton(to.own(`sessions/${id}/end`), 'End', { label: `End the session of ${device}`, className: 'small danger' })}
</li>`
})}
</ul>`,
  }
}
