import { isAdmin } from '#access/may.ts'
import { doneNotice } from '../done.ts'
import { copyButton, icon } from '../icons.ts'
import { action, type Done, type PageContext, page, type View } from '../page.ts'
import { askButton, fieldText, otherProblem } from '../page-forms.ts'
import { pager, wholeCount } from '../pager.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { lifeOf } from './expiry.ts'
import { newTokenOf, tokenForm } from './token-form.ts'

type Token = OperationValues['listTokens'][number]

const crumb = (to: PageContext['to']) => ({ text: 'Tokens', href: to.own('tokens') })

/** The new token is in the cookie of what was done, so that loading a page again neither creates nor shows one again. */
const created: Done = {
  text: 'Copy the new token now: it is shown only once.',
  subject(_, value) {
    // The response of the operation.
    const { name, token } = value as { name: string; token: string }
    return `${token} ${name}`
  },
}

export const tokenPages = [
  page('/-/tokens', ['listDelegatedTokens', 'listTokens'], {
    weight: 'light',
    audience: 'members',
    styles: 'forms',
    async show(context) {
      const page = { query: { limit: 100, cursor: fieldText(context.query, 'cursor') } }
      const { value, next } = await context.readPage(
        isAdmin(context.caller) ? 'listTokens' : 'listDelegatedTokens',
        page,
      )
      return tokensView(context, value, next)
    },
  }),
  page('/-/tokens/new', ['listTokens'], {
    weight: 'light',
    audience: 'members',
    styles: 'forms',
    async show(context) {
      await context.read('listTokens', { query: { limit: 1 } })
      return {
        title: 'New token · svc',
        crumbs: [crumb(context.to), { text: 'New' }],
        body: html`<h1>New token</h1>
<section class="card pad">${tokenForm(context, 'new')}</section>`,
      }
    },
  }),
  page('/-/tokens/delegate', ['listDelegatedTokens'], {
    weight: 'light',
    audience: 'members',
    styles: 'forms',
    async show(context) {
      await context.read('listDelegatedTokens', { query: { limit: 1 } })
      return {
        title: 'Delegate a token · svc',
        crumbs: [crumb(context.to), { text: 'Delegate' }],
        body: html`<h1>Delegate a token</h1>
<p class="soft lead">For an agent or a script: a token with a part of the rights of this session’s token. It ends with that one.</p>
<section class="card pad">${tokenForm(context, 'delegate')}</section>`,
      }
    },
  }),
  action('/-/tokens/new', 'createToken', {
    formPage: '/-/tokens/new',
    isSensitive: true,
    input: ({ fields }) => ({
      body: { ...newTokenOf(fields), username: fieldText(fields, 'username') },
    }),
    redirectTo: ({ to }) => to.own('tokens'),
    done: created,
  }),
  action('/-/tokens/delegate', 'delegateToken', {
    formPage: '/-/tokens/delegate',
    isSensitive: true,
    input: ({ fields }) => ({ body: newTokenOf(fields) }),
    redirectTo: ({ to }) => to.own('tokens'),
    done: created,
  }),
  action('/-/tokens/:id/delete', 'deleteToken', {
    formPage: '/-/tokens',
    isSensitive: true,
    input: () => ({}),
    redirectTo: ({ to }) => to.own('tokens'),
    done: { text: 'The token is deleted.' },
  }),
  action('/-/tokens/delegated/:id/delete', 'deleteDelegatedToken', {
    formPage: '/-/tokens',
    isSensitive: true,
    input: () => ({}),
    redirectTo: ({ to }) => to.own('tokens'),
    done: { text: 'The token is deleted.' },
  }),
]

function tokensView(context: PageContext, tokens: Token[], next: string | undefined): View {
  const { to, caller } = context
  const isForAdmin = isAdmin(caller)
  return {
    title: 'Tokens · svc',
    crumbs: [{ text: 'Tokens' }],
    json: isForAdmin ? '/tokens' : '/tokens/delegated',
    body: html`<div class="page-head"><h1>Tokens${wholeCount(context, tokens, next)}</h1>
<div class="actions"><a class="button" href="${to.own('tokens/delegate')}">Delegate</a>
${isForAdmin && html`<a class="button primary" href="${to.own('tokens/new')}">${icon('plus')}New token</a>`}</div>
<p class="soft">${isForAdmin ? 'All tokens of this service.' : 'The tokens that were delegated from the one of this session.'} Programs use them for the API and for Git over HTTP.</p></div>
${doneNotice(context)}${createdToken(context)}${otherProblem(context)}
${!isForAdmin && ownFacts(context)}
${
  tokens.length === 0
    ? html`<p class="card pad soft">No tokens have been delegated yet.</p>`
    : html`<ul class="card rows">${tokens.map((token) => tokenRow(context, token))}</ul>`
}
${pager(context, next)}`,
  }
}

/** A token, the one time that it can be shown. */
function createdToken({ done }: PageContext): Html | undefined {
  const [token = '', ...name] = done?.subject?.split(' ') ?? []
  if (token === '') return undefined
  return html`<section class="card pad new-token"><h2>${name.join(' ')}</h2><div class="copy-field"><code>${token}</code>${copyButton()}</div></section>`
}

/** The token of the session, which its own user cannot list. */
function ownFacts({ caller, session, time }: PageContext): Html {
  const { permissions, repositories, refs, expiresAt } = caller
  return html`<section class="card pad own-token"><h2>This session</h2>
<dl class="facts"><dt>User</dt><dd>${caller.username}</dd>
<dt>Permissions</dt><dd class="badges">${[...permissions].map((one) => html`<span class="badge">${one}</span>`)}</dd>
<dt>Repositories</dt><dd>${repositories === undefined ? 'all that the user can see' : `${repositories.size} of them`}</dd>
<dt>Refs</dt><dd>${refs === undefined ? 'all' : refs.map((ref) => html`<code>${ref}</code> `)}</dd>
<dt>Expires</dt><dd>${expiresAt ? time.age(expiresAt) : 'never'}${session && html`, the session ${time.age(session.expiresAt)}`}</dd></dl></section>`
}

/** The repositories to which a token or key is limited; undefined for all. */
export function limitedTo(to: PageContext['to'], names: string[] | null): Html | undefined {
  if (names === null) return undefined
  const links = names.map(
    (name, index) => html`${index > 0 && ', '}<a href="${to.repository(name)}">${name}</a>`,
  )
  return html`<p class="soft">Only ${links}${names.length === 0 && 'repositories that are gone'}</p>`
}

function tokenRow(context: PageContext, token: Token): Html {
  const { to, time, caller, session } = context
  const { id, name, username, permissions, repositories, refs, delegatedFrom } = token
  const isForAdmin = isAdmin(caller)
  const path = isForAdmin ? `tokens/${id}/delete` : `tokens/delegated/${id}/delete`
  return html`<li class="row">
<div class="grow"><h2 class="row-title">${name}${delegatedFrom !== null && isForAdmin && html`<span class="badge">delegated</span>`}${session?.tokenId === id && html`<span class="badge accent">this session</span>`}</h2>
<p class="soft">${isForAdmin && html`of <b>${username}</b>, `}${lifeOf(token, time)}</p>
<p class="badges">${permissions.map((one) => html`<span class="badge ${one === 'admin' ? 'accent' : ''}">${one}</span>`)}</p>
${limitedTo(to, repositories)}
${refs !== null && html`<p class="soft">Pushes only ${refs.map((ref) => html`<code>${ref}</code> `)}</p>`}
</div>
${session?.tokenId !== id && askButton(context, { action: to.own(path), verb: 'Delete', object: name, consequence: 'What uses it has no access any more, nor have tokens that were delegated from it.', isSensitive: true })}
</li>`
}
