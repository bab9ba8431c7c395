import { counted } from '../display-text.ts'
import { icon } from '../icons.ts'
import type { PageContext } from '../page.ts'
import { createForm, formButton, type PageForm } from '../page-forms.ts'
import { pager } from '../pager.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { changeLink, plainText, renderText, type ShownChange } from './change-parts.ts'

const pageSize = 50

type Comment = OperationValues['listChangeComments'][number]

/** What is said of a change: its verdicts and comments, with their forms. The forms show their own problems. */
export async function conversation(
  context: PageContext,
  { change, isEditor }: { change: ShownChange; isEditor: boolean },
): Promise<{ content: Html; forms: PageForm[] }> {
  const { readPage, query, may, caller } = context
  const { value: comments, next } = await readPage('listChangeComments', {
    query: { limit: pageSize, cursor: query.get('cursor') || undefined },
  })
  const mayComment = await may('commentOnChange')
  const mayResolve = await may('updateChangeComment')
  const threads = [...Map.groupBy(comments, ({ threadId }) => threadId).values()]
  const forms: PageForm[] = []
  const shown: Html[] = []
  for (const thread of threads) {
    const [first] = thread
    if (!first) continue
    const at = (path: string) =>
      changeLink(context, { path: `/comments/${first.threadId}/${path}` })
    const form = createForm(context, at('reply'))
    forms.push(form)
    const isResolved = first.resolvedBy !== null
    // Who has begun a thread is known where its first comment is on the page.
    const isOwn = first.id === first.threadId && first.username === caller.username
    const bodies: Html[] = []
    for (const comment of thread) bodies.push(await commentView(context, comment))
    shown.push(html`<li class="card" id="comment-${first.threadId}">${placeOf(context, first)}
${bodies}
${
  (mayComment || isResolved) &&
  html`<div class="thread-end">${isResolved && html`<p class="soft">${icon('check')} Resolved by ${first.resolvedBy}</p>`}
${mayResolve && (isEditor || isOwn) && formButton(at(isResolved ? 'reopen' : 'resolve'), isResolved ? 'Reopen' : 'Resolve')}
${mayComment && html`<details class="fold"${form.isSent && html` open`}><summary>Reply</summary>${form.render(html`${textArea(form, 'Reply')}<button>Reply</button>`)}</details>`}</div>`
}</li>`)
  }
  const form = createForm(context, changeLink(context, { path: '/comments' }))
  forms.push(form)
  return {
    content: html`${await verdicts(context, change)}
<section id="conversation"><h2>${change.comments === 0 ? 'Conversation' : counted(change.comments, 'comment')}</h2>
${shown.length > 0 && html`<ol class="threads">${shown}</ol>`}
${pager(context, next, { first: 'First comments', next: 'Later comments' })}
${mayComment && form.render(html`${textArea(form, 'Comment')}<button>Comment</button>`)}</section>`,
    forms,
  }
}

function textArea(form: PageForm, label: string): Html {
  return html`${form.area({ name: 'text', label, help: 'Markdown', rows: 4, isRequired: true })}`
}

/** The line that a thread is on, as a link to its file. */
function placeOf(context: PageContext, { path, line, version }: Comment): Html | false {
  if (path === null) return false
  const query = { version, file: path }
  return html`<p class="card-head soft"><span>On <a class="mono" href="${changeLink(context, { path: '/files', query })}">${path}</a>${line !== null && `, line ${line}`} of version ${version}</span></p>`
}

async function commentView(context: PageContext, comment: Comment): Promise<Html> {
  const { time } = context
  const { id, text, username, createdAt, editedAt } = comment
  const rendered = await renderText(context, { kind: 'comment', text, rev: 'HEAD' })
  return html`<article class="comment" id="comment-text-${id}"><p class="soft"><b>${username}</b> · ${time.age(createdAt)}${editedAt !== null && ' · edited'}</p>
${rendered ? html`<div class="prose">${rendered}</div>` : plainText(text)}</article>`
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
