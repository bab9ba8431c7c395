import { counted } from '../display-text.ts'
import { icon } from '../icons.ts'
import type { PageContext } from '../page.ts'
import type { PageForm } from '../page-forms.ts'
import { pager } from '../pager.ts'
import { type Html, html } from '../render/html.ts'
import { changeLink, type ShownChange } from './change-parts.ts'
import { createThreadViews, placeLink, toThreads } from './thread-view.ts'

const pageSize = 50

/** What is said of a change: its verdicts and comments, with their forms. The forms show their own problems. */
export async function conversation(
  context: PageContext,
  { change, isEditor }: { change: ShownChange; isEditor: boolean },
): Promise<{ content: Html; forms: PageForm[] }> {
  const { readPage, query } = context
  const cursor = query.get('cursor') || undefined
  const { value: comments, next } = await readPage('listChangeComments', {
    query: { limit: pageSize, cursor },
  })
  const search = cursor === undefined ? '' : `?${new URLSearchParams({ cursor })}`
  const views = await createThreadViews(context, {
    isEditor,
    formAt: (path) => `${changeLink(context, { path: `/comments${path}` })}${search}`,
    editAt: (edit) => changeLink(context, { query: { cursor, edit } }),
  })
  const shown: Html[] = []
  for (const thread of toThreads(comments)) {
    const render = await views.thread(thread)
    shown.push(html`<li>${render(placeLink(context, thread.first))}</li>`)
  }
  return {
    content: html`${await verdicts(context, change)}
<section id="conversation"><h2>${change.comments === 0 ? 'Conversation' : counted(change.comments, 'comment')}</h2>
${shown.length > 0 && html`<ol class="threads">${shown}</ol>`}
${pager(context, next, { first: 'First comments', next: 'Later comments' })}
${views.newComment('')}</section>`,
    forms: views.forms,
  }
}

const words = {
  approve: { shape: 'check', tone: 'good', text: 'approves' },
  'request-changes': { shape: 'cross', tone: 'bad', text: 'requests changes' },
} as const

/** The verdicts, and the form of the caller's own. Those who propose a change have none on it. */
async function verdicts(context: PageContext, change: ShownChange): Promise<Html | false> {
  const { caller, may, time } = context
  const { verdicts: given, state, username, version } = change
  const mayJudge = state === 'open' && username !== caller.username && (await may('judgeChange'))
  if (given.length === 0 && !mayJudge) return false
  const own = given.find((one) => one.username === caller.username)
  const button = (verdict: string, text: string) =>
    html`<button class="small" name="verdict" value="${verdict}">${text}</button>`
  return html`<section id="verdicts"><h2>Verdicts</h2>
${
  given.length > 0 &&
  html`<ul class="card verdicts">${given.map((one) => {
    const { shape, tone, text } = words[one.verdict]
    return html`<li>${icon(shape, tone)} <b>${one.username}</b> ${text} <span class="soft">of version ${one.version} · ${time.age(one.createdAt)}${!one.counts && ' · does not count'}</span></li>`
  })}</ul>`
}
${
  mayJudge &&
  html`<form method="post" class="actions" action="${changeLink(context, { path: '/verdict' })}"><input type="hidden" name="version" value="${version}">
${own?.verdict !== 'approve' && button('approve', 'Approve')}${own?.verdict !== 'request-changes' && button('request-changes', 'Request changes')}${own && button('none', 'Withdraw')}</form>`
}</section>`
}
