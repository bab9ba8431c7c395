import { doneNotice } from '../done.ts'
import { action, type PageContext, page, type View } from '../page.ts'
import { askButton, fieldText, formButton, otherProblem } from '../page-forms.ts'
import { pager, wholeCount } from '../pager.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'

type User = OperationValues['listUsers'][number]

export const userPages = [
  page('/-/users', ['listUsers'], {
    weight: 'light',
    audience: 'members',
    styles: 'forms',
    async show(context) {
      const { value, next } = await context.readPage('listUsers', {
        query: { limit: 50, cursor: fieldText(context.query, 'cursor') },
      })
      return usersView(context, value, next)
    },
  }),
  action('/-/users/:username/disable', 'updateUser', {
    formPage: '/-/users',
    input: () => ({ body: { disabled: true } }),
    redirectTo: ({ to }) => to.own('users'),
    done: { text: 'The user is disabled.' },
  }),
  action('/-/users/:username/enable', 'updateUser', {
    formPage: '/-/users',
    input: () => ({ body: { disabled: false } }),
    redirectTo: ({ to }) => to.own('users'),
    done: { text: 'The user is enabled.' },
  }),
]

function usersView(context: PageContext, users: User[], next: string | undefined): View {
  return {
    title: 'Users · svc',
    crumbs: [{ text: 'Users' }],
    json: '/users',
    body: html`<div class="page-head"><h1>Users${wholeCount(context, users, next)}</h1>
<p class="soft">Everybody who has, or had, a login, a token or a key.</p></div>
${doneNotice(context)}${otherProblem(context)}
<ul class="card rows">${users.map((user) => userRow(context, user))}</ul>
${pager(context, next)}`,
  }
}

function userRow(context: PageContext, user: User): Html {
  const { to, time, caller } = context
  const { username, displayName, email, source, lastSeenAt, disabledAt, loginEndedAt } = user
  const { groups, login } = user
  const name = encodeURIComponent(username)
  const seen = lastSeenAt === null ? 'never seen' : html`seen ${time.age(lastSeenAt)}`
  return html`<li class="row">
<div class="grow"><h2 class="row-title">${username}${source === 'login' && html`<span class="badge">logs in</span>`}${disabledAt !== null && html`<span class="badge accent">disabled</span>`}</h2>
<p class="soft">${displayName !== '' && html`${displayName}, `}${email !== '' && html`${email}, `}${seen}${disabledAt !== null && html`, disabled ${time.age(disabledAt)}`}${loginEndedAt !== null && html`, without rights since ${time.age(loginEndedAt)}, until the next login`}</p>
${login && html`<p class="soft">${login.subject} at ${login.issuer}${groups.length > 0 && `, in ${groups.join(', ')}`}</p>`}</div>
${disabledAt !== null && formButton(to.own(`users/${name}/enable`), 'Enable', { label: `Enable ${username}` })}
${disabledAt === null && username !== caller.username && askButton(context, { action: to.own(`users/${name}/disable`), verb: 'Disable', object: username, consequence: 'All of its tokens, keys and sessions are invalid until it is enabled again.' })}
</li>`
}
