import { icon } from '../icons.ts'
import type { PageContext } from '../page.ts'
import { createForm, formButton, type PageForm } from '../page-forms.ts'
import type { OperationValues } from '../read-operations.ts'
import { type Html, html } from '../render/html.ts'
import { changeLink, plainText, renderText } from './change-parts.ts'

export type Comment = OperationValues['listChangeComments'][number]

/** A thread: its comments, or those of them that are on the page. */
export type Thread = { first: Comment; comments: Comment[] }

type Options = {
  /** Whether the caller has proposed the change, or may push to its repository. */
  isEditor: boolean
  /** The address of a form of the page about comments. */
  formAt: (path: string) => string
  /** The address of the page with the form that edits a comment; without an id, without such a form. */
  editAt: (id: string | undefined) => string
}

/** The threads of comments, oldest first. */
export function toThreads(comments: readonly Comment[]): Thread[] {
  return [...Map.groupBy(comments, ({ threadId }) => threadId).values()].flatMap((thread) => {
    const [first] = thread
    return first ? [{ first, comments: thread }] : []
  })
}

/** Creates the views of threads on a page, with their forms. The forms show their own problems. */
export async function createThreadViews(
  context: PageContext,
  { isEditor, formAt, editAt }: Options,
) {
  const { may, caller, time, query } = context
  const mayComment = await may('commentOnChange')
  const mayEdit = await may('updateChangeComment')
  const forms: PageForm[] = []

  function newForm(path: string): PageForm {
    const form = createForm(context, formAt(path))
    forms.push(form)
    return form
  }

  async function commentView(comment: Comment): Promise<Html> {
    const { id, text, username, createdAt, editedAt } = comment
    const isOwn = mayEdit && username === caller.username
    const isEdited = isOwn && query.get('edit') === id
    const head = html`<p class="soft"><b>${username}</b> · ${time.age(createdAt)}${editedAt !== null && ' · edited'}${
      isOwn && !isEdited && html` · <a href="${editAt(id)}">Edit</a>`
    }</p>`
    return html`<article class="comment" id="comment-text-${id}">${head}
${isEdited ? editForm(comment) : await textView(text)}</article>`
  }

  async function textView(text: string): Promise<Html> {
    const rendered = await renderText(context, { kind: 'comment', text, rev: 'HEAD' })
    return rendered ? html`<div class="prose">${rendered}</div>` : plainText(text)
  }

  function editForm({ id, text }: Comment): Html {
    const form = newForm(`/${id}/edit`)
    return form.render(
      html`${textArea(form, { label: 'Comment', value: text, hasFocus: true })}
<div class="actions"><button class="primary">Save</button><a class="button quiet" href="${editAt(undefined)}">Cancel</a></div>`,
    )
  }

  /** Renders a thread, to be shown below its place or a link to it. */
  async function thread({ first, comments }: Thread): Promise<(place?: Html | false) => Html> {
    const { threadId, resolvedBy } = first
    const form = newForm(`/${threadId}/reply`)
    const isResolved = resolvedBy !== null
    // Who has begun a thread is known where its first comment is on the page.
    const isOwn = first.id === threadId && first.username === caller.username
    const bodies: Html[] = []
    for (const comment of comments) bodies.push(await commentView(comment))
    const end =
      (mayComment || isResolved) &&
      html`<div class="thread-end actions">${isResolved && html`<p class="soft">${icon('check')} Resolved by ${resolvedBy}</p>`}
${mayEdit && (isEditor || isOwn) && formButton(formAt(`/${threadId}/${isResolved ? 'reopen' : 'resolve'}`), isResolved ? 'Reopen' : 'Resolve')}
${mayComment && html`<details class="reply"${form.isSent && html` open`}><summary>Reply</summary>${form.render(html`${textArea(form, { label: 'Reply' })}<button>Reply</button>`)}</details>`}</div>`
    return (place) => html`<div class="card thread" id="comment-${threadId}">${place}
${bodies}
${end}</div>`
  }

  /** The form of a new comment, which begins a thread. One that was opened can be cancelled. */
  function newComment(
    path: string,
    { hidden, cancel }: { hidden?: Html; cancel?: string } = {},
  ): Html | false {
    if (!mayComment) return false
    const form = newForm(path)
    const isOpened = cancel !== undefined
    return form.render(html`${hidden}${textArea(form, { label: 'Comment', hasFocus: isOpened })}
<div class="actions"><button${isOpened && html` class="primary"`}>Comment</button>${isOpened && html`<a class="button quiet" href="${cancel}">Cancel</a>`}</div>`)
  }

  return { thread, newComment, mayComment, forms }
}

function textArea(
  form: PageForm,
  field: { label: string; value?: string; hasFocus?: boolean },
): Html {
  return form.area({ name: 'text', help: 'Markdown', rows: 4, isRequired: true, ...field })
}

/** The file and line that a thread is on, as a link to it; nothing for the change as a whole. */
export function placeLink(
  context: Pick<PageContext, 'to' | 'params'>,
  { path, line, side, version }: Comment,
): Html | false {
  if (path === null) return false
  const query = { version, file: path, ...(line !== null && { lines: 'all' }) }
  const hash = line === null ? '' : `#f1${side === 'old' ? 'L' : 'R'}${line}`
  const href = changeLink(context, { path: '/files', query }) + hash
  return html`<p class="card-head soft"><span>On <a class="mono" href="${href}">${path}</a>${line !== null && `, line ${line}`} of version ${version}</span></p>`
}
